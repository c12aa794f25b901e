//! Tests of messages that are enqueued during a run.

use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    ChatModel, Message, RunEvent, RunInput, RunOutput, ToolCall, ToolExt as _, ToolOutput, ToolResult,
    Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, StopReason, SuspendedRun},
    call::{Decision, Decisions},
    export::async_trait,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool::{RunContext, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{
    Effect, HandoffGroup, LimitAction, NativeCalls, ReactAgent, Run, RunConfig, RunHandle, Trajectory,
    Verdict,
    router::{Route, RouteTable},
    run::{Delivery, RunError},
    transcript::is_enqueued,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    effects::{advance, finish, reply, request},
    pairing::{assert_paired, message_lines},
    tools::{calculator, enqueueing_tool, tool_without_parameters},
};

const ADD: [(&str, &str, &str); 1] = [("a", "add", r#"{"x":1,"y":1}"#)];

fn agent(model: &ScriptedModel, tools: Toolset) -> ReactAgent {
    ReactAgent::new(model.clone(), tools).unwrap()
}

#[tokio::test]
async fn messages_are_delivered_before_the_next_request_or_at_idle() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "ask", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)])
        .reply_text("2.")
        .reply_text("Bye.");
    let tools = calculator().with_tool(enqueueing_tool(&[
        ("Last.", Delivery::Idle),
        ("First.", Delivery::NextRequest),
        ("Second.", Delivery::NextRequest),
    ]));
    let handle = RunHandle::new();
    let output = agent(&model, tools).run(handle.bind("Go.")).await.unwrap();
    let answer = output.into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("Bye.", StopReason::Finished));
    expect_test::expect![[r#"
        user: Go.
        assistant: a ask{}; b add{"x":1,"y":1}
        tool: a asked
        tool: b 2
        user: First.
        user: Second.
        assistant: 2.
        user: Last.
    "#]]
    .assert_eq(&message_lines(&model.requests()[2]));
    assert_paired(&answer.transcript);
    assert!(handle.undelivered_messages().is_empty());
    let enqueued: Vec<_> = answer.transcript.messages().iter().map(|it| is_enqueued(it)).collect();
    assert_eq!(enqueued, [false, false, false, false, true, true, false, true, false]);
    // The trajectory has the steps of the whole run: an enqueued message does not begin a new
    // trajectory.
    assert_eq!(Trajectory::from_transcript(&answer.transcript).steps.len(), 3);
}

/// A model that enqueues a message while it produces its first reply.
struct EnqueuesDuringReply {
    model: ScriptedModel,
    handle: RunHandle,
}

#[async_trait]
impl ChatModel for EnqueuesDuringReply {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        if self.model.requests().is_empty() {
            self.handle.enqueue("In red.", Delivery::NextRequest).unwrap();
        }
        self.model.chat(request).await
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

/// A message that is enqueued during the last reply must not be lost: the run sends it in one more
/// request.
#[tokio::test]
async fn message_during_the_last_reply_continues_the_run() {
    let handle = RunHandle::new();
    let model = ScriptedModel::new().reply_text("A pen.").reply_text("A red pen.");
    let model = EnqueuesDuringReply { model, handle: handle.clone() };
    let agent = ReactAgent::new(model, Toolset::new()).unwrap();
    let events: Vec<_> = agent.stream(handle.bind("Draw.")).try_collect().await.unwrap();
    let texts = events.iter().filter_map(|event| match event {
        RunEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), "A pen.A red pen.");
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    assert_eq!(output.text().unwrap(), "A red pen.");
    assert_eq!(handle.enqueue("Too late.", Delivery::Idle), Err(RunError::Ended));
}

#[tokio::test]
async fn validator_checks_the_answer_before_the_follow_up() {
    let model = ScriptedModel::new().reply_text("One.").reply_text("Two.");
    let handle = RunHandle::new();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let agent = ReactAgent::builder(model.clone()).output_validator({
        let (handle, answers) = (handle.clone(), Arc::clone(&answers));
        move |output, _| {
            let is_first = answers.lock().unwrap().is_empty();
            answers.lock().unwrap().push(output.text.clone());
            if is_first {
                handle.enqueue("And?", Delivery::Idle).unwrap();
            }
            async { Ok(Verdict::Pass) }
        }
    });
    let output = agent.build().unwrap().run(handle.bind("Count.")).await.unwrap();
    assert_eq!(output.text().unwrap(), "Two.");
    assert_eq!(*answers.lock().unwrap(), ["One.", "Two."]);
}

#[tokio::test]
async fn stop_tool_does_not_discard_idle_messages() {
    let model = ScriptedModel::new().reply_calls([("a", "ask", "{}")]).reply_text("Bye.");
    let tools = Toolset::new().with_tool(enqueueing_tool(&[("More.", Delivery::Idle)]));
    let agent = ReactAgent::builder(model).tools(tools).stop_on(["ask"]).build().unwrap();
    let answer = agent.run(RunHandle::new().bind("Go.")).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("Bye.", StopReason::Finished));
}

/// Undelivered messages are saved with a suspended run, and are delivered when it is resumed.
#[tokio::test]
async fn suspended_run_keeps_its_messages() {
    let wait = || {
        let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
        tool_without_parameters("wait", || async { "waited" }).with_definition(|it| it.with_policy(policy))
    };
    let model =
        ScriptedModel::new().reply_calls([("a", "ask", "{}"), ("b", "wait", "{}")]).reply_text("Done.");
    let tools =
        || Toolset::new().with_tool(enqueueing_tool(&[("Hurry.", Delivery::NextRequest)])).with_tool(wait());
    let handle = RunHandle::new();
    let output = agent(&model, tools()).run(handle.bind("Go.")).await.unwrap();
    let RunOutput::Suspended(suspended) = output else { panic!("the run is not suspended") };
    assert_eq!(handle.enqueue("Now.", Delivery::Idle), Err(RunError::Ended));
    assert!(handle.undelivered_messages().is_empty());

    // More messages can be enqueued in the suspended run.
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let mut run = Run::from_suspended(suspended).unwrap();
    run.enqueue("Please.", Delivery::NextRequest).unwrap();
    let suspended = run.to_suspended().unwrap();
    let decisions = Decisions::from([("b".to_owned(), Decision::approved())]);
    let output = agent(&model, tools()).run(RunInput::resume(suspended, decisions)).await.unwrap();
    assert_eq!(output.text().unwrap(), "Done.");
    expect_test::expect![[r#"
        user: Go.
        assistant: a ask{}; b wait{}
        tool: a asked
        tool: b waited
        user: Hurry.
        user: Please.
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

#[tokio::test]
async fn enqueue_after_a_cancellation_is_an_error() {
    let hang = tool_without_parameters("hang", std::future::pending::<()>);
    let model = ScriptedModel::new().reply_calls([("a", "hang", "{}")]);
    let handle = RunHandle::new();
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let input = handle.bind(RunInput::new("Go.").with_context(context));
    let agent = agent(&model, Toolset::new().with_tool(hang));
    let mut events = agent.stream(input);
    let error = loop {
        match events.next().await.unwrap() {
            Ok(RunEvent::CallStarted { .. }) => {
                handle.enqueue("Are you there?", Delivery::NextRequest).unwrap();
                token.cancel();
            }
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_paired(&error.transcript);
    assert_eq!(handle.enqueue("Hello?", Delivery::NextRequest), Err(RunError::Ended));
    let undelivered: Vec<_> = handle.undelivered_messages().iter().map(Message::text).collect();
    assert_eq!(undelivered, ["Are you there?"]);
}

/// An enqueued message does not cause a request that exceeds the request limit. If the run already
/// has an answer, it ends with this answer.
#[tokio::test]
async fn limits_apply_to_enqueued_messages() {
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let model = ScriptedModel::new().reply_text("One.");
    let handle = RunHandle::new();
    handle.enqueue("And then?", Delivery::Idle).unwrap();
    let input = handle.bind(RunInput::new("Count.").with_limits(limits));
    assert_eq!(agent(&model, Toolset::new()).run(input).await.unwrap().text().unwrap(), "One.");
    assert_eq!(handle.undelivered_messages().len(), 1);

    // The limit also applies to a message with `Delivery::NextRequest`: the run fails.
    let model = ScriptedModel::new().reply_calls(ADD);
    let handle = RunHandle::new();
    handle.enqueue("Hurry.", Delivery::NextRequest).unwrap();
    let input = handle.bind(RunInput::new("Add.").with_limits(limits));
    let error = agent(&model, calculator()).run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(1))));

    // A message that arrives after the last allowed request stays undelivered.
    let model = ScriptedModel::new().reply_calls(ADD);
    let handle = RunHandle::new();
    let agent_with_limit = agent(&model, calculator());
    let mut events = agent_with_limit.stream(handle.bind(RunInput::new("Add.").with_limits(limits)));
    while let Some(event) = events.next().await {
        match event {
            Ok(RunEvent::CallStarted { .. }) => handle.enqueue("Faster.", Delivery::NextRequest).unwrap(),
            Ok(_) => {}
            Err(error) => {
                assert!(!error.transcript.messages().iter().any(|it| it.text() == "Faster."), "{error}");
            }
        }
    }
    assert_eq!(handle.undelivered_messages().len(), 1);

    // After the final request, an undelivered message does not continue the run.
    let model = ScriptedModel::new().reply_calls(ADD).reply_text("About 2.");
    let handle = RunHandle::new();
    handle.enqueue("More.", Delivery::Idle).unwrap();
    let agent =
        ReactAgent::builder(model).tools(calculator()).limit_action(LimitAction::Answer).build().unwrap();
    let input = handle.bind(RunInput::new("Add.").with_limits(limits));
    let answer = agent.run(input).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.stop_reason), ("About 2.", StopReason::LimitReached));
    assert_eq!(handle.undelivered_messages().len(), 1);
}

/// A run handle belongs to one run. If this run calls an agent as a tool, the run of that agent
/// must not receive the messages.
#[tokio::test]
async fn messages_do_not_reach_an_agent_used_as_a_tool() {
    let child_model = ScriptedModel::new().reply_text("Found.");
    let child = agent(&child_model, Toolset::new());
    let model =
        ScriptedModel::new().reply_calls([("a", "research", r#"{"task":"Look."}"#)]).reply_text("Done.");
    let handle = RunHandle::new();
    let parent = agent(&model, Toolset::new().with_tool(child.into_tool("research", "Researches.")));
    let mut events = parent.stream(handle.bind("Go."));
    while let Some(event) = events.next().await {
        if let RunEvent::CallStarted { .. } = event.unwrap() {
            handle.enqueue("For the parent.", Delivery::NextRequest).unwrap();
        }
    }
    assert_eq!(child_model.requests()[0].messages.len(), 1);
    assert!(message_lines(&model.requests()[1]).ends_with("user: For the parent.\n"));
}

/// After a hand-off, the messages of the run handle reach the next agent.
#[tokio::test]
async fn message_reaches_the_agent_after_a_handoff() {
    let reception = ScriptedModel::new().reply_calls([("a", "transfer_to_kitchen", "{}")]);
    let kitchen = ScriptedModel::new().reply_calls([("b", "ask", "{}")]).reply_text("With bread.");
    let table = RouteTable::new([Route::new("reception", "Greets."), Route::new("kitchen", "Cooks.")]);
    let agents = [
        ("reception", agent(&reception, Toolset::new())),
        (
            "kitchen",
            agent(&kitchen, Toolset::new().with_tool(enqueueing_tool(&[("Bread?", Delivery::NextRequest)]))),
        ),
    ];
    let house = HandoffGroup::new(table, agents).unwrap();
    let output = house.run(RunHandle::new().bind("Soup.")).await.unwrap();
    assert_eq!(output.text().unwrap(), "With bread.");
    assert!(message_lines(&kitchen.requests()[1]).ends_with("user: Bread?\n"));
}

/// `enqueue` rejects tool results and assistant messages. `enqueue` also rejects a message if
/// `MAX_ENQUEUED` messages already wait for delivery.
#[test]
fn only_user_messages_can_be_enqueued_up_to_a_limit() {
    let mut run = Run::new(&RunConfig::default(), "Go.".into()).unwrap();
    let result = ToolResult::done("a", "add", ToolOutput::from("2"));
    assert_eq!(run.enqueue(Message::tool(result), Delivery::Idle), Err(RunError::NotEnqueueable));
    assert_eq!(run.enqueue(Message::assistant("Hm."), Delivery::Idle), Err(RunError::NotEnqueueable));
    for number in 0..Run::MAX_ENQUEUED {
        run.enqueue(number.to_string(), Delivery::Idle).unwrap();
    }
    let full = RunError::TooManyMessages(Run::MAX_ENQUEUED);
    assert_eq!(run.enqueue("One more.", Delivery::Idle), Err(full));
    run.cancel();
    assert_eq!(run.enqueue("Too late.", Delivery::Idle), Err(RunError::Ended));
    assert_eq!(run.undelivered_messages().count(), Run::MAX_ENQUEUED);
}

/// A message that is enqueued while calls are open is delivered after their results. The message is
/// not lost if the process crashes before the delivery.
#[test]
fn message_is_delivered_after_open_calls_and_survives_a_crash() {
    let mut run = Run::new(&RunConfig::default(), "Go.".into()).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let tool_calls = ["a", "b"].map(|id| ToolCall::new(id, "look", json!({}).to_string())).into();
    let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    reply(&mut run, ChatResponse::new(message)).unwrap();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Call(_)));
    finish(&mut run, "a", ToolResult::done("", "", ToolOutput::from("seen"))).unwrap();
    run.enqueue("Hurry.", Delivery::NextRequest).unwrap();

    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    run.recover();
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
    let request = request(&run, &NativeCalls);
    let roles = message_lines(&request);
    assert!(roles.ends_with("user: Hurry.\n"), "{roles}");
    assert_paired(run.transcript());
}
