//! Tests of faults: broken replies, failing tools and provider errors.

use std::{
    future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use expect_test::expect;
use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    RunEvent, RunInput, ToolCall, ToolError, ToolExt as _, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, StopReason},
    call::FailureKind,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError},
    tool::{DynamicTool, ToolPolicy},
};
use haft_react::{LimitAction, ReactAgent};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_paired, assert_request_paired, message_lines},
    tools::{
        add_tool, calculator, failing_tool, hanging_tool, panicking_tool, retrying_tool,
        tool_without_parameters, waiting_tool, with_call_counter,
    },
};

/// If the arguments of a call are malformed, the model gets an error and the tool does not run.
#[tokio::test]
async fn malformed_arguments_are_returned_to_the_model_without_a_call() {
    let (add, ran) = with_call_counter(&add_tool());
    let malformed = [r#"{"x":1"#, "not json", "[1]", "null"];
    let model = malformed
        .iter()
        .fold(ScriptedModel::new(), |model, arguments| model.reply_calls([("", "add", *arguments)]));
    let model = model.reply_text("I give up.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_tool(add)).unwrap();

    let output = agent.run("Add.").await.unwrap();

    assert_eq!((output.text().unwrap(), ran.load(Ordering::Relaxed)), ("I give up.", 0));
    assert!(output.results_of("add").all(|it| it.failure().unwrap().kind == FailureKind::InvalidArguments));
    expect![[r#"
        user: Add.
        assistant: call_1 add{"x":1
        tool: call_1 invalid arguments: not JSON: EOF while parsing an object at line 1 column 6; write one JSON object
        assistant: call_2 addnot json
        tool: call_2 invalid arguments: not JSON: expected ident at line 1 column 2; write one JSON object
        assistant: call_3 add[1]
        tool: call_3 invalid arguments: /: expected object, received array [1]
        assistant: call_4 addnull
        tool: call_4 invalid arguments: /: expected object, received null
    "#]]
    .assert_eq(&message_lines(&model.requests()[4]));
}

/// Calls that fail, panic, hang or return 50 MB do not affect the other calls in the reply.
#[tokio::test(start_paused = true)]
async fn call_that_panics_hangs_or_floods_affects_no_other_call() {
    let flood = tool_without_parameters("flood", || async { "x".repeat(50_000_000) });
    let tools = calculator()
        .with_tool(panicking_tool())
        .with_tool(hanging_tool(Duration::from_millis(50)))
        .with_tool(flood)
        .with_tool(failing_tool());
    let model = ScriptedModel::new()
        .reply_calls([
            ("a", "add", r#"{"x":17,"y":25}"#),
            ("b", "fail", "{}"),
            ("c", "panic", "{}"),
            ("d", "hang", "{}"),
            ("e", "flood", "{}"),
        ])
        .reply_text("Done.");
    let agent = ReactAgent::new(model.clone(), tools).unwrap();

    let answer = agent.run("All at once.").await.unwrap().into_answer().unwrap();

    assert_paired(&answer.transcript);
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text()).collect();
    assert_eq!(texts[..2], ["42", "no luck"]);
    assert_eq!(texts[2], "the tool panicked; it may have done a part of its work");
    assert_eq!(texts[3], "timed out after 50 ms");
    assert!(texts[4].len() < 200_000 && texts[4].contains("bytes in 1 pieces are cut"), "{}", texts[4].len());
}

/// On a multi-thread runtime, a tool that blocks its thread times out. The second call in the same
/// reply is not delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_blocks_its_thread_times_out() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let block = std::sync::Arc::new(move || {
        let _ = blocked.lock().unwrap().recv();
    });
    let blocks = tool_without_parameters("block", move || {
        let block = std::sync::Arc::clone(&block);
        async move { block() }
    });
    let policy = ToolPolicy { timeout: Some(Duration::from_millis(50)), ..ToolPolicy::default() };
    let tools = calculator().with_tool(blocks.with_definition(|it| it.with_policy(policy)));
    let model = ScriptedModel::new()
        .reply_calls([("a", "block", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, tools).unwrap();

    let output = agent.run("Block.").await.unwrap();

    assert_eq!(output.results_of("block").next().unwrap().model_text(), "timed out after 50 ms");
    assert_eq!(output.results_of("add").next().unwrap().model_text(), "2");
    drop(release);
}

/// If the model calls an unknown tool, the error suggests the closest name and lists the available
/// tools.
#[tokio::test]
async fn unknown_tool_error_lists_the_tools() {
    let model = ScriptedModel::new().reply_calls([("a", "ad", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, calculator().with_tool(waiting_tool())).unwrap();

    let output = agent.run("Add.").await.unwrap();

    assert_eq!(output.text().unwrap(), "Done.");
    let error = output.results_of("ad").next().unwrap().model_text();
    assert_eq!(error, r#"unknown tool "ad"; did you mean "add"? available: add, wait"#);
}

/// If a reply is truncated inside a call, no call runs, and the error contains the partial message.
#[tokio::test]
async fn call_of_a_truncated_reply_never_runs() {
    let (add, ran) = with_call_counter(&add_tool());
    let expected = AssistantMessage {
        tool_calls: vec![
            ToolCall::new("a", "add", r#"{"x":1,"y":1}"#),
            ToolCall::new("b", "add", r#"{"x":1"#),
        ],
        ..AssistantMessage::default()
    };
    let truncated =
        ChatResponse { finish_reason: FinishReason::Length, ..ChatResponse::new(expected.clone()) };
    let agent =
        ReactAgent::new(ScriptedModel::new().reply(truncated), Toolset::new().with_tool(add)).unwrap();

    let error = agent.run("Add.").await.unwrap_err();

    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_paired(&error.transcript);
    match *error.kind {
        AgentErrorKind::Model(ModelError::Truncated { partial, .. }) => assert_eq!(*partial, expected),
        other => panic!("{other:?}"),
    }
}

/// If a content filter stops a reply, the run fails with `ContentFiltered`.
#[tokio::test]
async fn content_filter_is_a_typed_error() {
    let filtered = ChatResponse { finish_reason: FinishReason::ContentFilter, ..ChatResponse::new("Well, ") };
    let agent = ReactAgent::new(ScriptedModel::new().reply(filtered), calculator()).unwrap();
    let error = agent.run("Tell me.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::ContentFiltered { .. }), "{error:?}");
    assert_eq!(error.to_string(), "a content filter of the provider stopped the reply");
}

/// A refusal ends the run with [`StopReason::Refusal`]. Calls in the same reply do not run, and the
/// conversation can be continued.
#[tokio::test]
async fn refusal_is_an_answer_with_its_own_stop_reason() {
    let call = ToolCall::new("a", "add", r#"{"x":1,"y":1}"#);
    for tool_calls in [vec![], vec![call]] {
        let refusal = AssistantMessage {
            refusal: Some("I would rather not.".to_owned()),
            tool_calls,
            ..AssistantMessage::default()
        };
        let model = ScriptedModel::new().reply(ChatResponse::new(refusal)).reply_text("Fine.");
        let agent = ReactAgent::new(model, calculator()).unwrap();
        let answer = agent.run("Tell me.").await.unwrap().into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), ("I would rather not.", StopReason::Refusal));
        assert_paired(&answer.transcript);
        let next = RunInput::new("And now?").with_history(answer.transcript);
        assert_eq!(agent.run(next).await.unwrap().text().unwrap(), "Fine.");
    }
}

/// After an empty reply, the request is repeated, up to two times in a row. The third empty reply
/// in a row ends the run with `EmptyResponse`.
#[tokio::test]
async fn empty_reply_is_retried_and_then_an_error() {
    let model = ScriptedModel::new().reply_text("").fail(ModelError::EmptyResponse).reply_text("Hello.");
    let agent = ReactAgent::new(model, calculator()).unwrap();
    assert_eq!(agent.run("Hi").await.unwrap().text().unwrap(), "Hello.");

    let model = ScriptedModel::new().reply_text("").reply_text(" ").fail(ModelError::EmptyResponse);
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let error = agent.run("Hi").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::EmptyResponse)), "{error:?}");
    assert_eq!((error.usage.requests, error.transcript.len()), (3, 1));
}

fn truncated_error(partial: AssistantMessage) -> ModelError {
    ModelError::Truncated { reason: "connection reset".to_owned(), partial: Box::new(partial) }
}

fn delta(text: &str) -> Result<ChatEvent, ModelError> {
    Ok(ChatEvent::TextDelta { text: text.to_owned() })
}

/// Returns the text deltas in `events`, and the problems reported for the rejected replies.
fn text_and_rejections(events: &[RunEvent]) -> Vec<String> {
    let line = |event: &RunEvent| match event {
        RunEvent::TextDelta { text } => Some(text.clone()),
        RunEvent::ReplyRejected { problem } => Some(format!("refused: {problem}")),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

/// After a truncated reply, the request is repeated, and the calls in the truncated reply do not
/// run. In a stream, the event `ReplyRejected` marks the preceding deltas as invalid.
#[tokio::test]
async fn truncated_reply_is_retried_without_its_partial_content() {
    let (add, ran) = with_call_counter(&add_tool());
    let partial = ToolCall::new("a", "add", r#"{"x":1,"y":1}"#);
    let partial = AssistantMessage { tool_calls: vec![partial], ..AssistantMessage::from("It is") };
    let truncated = || {
        let started = ChatEvent::ToolCallStarted { index: 0, id: "a".to_owned(), name: "add".to_owned() };
        let unreadable = ModelError::InvalidResponse("an event is no JSON".to_owned());
        ScriptedModel::new()
            .reply_events([delta("It is"), Ok(started), Err(truncated_error(partial.clone()))])
            .reply_events([delta("Well, "), Err(unreadable)])
            .reply_chunks(["It is ", "42."])
    };
    let agent = |model| ReactAgent::new(model, Toolset::new().with_tool(add.clone())).unwrap();

    let events: Vec<_> = agent(truncated()).stream("Add.").try_collect().await.unwrap();
    expect![[r#"
        [
            "It is",
            "refused: the reply was cut: connection reset",
            "Well, ",
            "refused: the model's reply cannot be read: an event is no JSON",
            "It is ",
            "42.",
        ]
    "#]]
    .assert_debug_eq(&text_and_rejections(&events));
    let Some(RunEvent::Done { output }) = events.into_iter().next_back() else { panic!("no end") };
    let (streamed, awaited) = (output.into_answer().unwrap(), agent(truncated()).run("Add.").await.unwrap());
    let awaited = awaited.into_answer().unwrap();
    for answer in [streamed, awaited] {
        assert_eq!((&*answer.text, answer.transcript.len(), answer.usage.requests), ("It is 42.", 2, 3));
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

/// If three replies in a row are truncated, the run fails. The error contains the partial text of
/// the last reply.
#[tokio::test]
async fn repeated_truncation_is_an_error_with_the_partial_text() {
    let agent = || {
        let reply = |text: &str| [delta(text), Err(truncated_error(text.into()))];
        let model = ScriptedModel::new()
            .reply_events(reply("O"))
            .reply_events(reply("On"))
            .reply_events(reply("Once"));
        ReactAgent::new(model, calculator()).unwrap()
    };
    let mut events: Vec<_> = agent().stream("A story.").collect().await;
    let errors = [events.pop().unwrap().unwrap_err(), agent().run("A story.").await.unwrap_err()];
    let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
    let refused = "refused: the reply was cut: connection reset";
    assert_eq!(text_and_rejections(&events), ["O", refused, "On", refused, "Once"]);
    for error in errors {
        assert_eq!((error.transcript.len(), error.usage.requests), (1, 3));
        let AgentErrorKind::Model(ModelError::Truncated { partial, .. }) = *error.kind else {
            panic!("{error:?}")
        };
        assert_eq!(partial.text(), "Once");
    }
}

/// A server error after the first delta truncates the reply, and the run repeats the request. A
/// server error before the first delta ends the run, since the model has already retried the
/// request.
#[tokio::test]
async fn server_error_within_a_stream_truncates_the_reply() {
    let overloaded = || ModelError::Server { status: None, body: "overloaded".to_owned(), retry_after: None };
    let agent = |model| ReactAgent::new(model, calculator()).unwrap();
    let truncated = || [delta("It"), Err(overloaded())];
    let model = ScriptedModel::new().reply_events(truncated()).reply_chunks(["It is ", "42."]);
    let events: Vec<_> = agent(model).stream("Add.").try_collect().await.unwrap();
    let refused = "refused: the reply was cut: the model's server failed: overloaded";
    assert_eq!(text_and_rejections(&events), ["It", refused, "It is ", "42."]);

    let model =
        ScriptedModel::new().reply_events(truncated()).reply_events(truncated()).reply_events(truncated());
    let error = agent(model).stream("Add.").try_collect::<Vec<_>>().await.unwrap_err();
    let AgentErrorKind::Model(ModelError::Truncated { partial, .. }) = *error.kind else {
        panic!("{error:?}")
    };
    assert_eq!(partial.text(), "It");

    let error = agent(ScriptedModel::new().fail(overloaded())).stream("Add.").try_collect::<Vec<_>>();
    let error = error.await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::Server { .. })), "{error:?}");
}

#[tokio::test]
async fn truncated_reply_is_not_retried_at_the_request_limit() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#)])
        .fail(truncated_error("It is".into()));
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let builder =
        ReactAgent::builder(model).tools(calculator()).limits(limits).limit_action(LimitAction::Answer);
    let error = builder.build().unwrap().run("Add.").await.unwrap_err();
    let AgentErrorKind::Model(ModelError::Truncated { partial, .. }) = *error.kind else {
        panic!("{error:?}")
    };
    assert_eq!((partial.text().as_str(), error.usage.requests), ("It is", 2));
}

#[tokio::test]
async fn model_error_ends_the_run_and_keeps_the_transcript() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#)])
        .fail(ModelError::Unauthorized("no such key".to_owned()));
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::Unauthorized(_))), "{error:?}");
    assert_eq!(error.transcript.len(), 3);
    assert_paired(&error.transcript);
}

#[tokio::test]
async fn fatal_tool_error_ends_the_run() {
    let fatal = tool_without_parameters("fatal", || async {
        Err::<(), _>(ToolError::Fatal("no such account".to_owned()))
    });
    let model = ScriptedModel::new().reply_calls([("a", "fatal", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)]);
    let agent = ReactAgent::new(model, calculator().with_tool(fatal)).unwrap();
    let error = agent.run("Go.").await.unwrap_err();
    assert_eq!(error.to_string(), r#"tool "fatal" stopped the run: no such account"#);
    assert_paired(&error.transcript);
}

/// A tool can request retries up to its budget. After that, the call fails, and the error advises
/// the model to continue without the tool.
#[tokio::test]
async fn tool_can_request_retries_within_its_budget() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "retry", "{}")])
        .reply_calls([("b", "fail", "{}"), ("c", "retry", "{}")])
        .reply_text("Done.");
    let agent =
        ReactAgent::new(model, Toolset::new().with_tool(retrying_tool()).with_tool(failing_tool())).unwrap();

    let output = agent.run("Go.").await.unwrap();

    let results: Vec<_> = output.results_of("retry").map(|result| result.failure().unwrap()).collect();
    assert_eq!((results[0].kind, &*results[0].message), (FailureKind::Retry, "try again"));
    assert_eq!(results[1].kind, FailureKind::Failed);
    assert_eq!(results[1].message, "try again\nThere are no more tries: go on without it.");
}

/// The retry budget counts replies in a row. A failure that requests no retry does not use the
/// budget. Several calls in one reply use it once, and a success resets it.
#[tokio::test]
async fn retry_budget_counts_consecutive_replies() {
    let outcomes = std::sync::Mutex::new(["fail", "retry", "retry", "done", "retry"].into_iter());
    let varying = tool_without_parameters("varying", move || {
        let outcome = outcomes.lock().unwrap().next();
        async move {
            match outcome {
                Some("done") => Ok("fine"),
                Some("retry") => Err(ToolError::retry("try again")),
                _ => Err(ToolError::failed("no luck")),
            }
        }
    })
    .with_definition(|it| it.with_policy(ToolPolicy { sequential: true, ..ToolPolicy::default() }));
    let model = ScriptedModel::new()
        .reply_calls([("a", "varying", "{}")])
        .reply_calls([("b", "varying", "{}"), ("c", "varying", "{}")])
        .reply_calls([("d", "varying", "{}")])
        .reply_calls([("e", "varying", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(varying))
        .max_repeated_calls(None)
        .build()
        .unwrap();

    let output = agent.run("Go.").await.unwrap();

    let kinds: Vec<_> =
        output.results_of("varying").map(|it| it.failure().map(|failure| failure.kind)).collect();
    let retry = Some(FailureKind::Retry);
    assert_eq!(kinds, [Some(FailureKind::Failed), retry, retry, None, retry]);
}

/// Alternating calls (A, B, A, B) and identical calls in one reply count as repetitions. The first
/// repetitions cause a warning in the results, and further repetitions end the run.
#[tokio::test]
async fn repeated_rounds_of_calls_are_reported_and_end_the_run() {
    let (a, b) = (("", "add", r#"{"x":1,"y":1}"#), ("", "add", r#"{"x":2,"y":2}"#));
    let warnings =
        |request: &ChatRequest| message_lines(request).matches("Warning: this is the same call").count();
    let rounds = (0..3)
        .fold(ScriptedModel::new(), |model, _| model.reply_calls([a]).reply_calls([b]))
        .reply_calls([a])
        .reply_calls([b]);
    let agent = ReactAgent::new(rounds.clone(), calculator()).unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(3))), "{error:?}");
    assert_eq!(rounds.requests().iter().map(warnings).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 2]);

    let at_once = ScriptedModel::new().reply_calls([a; 5]).reply_calls([a]);
    let agent = ReactAgent::new(at_once.clone(), calculator()).unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(3))), "{error:?}");
    assert_eq!(at_once.requests().iter().map(warnings).collect::<Vec<_>>(), [0, 5]);
}

/// The result of the third identical call contains a warning. The fourth identical call ends the
/// run and is not executed.
#[tokio::test]
async fn repeated_call_is_reported_and_then_ends_the_run() {
    let (add, ran) = with_call_counter(&add_tool());
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":2}"#)])
        .reply_calls([("b", "add", r#"{"y":2, "x":1}"#)])
        .reply_calls([("c", "add", r#"{"x":1,"y":2}"#)])
        .reply_with(|request| {
            assert_request_paired(request);
            assert!(
                message_lines(request)
                    .contains("c 3\nWarning: this is the same call as before, 3 times in a row")
            );
            let call = ToolCall::new("d", "add", r#"{"x":1,"y":2}"#);
            Ok(ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() }))
        });
    let agent = ReactAgent::new(model, Toolset::new().with_tool(add)).unwrap();

    let error = agent.run("Add.").await.unwrap_err();

    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(3))), "{error:?}");
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    assert_paired(&error.transcript);
}

/// Without the limit on repeated calls, a tool can be called any number of times, for example to
/// poll a status.
#[tokio::test]
async fn repetition_limit_can_be_disabled() {
    let model = (0..5)
        .fold(ScriptedModel::new(), |model, _| model.reply_calls([("", "fail", "{}")]))
        .reply_text("Done.");
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(failing_tool()))
        .max_repeated_calls(None)
        .build()
        .unwrap();
    let output = agent.run("Ask until it works.").await.unwrap();
    assert!(output.results_of("fail").all(|result| result.model_text() == "no luck"));
}

#[tokio::test]
async fn limit_of_output_retries_can_be_set() {
    let model = ScriptedModel::new().reply_text("");
    let agent = ReactAgent::builder(model).max_output_retries(0).build().unwrap();
    assert_eq!(agent.run("Hi").await.unwrap_err().usage.requests, 1);
}

fn invalid_generation(reason: &str, generation: Option<&str>) -> ModelError {
    ModelError::InvalidGeneration { reason: reason.to_owned(), generation: generation.map(str::to_owned) }
}

/// A mistake that the server found goes back to the model with the text of the server, streamed or
/// not.
#[tokio::test]
async fn invalid_generation_is_corrected_by_the_model() {
    for is_streamed in [false, true] {
        let model = ScriptedModel::new()
            .fail(invalid_generation("/x: expected integer", Some("add(x=")))
            .fail(invalid_generation("no call", None))
            .reply_calls([("", "add", r#"{"x":1,"y":2}"#)])
            .reply_text("It is 3.");
        let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
        let text = if is_streamed {
            let events: Vec<_> = agent.stream("1 plus 2?").try_collect().await.unwrap();
            let rejected = events.iter().filter(|it| matches!(it, RunEvent::ReplyRejected { .. }));
            assert_eq!(rejected.count(), 2);
            let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
            output.text().unwrap().to_owned()
        } else {
            agent.run("1 plus 2?").await.unwrap().text().unwrap().to_owned()
        };
        assert_eq!(text, "It is 3.");
        let last = &model.requests()[2];
        let texts: Vec<_> = last.messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["1 plus 2?", "add(x=", "/x: expected integer", "no call"]);
        assert_request_paired(last);
    }
}

/// The corrections are bounded, and the run ends with the error of the server.
#[tokio::test]
async fn invalid_generations_are_bounded() {
    let model =
        (0..3).fold(ScriptedModel::new(), |model, _| model.fail(invalid_generation("not readable", None)));
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
    let error = agent.run("1 plus 2?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::InvalidGeneration { .. })), "{error:?}");
    assert!(error.to_string().contains("not readable"), "{error}");
    assert_eq!(model.requests().len(), 3);
}

/// A content filter is asked once, and the error has the same kind as for a filtered reply.
#[tokio::test]
async fn request_rejected_by_a_filter_is_not_repeated() {
    let model = ScriptedModel::new().fail(ModelError::ContentFiltered("the prompt was flagged".to_owned()));
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
    let error = agent.run("Tell me.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::ContentFiltered { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a content filter of the provider stopped the reply: the prompt was flagged"
    );
    assert_eq!(model.requests().len(), 1);
}

/// A tool whose results are `results`, one after the other, then the last one again.
fn tool_with_results(results: &'static [&'static str]) -> DynamicTool {
    let calls = AtomicUsize::new(0);
    tool_without_parameters("status", move || {
        let call = calls.fetch_add(1, Ordering::Relaxed).min(results.len() - 1);
        future::ready(results.get(call).copied().unwrap_or_default())
    })
}

/// A repetition is the same call with an equal result. A tool can be polled while its results
/// change, alone or in turns with another call.
#[tokio::test]
async fn repetition_is_a_call_with_an_equal_result() {
    const CHANGING: &[&str] = &["0 %", "20 %", "40 %", "60 %", "80 %", "100 %", "again"];
    const EQUAL: &[&str] = &["waiting"];
    const STUCK_LATER: &[&str] = &["0 %", "50 %", "waiting"];
    const IN_TURNS: &[&str] = &["a", "b", "a", "b", "a", "b", "a", "b", "a"];
    let (poll, pause) = (("", "status", "{}"), ("", "pause", "{}"));
    let alone = [poll; 7].to_vec();
    let with_pause: Vec<_> = [poll, pause].repeat(6);
    let limit = |calls| Some((calls, 3));
    for (results, calls, expected) in [
        (CHANGING, &alone, None),
        (CHANGING, &with_pause, None),
        (IN_TURNS, &alone, None),
        (EQUAL, &alone, limit(3)),
        (EQUAL, &with_pause, limit(7)),
        (STUCK_LATER, &alone, limit(5)),
    ] {
        let replies = expected.map_or(calls.len(), |(executed, _)| executed + 1);
        let calls = calls.iter().take(replies);
        let model = calls.fold(ScriptedModel::new(), |model, call| model.reply_calls([*call]));
        let model = if expected.is_none() { model.reply_text("Done.") } else { model };
        let pause = tool_without_parameters("pause", || future::ready("paused"));
        let tools = Toolset::new().with_tool(tool_with_results(results)).with_tool(pause);
        let result = ReactAgent::new(model.clone(), tools).unwrap().run("Wait.").await;
        match (result, expected) {
            (Ok(output), None) => assert_eq!(output.text().unwrap(), "Done.", "{results:?}"),
            (Err(error), Some((executed, limit))) => {
                let is_limit = matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(it)) if it == limit);
                assert!(is_limit, "{results:?}: {error:?}");
                let done = error.transcript.tool_results().filter(|it| it.failure().is_none());
                assert_eq!(done.count(), executed, "{results:?}");
            }
            (other, _) => panic!("{results:?}: {other:?}"),
        }
    }
}

/// A repeatable tool can be called any number of times, also in turns with another tool.
#[tokio::test]
async fn calls_of_a_repeatable_tool_are_not_limited() {
    let (poll, pause) = (("", "status", "{}"), ("", "pause", "{}"));
    for calls in [[poll; 8].to_vec(), [poll, pause].repeat(5)] {
        let model = calls.iter().fold(ScriptedModel::new(), |model, call| model.reply_calls([*call]));
        let status = tool_with_results(&["waiting"]).map_policy(ToolPolicy::with_repeatable_calls);
        let pause = tool_without_parameters("pause", || future::ready("paused"));
        let tools = Toolset::new().with_tool(status).with_tool(pause);
        let agent = ReactAgent::new(model.reply_text("Done."), tools).unwrap();
        assert_eq!(agent.run("Wait.").await.unwrap().text().unwrap(), "Done.");
    }
}

/// A failure that repeats is a repetition, also if a note was added to its message.
#[tokio::test]
async fn repeated_failure_ends_the_run() {
    let model = (0..4).fold(ScriptedModel::new(), |model, _| model.reply_calls([("", "fail", "{}")]));
    let agent = ReactAgent::new(model, Toolset::new().with_tool(failing_tool())).unwrap();
    let error = agent.run("Try.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RepeatedCalls(3))), "{error:?}");
    assert!(error.transcript.tool_results().nth(2).unwrap().model_text().contains("3 times in a row"));
}

/// A reply that announces calls and has none is not an answer. The model is asked again, and the
/// run ends with a typed error if this does not help.
#[tokio::test]
async fn reply_that_announces_a_missing_call_is_rejected() {
    let announced = || ChatResponse {
        finish_reason: FinishReason::ToolCalls,
        ..ChatResponse::new(AssistantMessage::from("I look it up."))
    };
    let agent = |model: &ScriptedModel| ReactAgent::new(model.clone(), calculator()).unwrap();

    let model = ScriptedModel::new().reply(announced()).reply_text("42");
    let output = agent(&model).run("Sum?").await.unwrap();
    assert_eq!(output.text().unwrap(), "42");
    assert!(message_lines(&model.requests()[1]).contains("Your reply announced a tool call and had none."));

    let model = ScriptedModel::new().reply(announced()).reply(announced()).reply(announced());
    let error = agent(&model).run("Sum?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(_))), "{error:?}");

    // Gateways that emulate a response format by a tool announce a call to a request without tools.
    let model = ScriptedModel::new().reply(announced());
    let output = ReactAgent::new(model, Toolset::new()).unwrap().run("Sum?").await.unwrap();
    assert_eq!(output.text().unwrap(), "I look it up.");

    // A written call in the text is the announced call.
    let written = r#"{"name": "add", "arguments": {"x": 17, "y": 25}}"#;
    let written = ChatResponse { finish_reason: FinishReason::ToolCalls, ..ChatResponse::new(written) };
    let model = ScriptedModel::new().reply(written).reply_text("42");
    assert_eq!(agent(&model).run("Sum?").await.unwrap().results_of("add").count(), 1);
}
