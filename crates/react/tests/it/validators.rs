//! Tests of output validators, the hooks that check an answer before the run ends.

use std::{
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    Message, RunEvent, RunInput, RunOutput, Schema, ToolExt as _, Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits, StopReason},
    call::{Decision, Decisions},
    message::AssistantMessage,
    model::ChatResponse,
    tool::{HostState, RunContext, ToolPolicy},
    usage::Usage,
};
use haft_react::{
    Dialect, Effect, JsonReact, LimitAction, NativeCalls, Output, OutputStrategy, ReactAgent,
    ReactAgentBuilder, Run, RunConfig, RunHandle, TextReact, Verdict,
    run::{Check, CheckVerdict, Checks, Delivery},
    transcript::{is_hint, is_unusable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    effects::{advance, judge, reply},
    pairing::{assert_paired, message_lines},
    tools::add_tool,
};

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}))
        .unwrap()
}

/// Adds an output validator that accepts only even sums.
fn with_even_sums(builder: ReactAgentBuilder) -> ReactAgentBuilder {
    builder.outputs(sum()).output_validator(|output, _| async move {
        match output.outputs["sum"].as_i64() {
            Some(sum) if sum % 2 == 0 => Ok(Verdict::Pass),
            _ => Ok(Verdict::retry("the sum must be even")),
        }
    })
}

/// Adds an output validator that rejects every answer.
fn with_rejecting_validator(builder: ReactAgentBuilder) -> ReactAgentBuilder {
    builder.output_validator(|_, _| ready(Ok(Verdict::retry("no"))))
}

fn hook_of(error: &AgentError) -> &'static str {
    match &*error.kind {
        AgentErrorKind::HookFailed { hook, .. } => hook,
        other => panic!("{other:?}"),
    }
}

fn finishing(name: &str, sum: i32) -> ChatResponse {
    match name {
        "native" => {
            let call = haft_core::ToolCall::new("f", "finish", format!(r#"{{"sum":{sum}}}"#));
            ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
        }
        "json" => ChatResponse::new(format!(
            r#"{{"thought":"Done.","tool_name":"finish","tool_args":{{"sum":{sum}}}}}"#
        )),
        _ => ChatResponse::new(format!("Thought: Done.\nAction: finish\nArguments: {{\"sum\": {sum}}}")),
    }
}

fn dialects() -> [Arc<dyn Dialect>; 3] {
    [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)]
}

#[tokio::test]
async fn rejected_answer_is_returned_to_the_model() {
    let model = ScriptedModel::new().reply_text("Maybe.").reply_text("Yes.");
    let agent = ReactAgent::builder(model.clone())
        .output_validator(|output, _| async move {
            match output.text.as_str() {
                "Yes." => Ok(Verdict::Pass),
                _ => Ok(Verdict::retry("say yes or no")),
            }
        })
        .build()
        .unwrap();

    let answer = agent.run("Is 7 a prime?").await.unwrap().into_answer().unwrap();

    assert_eq!((&*answer.text, answer.stop_reason), ("Yes.", StopReason::Finished));
    expect![[r#"
        user: Is 7 a prime?
        assistant: Maybe.
        user: Your answer was rejected: say yes or no
        Answer again.
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
    // A program that displays the transcript can omit the rejected answer and the hint about it.
    let is_displayed = |it: &&Arc<Message>| !is_unusable(it) && !is_hint(it);
    assert_eq!(answer.transcript.messages().iter().filter(is_displayed).count(), 2);
}

#[tokio::test]
async fn outputs_are_validated_in_every_dialect() {
    for dialect in dialects() {
        let name = dialect.name();
        let model = ScriptedModel::new().reply(finishing(name, 3)).reply(finishing(name, 4));
        let agent = with_even_sums(ReactAgent::builder(model.clone()).dialect(dialect)).build().unwrap();

        let answer = agent.run("Sum?").await.unwrap().into_answer().unwrap();

        assert_eq!((&answer.outputs["sum"], &*answer.text), (&json!(4), r#"{"sum":4}"#), "{name}");
        let request = message_lines(&model.requests()[1]);
        assert!(request.contains("the sum must be even"), "{name}: {request}");
        // In the JSON and text dialects, the next model request shows the rejected answer as a
        // `finish` step.
        assert!(name == "native" || request.contains("finish"), "{name}: {request}");
    }
}

/// In the text dialect, the next model request must show a rejected answer as a `finish` step.
#[tokio::test]
async fn rejected_text_remains_a_step_in_the_view() {
    let answer = |text: &str| format!("Thought: So.\nAction: finish\nArguments: {{\"answer\": \"{text}\"}}");
    let model = ScriptedModel::new().reply_text(answer("three")).reply_text(answer("four"));
    let agent = ReactAgent::builder(model.clone())
        .dialect(TextReact)
        .output_validator(|_, cx| async move {
            if cx.step == 1 { Ok(Verdict::retry("it is more")) } else { Ok(Verdict::Pass) }
        })
        .build()
        .unwrap();
    assert_eq!(agent.run("2 + 2?").await.unwrap().text().unwrap(), "four");
    expect![[r#"
        user: 2 + 2?
        assistant: Thought: So.
        Action: finish
        Arguments: {"answer":"three"}
        user: Your answer was rejected: it is more
        Answer again.
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

#[tokio::test]
async fn rejected_outputs_are_extracted_again() {
    let model = ScriptedModel::new()
        .reply_text("It is done.")
        .reply(finishing("native", 1))
        .reply(finishing("native", 2));
    let agent = with_even_sums(ReactAgent::builder(model))
        .output_strategy(OutputStrategy::Extraction)
        .build()
        .unwrap();
    let answer = agent.run("Sum?").await.unwrap().into_answer().unwrap();
    assert_eq!((&answer.outputs["sum"], answer.usage.requests), (&json!(2), 3));
}

#[tokio::test]
async fn validators_run_in_order_and_can_change_the_answer() {
    let model = ScriptedModel::new().reply_text("yes");
    let add = |more: &'static str| {
        move |mut output: Output, _| async move {
            output.text += more;
            Ok(Verdict::Replace(output))
        }
    };
    let agent = ReactAgent::builder(model).output_validator(add(", a")).output_validator(add(", b"));
    let answer = agent.build().unwrap().run("?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "yes, a, b");
    // The transcript contains the reply of the model without the changes by the validators.
    assert_eq!(answer.transcript.messages().last().unwrap().text(), "yes");
}

#[tokio::test]
async fn changed_outputs_are_validated_and_change_the_text() {
    for (sum, fits) in [(json!(8), true), (json!("eight"), false)] {
        let model = ScriptedModel::new().reply(finishing("native", 7));
        let agent = ReactAgent::builder(model).outputs(self::sum()).output_validator(move |mut output, _| {
            output.outputs["sum"] = sum.clone();
            ready(Ok(Verdict::Replace(output)))
        });
        match agent.build().unwrap().run("?").await {
            Ok(output) => assert_eq!((output.text().unwrap(), fits), (r#"{"sum":8}"#, true)),
            Err(error) => {
                assert_eq!((hook_of(&error), fits), ("output validator", false));
                assert!(format!("{error:?}").contains("expected integer"), "{error:?}");
            }
        }
    }
}

/// Schema violations and rejections by a validator count towards the same limit.
#[tokio::test]
async fn rejections_and_invalid_outputs_share_a_budget() {
    let model = ScriptedModel::new().reply_text("not JSON").reply(finishing("native", 3)).reply_text("no");
    let agent = with_even_sums(ReactAgent::builder(model)).build().unwrap();
    let error = agent.run("Sum?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
    assert!(error.transcript.messages().iter().any(|message| message.text() == r#"{"sum":3}"#));
}

/// If the answer to the final request is rejected, the run ends with an error.
#[tokio::test]
async fn rejected_answer_to_the_last_request_ends_the_run() {
    let model = ScriptedModel::new().reply_text("Four?");
    let agent = with_rejecting_validator(ReactAgent::builder(model))
        .limits(RunLimits { requests: Some(0), ..RunLimits::default() })
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();
    let error = agent.run("2 + 2?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(0))), "{error:?}");
    assert_eq!(error.transcript.messages().last().unwrap().text(), "Four?");
}

#[tokio::test]
async fn refusal_is_not_validated() {
    let refusal = AssistantMessage { refusal: Some("I must not.".to_owned()), ..AssistantMessage::default() };
    let agent =
        with_rejecting_validator(ReactAgent::builder(ScriptedModel::new().reply(ChatResponse::new(refusal))));
    let answer = agent.build().unwrap().run("?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("I must not.", StopReason::Refusal));
}

/// If a validator returns an error, the error of the run contains the transcript with the answer. A
/// caller that owns the run must be able to repeat the validation without another model request.
#[tokio::test]
async fn failed_validator_ends_the_run_and_can_be_repeated() {
    let tries = Arc::new(AtomicU32::new(0));
    let model = ScriptedModel::new().reply_text("It is 4.");
    let agent = ReactAgent::builder(model)
        .output_validator(move |_, _| {
            let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
            ready(if first { Err("the database is away".into()) } else { Ok(Verdict::Pass) })
        })
        .build()
        .unwrap();
    let mut run = agent.create_run("2 + 2?".into()).unwrap();
    let end = agent.drive(&mut run, RunContext::default()).try_for_each(|_| ready(Ok(()))).await;
    let error = end.unwrap_err();
    assert_eq!(format!("{error:?}"), "the output validator of the agent failed: the database is away");
    assert_eq!(error.transcript.messages().last().unwrap().text(), "It is 4.");
    assert_eq!(error.usage.requests, 1);

    let end = agent.drive(&mut run, RunContext::default()).try_collect::<Vec<_>>().await.unwrap();
    let Some(RunEvent::Done { output }) = end.last() else { panic!("{end:?}") };
    assert_eq!(output.text().unwrap(), "It is 4.");
}

#[tokio::test(start_paused = true)]
async fn panic_or_timeout_of_a_validator_is_a_typed_error() {
    let hangs = ReactAgent::builder(ScriptedModel::new().reply_text("4"))
        .output_validator(|_, _| pending())
        .hook_timeout(Duration::from_secs(3));
    let panics = ReactAgent::builder(ScriptedModel::new().reply_text("4")).output_validator(|output, _| {
        assert!(output.text.is_empty(), "with a secret");
        ready(Ok(Verdict::Pass))
    });
    for (agent, expected) in [(hangs, "it took longer than 3s"), (panics, "it panicked")] {
        let error = agent.build().unwrap().run("2 + 2?").await.unwrap_err();
        assert_eq!(format!("{error:?}"), format!("the output validator of the agent failed: {expected}"));
        assert_eq!(error.transcript.len(), 2);
    }
}

#[tokio::test]
async fn validator_can_read_the_context_of_the_run() {
    let agent = ReactAgent::builder(ScriptedModel::new().reply_text("4"))
        .output_validator(|mut output, cx| async move {
            let unit = cx.run.state.get::<&'static str>().copied().unwrap_or_default();
            output.text += &format!(" {unit} for {}, {} requests", cx.run.run_id, cx.usage.requests);
            Ok(Verdict::Replace(output))
        })
        .state(HostState::new().with_value("apples"))
        .build()
        .unwrap();
    let context = RunContext { run_id: "r1".to_owned(), ..RunContext::default() };
    let output = agent.run(RunInput::new("2 + 2?").with_context(context)).await.unwrap();
    assert_eq!(output.text().unwrap(), "4 apples for r1, 1 requests");
}

#[tokio::test]
async fn answer_after_a_suspension_is_validated() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let add_with_approval = add_tool().with_definition(|it| it.with_policy(policy));
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":2}"#)])
        .reply(finishing("native", 3))
        .reply(finishing("native", 4));
    let agent = with_even_sums(ReactAgent::builder(model))
        .tools(Toolset::new().with_tool(add_with_approval))
        .build()
        .unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Sum?").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let decisions = Decisions::from([("a".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs["sum"], 4);
    assert_paired(&answer.transcript);
}

fn run_checking_output() -> Run {
    let checks = Checks { answer: true, ..Checks::default() };
    let config = RunConfig { checks, ..RunConfig::default() };
    let mut run = Run::new(&config, RunInput::new("2 + 2?")).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    reply(&mut run, ChatResponse { usage: Usage::one_request(1, 1), ..ChatResponse::new("4") }).unwrap();
    assert_eq!(checked_answer(&mut run).text, "4");
    run
}

fn checked_answer(run: &mut Run) -> Output {
    match advance(run).unwrap() {
        Effect::Check(Check::Answer(output)) => *output,
        other => panic!("{other:?}"),
    }
}

#[test]
fn check_continues_after_a_crash() {
    let run = run_checking_output();
    let saved = serde_json::to_string(&run).unwrap();
    let mut loaded: Run = serde_json::from_str(&saved).unwrap();
    assert_eq!(loaded, run);
    loaded.recover();
    assert_eq!(checked_answer(&mut loaded).text, "4");
    judge(&mut loaded, CheckVerdict::Answer(Verdict::Pass.into())).unwrap();
    assert!(judge(&mut loaded, CheckVerdict::Answer(Verdict::retry("too late").into())).is_err());
    let Effect::Done(answer) = advance(&mut loaded).unwrap() else { panic!("the run is not done") };
    assert_eq!((&*answer.text, answer.transcript.len()), ("4", 2));
}

#[test]
fn cancelled_check_keeps_the_answer() {
    let mut run = run_checking_output();
    run.cancel();
    let last = run.transcript().messages().last().unwrap();
    assert_eq!((&*last.text(), is_unusable(last)), ("4", true));
}

/// Rejections before an accepted answer are not in a row with rejections of the follow-up.
#[tokio::test]
async fn accepted_answer_resets_the_rejected_replies() {
    let model = ["No.", "No.", "Yes.", "No.", "Yes."]
        .into_iter()
        .fold(ScriptedModel::new(), ScriptedModel::reply_text);
    let handle = RunHandle::new();
    handle.enqueue("Really?", Delivery::Idle).unwrap();
    let agent = ReactAgent::builder(model).output_validator(|output, _| async move {
        if output.text == "Yes." { Ok(Verdict::Pass) } else { Ok(Verdict::retry("say yes")) }
    });
    let output = agent.build().unwrap().run(handle.bind("Is it?")).await.unwrap();
    assert_eq!(output.text().unwrap(), "Yes.");
}

#[tokio::test]
async fn rejection_has_an_event() {
    let model = ScriptedModel::new().reply_text("Maybe.").reply_text("Yes.");
    let agent = ReactAgent::builder(model).output_validator(|output, _| async move {
        if output.text == "Yes." { Ok(Verdict::Pass) } else { Ok(Verdict::retry("yes or no")) }
    });
    let events = agent.build().unwrap().stream("Is it?");
    let text_and_rejections = events.try_filter_map(|event| {
        ready(Ok(match event {
            RunEvent::TextDelta { text } => Some(text),
            RunEvent::ReplyRejected { problem } => Some(format!("refused: {problem}")),
            _ => None,
        }))
    });
    let texts: Vec<_> = text_and_rejections.try_collect().await.unwrap();
    assert_eq!(texts, ["Maybe.", "refused: Your answer was rejected: yes or no\nAnswer again.", "Yes."]);
}
