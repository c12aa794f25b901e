//! Tests of requests with a shortened context: omitted steps, the latest steps only, and summaries.

use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{Message, RunInput, Transcript, agent::AgentErrorKind, model::ModelError, usage::Usage};
use haft_core::{
    Schema, ToolCall,
    agent::{Limit, RunLimits},
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
};
use haft_react::{
    Effect, JsonReact, Outcome, OutputStrategy, ReactAgent, ReactAgentBuilder, Run, RunConfig, RunHandle,
    RunScope, TextReact, run::ContextConfig,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    effects::{advance, apply},
    pairing::{assert_paired, assert_request_paired, message_lines},
    tools::calculator,
};

fn too_long_error() -> ModelError {
    ModelError::ContextTooLong("too many tokens".to_owned())
}

/// Adds one reply to the script of `model` for each number in `numbers`. Each reply has two calls
/// to `add`.
fn script_add_calls(model: ScriptedModel, numbers: std::ops::Range<u32>) -> ScriptedModel {
    numbers.fold(model, |model, number| {
        model.reply_calls([
            (&format!("{number}a"), "add", &format!(r#"{{"x":{number},"y":1}}"#)),
            (&format!("{number}b"), "add", &format!(r#"{{"x":{number},"y":2}}"#)),
        ])
    })
}

fn builder(model: &ScriptedModel) -> ReactAgentBuilder {
    ReactAgent::builder(model.clone()).tools(calculator())
}

/// Returns a conversation of two turns. The first turn contains a call.
fn earlier() -> Transcript {
    let message = AssistantMessage {
        tool_calls: vec![ToolCall::new("z", "add", r#"{"x":0,"y":0}"#)],
        ..AssistantMessage::default()
    };
    let result = haft_core::ToolResult::done("z", "add", haft_core::ToolOutput::from("0"));
    [
        Message::user("Nothing?"),
        Message::assistant(message),
        Message::tool(result),
        Message::assistant("0."),
        Message::user("Thanks."),
        Message::assistant("Bye."),
    ]
    .into_iter()
    .collect()
}

/// If the context is too long, the oldest turn or step is omitted, up to three times in a row. The
/// fourth context overflow in a row is an error.
#[tokio::test]
async fn oldest_steps_are_omitted_at_most_three_times() {
    let model = script_add_calls(ScriptedModel::new(), 1..4)
        .fail(too_long_error())
        .fail(too_long_error())
        .fail(too_long_error())
        .reply_text("Done.");
    let input = RunInput::new("Add.").with_history(earlier());
    let answer = builder(&model).build().unwrap().run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.transcript.len()), ("Done.", 6 + 1 + 3 * 3 + 1));
    assert_paired(&answer.transcript);
    let requests = model.requests();
    requests.iter().for_each(assert_request_paired);
    let lengths: Vec<_> = requests.iter().map(|request| request.messages.len()).collect();
    assert_eq!(lengths, [7, 10, 13, 16, 12, 10, 7]);
    expect![[r#"
        user: Add.
        assistant: 2a add{"x":2,"y":1}; 2b add{"x":2,"y":2}
        tool: 2a 3
        tool: 2b 4
        assistant: 3a add{"x":3,"y":1}; 3b add{"x":3,"y":2}
        tool: 3a 4
        tool: 3b 5
    "#]]
    .assert_eq(&message_lines(&requests[6]));

    let model = script_add_calls(ScriptedModel::new(), 1..5);
    let model = (0..4).fold(model, |model, _| model.fail(too_long_error()));
    let error = builder(&model).build().unwrap().run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::ContextTooLong(_))));
    assert_eq!((error.transcript.len(), model.requests().len()), (1 + 4 * 3, 8));
    assert_paired(&error.transcript);
}

/// The question and the last step are always sent. If these two alone are too long, the run fails.
#[tokio::test]
async fn question_and_last_step_are_never_omitted() {
    let model = script_add_calls(ScriptedModel::new(), 1..2).fail(too_long_error());
    let error = builder(&model).build().unwrap().run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::ContextTooLong(_))));
    assert_eq!(model.requests().len(), 2);
}

/// `ContextConfig::latest` limits the number of turns and steps in each request.
#[tokio::test]
async fn view_is_limited_to_the_latest_steps() {
    for (latest, expected) in [(1, [3, 4, 4, 4]), (2, [7, 6, 7, 7]), (9, [7, 10, 13, 16])] {
        let model = script_add_calls(ScriptedModel::new(), 1..4).reply_text("Done.");
        let context = ContextConfig { latest: Some(latest), ..ContextConfig::default() };
        let agent = builder(&model).context(context).build().unwrap();
        let answer =
            agent.run(RunInput::new("Add.").with_history(earlier())).await.unwrap().into_answer().unwrap();
        assert_eq!(answer.transcript.len(), 6 + 1 + 3 * 3 + 1);
        model.requests().iter().for_each(assert_request_paired);
        let lengths: Vec<_> = model.requests().iter().map(|request| request.messages.len()).collect();
        assert_eq!(lengths, expected, "{latest}");
    }
}

/// A summary replaces all messages before the last step, except the question. Calls and results
/// stay paired, and an overflow directly after the summary is an error.
#[tokio::test]
async fn summary_replaces_the_older_messages() {
    let summary =
        ChatResponse { usage: Usage::one_request(50, 5), ..ChatResponse::new("1+1=2, 1+2=3, 2+1=3, 2+2=4.") };
    let compactor = ScriptedModel::new().reply(summary);
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error());
    let model = script_add_calls(model, 4..5).reply_text("Done.");
    let agent = builder(&model).compactor(compactor.clone()).build().unwrap();
    let answer =
        agent.run(RunInput::new("Add.").with_history(earlier())).await.unwrap().into_answer().unwrap();
    assert_paired(&answer.transcript);
    assert_eq!((&*answer.text, answer.steps.len(), answer.usage.total_tokens()), ("Done.", 8, 55));
    let requests = model.requests();
    requests.iter().for_each(assert_request_paired);
    expect![[r#"
        user: Summary of the conversation so far:
        1+1=2, 1+2=3, 2+1=3, 2+2=4.
        user: Add.
        assistant: 3a add{"x":3,"y":1}; 3b add{"x":3,"y":2}
        tool: 3a 4
        tool: 3b 5
        assistant: 4a add{"x":4,"y":1}; 4b add{"x":4,"y":2}
        tool: 4a 5
        tool: 4b 6
    "#]]
    .assert_eq(&message_lines(&requests[5]));
    expect![[r#"
        user: user: Nothing?
        assistant calls add: {"x":0,"y":0}
        result of add: 0
        assistant: 0.
        user: Thanks.
        assistant: Bye.
        user: Add.
        assistant calls add: {"x":1,"y":1}
        assistant calls add: {"x":1,"y":2}
        result of add: 2
        result of add: 3
        assistant calls add: {"x":2,"y":1}
        assistant calls add: {"x":2,"y":2}
        result of add: 3
        result of add: 4

    "#]]
    .assert_eq(&message_lines(&compactor.requests()[0]));

    // An overflow directly after the summary is an error, since only the last step is left.
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error()).fail(too_long_error());
    let agent = builder(&model).compactor(ScriptedModel::new().reply_text("Sums.")).build().unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::ContextTooLong(_))));
}

#[tokio::test]
async fn failed_summary_omits_the_oldest_step() {
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error()).reply_text("Done.");
    let agent = builder(&model).compactor(ScriptedModel::new().fail(too_long_error())).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "Done.");
    assert_eq!(model.requests()[4].messages.len(), 1 + 2 * 3);
}

/// Steps are omitted as soon as the token count exceeds `ContextConfig::tokens`, before the model
/// rejects a request as too long.
#[tokio::test]
async fn token_limit_omits_steps_in_advance() {
    let costly = |number: u32| {
        let call = ToolCall::new("", "add", format!(r#"{{"x":{number},"y":1}}"#));
        let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        ChatResponse { usage: Usage::one_request(60 * u64::from(number), 1), ..ChatResponse::new(message) }
    };
    let model = ScriptedModel::new().reply(costly(1)).reply(costly(2)).reply(costly(3)).reply_text("Done.");
    let context = ContextConfig { tokens: Some(100), ..ContextConfig::default() };
    builder(&model).context(context).build().unwrap().run("Add.").await.unwrap();
    let lengths: Vec<_> = model.requests().iter().map(|request| request.messages.len()).collect();
    assert_eq!(lengths, [1, 3, 3, 3]);
}

/// After the model rejects a request as too long, the text and JSON dialects omit the same messages
/// as the native dialect.
#[tokio::test]
async fn view_is_the_same_in_every_dialect() {
    let step = |number: u32| format!("Thought: So.\nAction: add\nArguments: {{\"x\": {number}, \"y\": 1}}");
    let model = ScriptedModel::new()
        .reply_text(step(1))
        .reply_text(step(2))
        .fail(too_long_error())
        .reply_text("Answer: 5");
    let agent = builder(&model).dialect(TextReact).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "5");
    assert_eq!(model.requests()[3].messages.len(), 3);
    let model = ScriptedModel::new()
        .reply_text(r#"{"tool_name":"add","tool_args":{"x":1,"y":1}}"#)
        .reply_text(r#"{"tool_name":"add","tool_args":{"x":2,"y":1}}"#)
        .fail(too_long_error())
        .reply_text(r#"{"answer":5}"#);
    let agent = builder(&model).dialect(JsonReact::new()).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "5");
    assert_eq!(model.requests()[3].messages.len(), 3);
}

/// Requests contain only the latest summary. When the conversation is summarized again, the input
/// for the new summary contains the previous one.
#[tokio::test]
async fn new_summary_replaces_the_previous_summary() {
    let compactor = ScriptedModel::new().reply_text("One.").reply_text("Two.").reply_text("Three.");
    let model = script_add_calls(ScriptedModel::new().fail(too_long_error()), 1..4).fail(too_long_error());
    let model = script_add_calls(model, 4..6).fail(too_long_error()).reply_text("Done.");
    let agent = builder(&model).compactor(compactor.clone()).build().unwrap();
    let answer =
        agent.run(RunInput::new("Add.").with_history(earlier())).await.unwrap().into_answer().unwrap();
    assert_paired(&answer.transcript);
    assert_eq!(answer.usage.requests, 9 + 3);
    let requests = model.requests();
    requests.iter().for_each(assert_request_paired);
    expect![[r#"
        user: Summary of the conversation so far:
        One.
        user: Add.
    "#]]
    .assert_eq(&message_lines(&requests[1]));
    expect![[r#"
        user: Summary of the conversation so far:
        Three.
        user: Add.
        assistant: 5a add{"x":5,"y":1}; 5b add{"x":5,"y":2}
        tool: 5a 6
        tool: 5b 7
    "#]]
    .assert_eq(&message_lines(requests.last().unwrap()));
    expect![[r#"
        user: user: Summary of the conversation so far:
        Two.
        user: Add.
        assistant calls add: {"x":3,"y":1}
        assistant calls add: {"x":3,"y":2}
        result of add: 4
        result of add: 5
        assistant calls add: {"x":4,"y":1}
        assistant calls add: {"x":4,"y":2}
        result of add: 5
        result of add: 6

    "#]]
    .assert_eq(&message_lines(&compactor.requests()[2]));
}

/// If a conversation was summarized, the next run sends the summary and the messages that the
/// summary does not cover.
#[tokio::test]
async fn next_run_starts_at_the_summary() {
    let compactor = ScriptedModel::new().reply_text("1+1=2, 1+2=3.");
    let model = script_add_calls(ScriptedModel::new(), 1..3)
        .fail(too_long_error())
        .reply_text("Done.")
        .reply_text("You are welcome.");
    let agent = builder(&model).compactor(compactor).build().unwrap();
    let first =
        agent.run(RunInput::new("Add.").with_history(earlier())).await.unwrap().into_answer().unwrap();
    agent.run(RunInput::new("Thanks.").with_history(first.transcript)).await.unwrap();
    expect![[r#"
        user: Summary of the conversation so far:
        1+1=2, 1+2=3.
        assistant: 2a add{"x":2,"y":1}; 2b add{"x":2,"y":2}
        tool: 2a 3
        tool: 2b 4
        assistant: Done.
        user: Thanks.
    "#]]
    .assert_eq(&message_lines(model.requests().last().unwrap()));
}

/// The text to summarize is at most about 100 kB long. The text contains the whole earlier summary,
/// which ends with the open tasks.
#[tokio::test]
async fn record_for_a_summary_is_bounded_and_keeps_the_last_summary() {
    let long = format!("{} STILL TO DO", "x".repeat(9_000));
    let compactor = ScriptedModel::new().reply_text(long).reply_text("Two.");
    let text = "y".repeat(3_000);
    let many = (0..300).flat_map(|_| [Message::user(text.clone()), Message::assistant(text.clone())]);
    let mut transcript: Transcript = many.collect();
    transcript.push(Message::user("The last."));
    transcript.push(Message::assistant("Yes."));
    let model = script_add_calls(ScriptedModel::new().fail(too_long_error()), 1..3)
        .fail(too_long_error())
        .reply_text("Done.");
    let agent = builder(&model).compactor(compactor.clone()).build().unwrap();
    agent.run(RunInput::new("Add.").with_history(transcript)).await.unwrap();
    let records: Vec<_> = compactor.requests().iter().map(message_lines).collect();
    assert!(records[0].len() <= 101_000, "{}", records[0].len());
    assert!(records[0].ends_with("user: The last.\nassistant: Yes.\nuser: Add.\n\n"));
    assert!(records[1].contains("STILL TO DO"));
}

/// If the summary fails or is truncated, the oldest steps are omitted instead, up to three times in
/// a row.
#[tokio::test]
async fn failed_summaries_omit_steps_at_most_three_times() {
    let cut = ChatResponse { finish_reason: FinishReason::Length, ..ChatResponse::new("1+1=2, 1+") };
    for compactor in [ScriptedModel::new().fail(too_long_error()), ScriptedModel::new().reply(cut)] {
        let model = script_add_calls(ScriptedModel::new(), 1..5);
        let model = (0..3).fold(model, |model, _| model.fail(too_long_error())).reply_text("Done.");
        let agent = builder(&model).compactor(compactor.clone()).build().unwrap();
        let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, compactor.requests().len()), ("Done.", 1));
        assert!(!message_lines(model.requests().last().unwrap()).contains("Summary"));
        assert_eq!(model.requests().last().unwrap().messages.len(), 1 + 3);
    }
}

/// Summaries work even if no step may be omitted (`omissions: 0`). The builder methods for the two
/// settings can be called in any order.
#[tokio::test]
async fn compactor_is_independent_of_the_omission_limit() {
    let context = ContextConfig { omissions: 0, ..ContextConfig::default() };
    let compactor = ScriptedModel::new().reply_text("Sums.").reply_text("Sums.");
    let script = || script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error()).reply_text("Done.");
    let (first, second) = (script(), script());
    let agents = [
        builder(&first).compactor(compactor.clone()).context(context),
        builder(&second).context(context).compactor(compactor.clone()),
    ];
    for agent in agents {
        assert_eq!(agent.build().unwrap().run("Add.").await.unwrap().text().unwrap(), "Done.");
    }
    assert_eq!(compactor.requests().len(), 2);
}

#[tokio::test]
async fn summaries_count_towards_the_request_limit() {
    let limited = |compactor: &ScriptedModel, model: &ScriptedModel, requests| {
        let limits = RunLimits { requests: Some(requests), ..RunLimits::default() };
        builder(model).compactor(compactor.clone()).limits(limits).build().unwrap()
    };
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error());
    let compactor = ScriptedModel::new().reply_text("Sums.");
    let error = limited(&compactor, &model, 5).run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(5))), "{error}");
    assert_eq!((model.requests().len(), compactor.requests().len(), error.usage.requests), (4, 1, 5));

    // If the run has reached its request limit, no summary is requested.
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error());
    let compactor = ScriptedModel::new();
    let error = limited(&compactor, &model, 4).run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(4))), "{error}");
    assert!(compactor.requests().is_empty());
}

/// A reply without calls does not count as a step. Otherwise `latest: Some(1)` would omit the
/// results of the last calls.
#[tokio::test]
async fn reply_without_a_call_is_not_counted_as_a_step() {
    let outputs =
        Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap();
    let model = script_add_calls(ScriptedModel::new(), 1..3)
        .reply_text("That is all.")
        .reply_calls([("f", "finish", r#"{"sum":"many"}"#)])
        .reply_calls([("g", "finish", r#"{"sum":4}"#)]);
    let context = ContextConfig { latest: Some(1), ..ContextConfig::default() };
    let agent = builder(&model).outputs(outputs).output_strategy(OutputStrategy::Extraction).context(context);
    agent.build().unwrap().run("Add.").await.unwrap();
    expect![[r#"
        user: Add.
        assistant: 2a add{"x":2,"y":1}; 2b add{"x":2,"y":2}
        tool: 2a 3
        tool: 2b 4
        assistant: That is all.
        user: Now give the outputs, from what was said and found.
        assistant: {"sum":"many"}
        user: The answer does not have the form that it must have:
        /sum: expected integer, received string "many"
        Give it again.
    "#]]
    .assert_eq(&message_lines(model.requests().last().unwrap()));
}

/// The input of a run can consist of several messages with any roles. None of them is omitted when
/// the context is too long.
#[tokio::test]
async fn all_messages_of_the_input_are_the_question() {
    let earlier_messages: Vec<_> = earlier().messages().iter().map(|message| (**message).clone()).collect();
    let mut input = RunInput::new("Add.");
    let haft_core::agent::RunStart::New { messages, .. } = &mut input.start else { panic!() };
    messages.splice(0..0, earlier_messages);
    let model = script_add_calls(ScriptedModel::new(), 1..4).fail(too_long_error()).reply_text("Done.");
    builder(&model).build().unwrap().run(input).await.unwrap();
    let last = message_lines(model.requests().last().unwrap());
    assert!(last.contains("user: Nothing?") && last.contains("user: Add."), "{last}");
    assert_eq!(model.requests().last().unwrap().messages.len(), 7 + 2 * 3);
}

/// Creates a run with a limit of three requests, whose first request is too long for the model. The
/// run requests a summary next.
fn run_before_summary() -> Run {
    let context = ContextConfig { compaction: true, ..ContextConfig::default() };
    let limits = RunLimits { requests: Some(3), ..RunLimits::default() };
    let config = RunConfig { context, limits, ..RunConfig::default() };
    let mut run = Run::new(&config, RunInput::new("Go.").with_history(earlier())).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    apply(&mut run, Outcome::Replied(Err(too_long_error()))).unwrap();
    run
}

/// A summary counts once towards the request limit, even if the run returns `Effect::Compact`
/// repeatedly.
#[test]
fn repeated_effect_requests_one_summary() {
    let mut run = run_before_summary();
    for _ in 0..3 {
        assert!(matches!(advance(&mut run).unwrap(), Effect::Compact(_)));
    }
    apply(&mut run, Outcome::Compacted(Ok(Box::new(ChatResponse::new("Sums."))))).unwrap();
    // The third request is allowed.
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    apply(&mut run, Outcome::Replied(Err(ModelError::EmptyResponse))).unwrap();
    let error = advance(&mut run).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Requests(3))), "{error:?}");
}

/// A run that stops requests no summary. It requests the summary when it continues.
#[tokio::test]
async fn stopping_run_requests_no_summary() {
    let compactor = ScriptedModel::new().reply_text("Sums.");
    let agent = builder(&ScriptedModel::new()).compactor(compactor.clone()).build().unwrap();
    let (handle, mut run) = (RunHandle::new(), run_before_summary());
    let scope = RunScope::new(&mut run, handle.bind("").context);
    handle.stop_after_step().unwrap();
    let effect = advance(&mut run).unwrap();
    let outcomes: Vec<_> = agent.perform(&run, effect, &scope).collect().await;
    assert!(matches!(outcomes[..], [Err(AgentErrorKind::Stopped)]), "{outcomes:?}");
    assert_eq!(compactor.requests().len(), 0);
    let effect = advance(&mut run).unwrap();
    let outcomes: Vec<_> = agent.perform(&run, effect, &scope).collect().await;
    assert!(matches!(outcomes[..], [Ok(Outcome::Compacted(Ok(_)))]), "{outcomes:?}");
}

/// A driver that crashes while a summary is requested requests it again, so both requests count.
#[test]
fn abandoned_request_for_a_summary_is_counted() {
    let mut run = run_before_summary();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Compact(_)));
    let mut run: Run = serde_json::from_value(json!(run)).unwrap();
    run.recover();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Compact(_)));
    apply(&mut run, Outcome::Compacted(Ok(Box::new(ChatResponse::new("Sums."))))).unwrap();
    assert_eq!(run.usage().requests, 3);
    let error = advance(&mut run).unwrap_err();
    assert!(matches!(error, AgentErrorKind::LimitReached(Limit::Requests(3))), "{error:?}");
}
