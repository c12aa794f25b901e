//! Tests of cancelled and dropped runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use haft_core::{
    ChatModel, RunEvent, RunInput, Schema, ToolDefinition, ToolExt as _, ToolName,
    agent::AgentErrorKind,
    call::FailureKind,
    export::async_trait,
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool::{DynamicTool, RunContext, ToolPolicy},
    usage::Usage,
};
use haft_react::{Extension, ReactAgent, Verdict};
use haft_testing::ScriptedModel;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    pairing::{assert_paired, assert_request_paired},
    tools::{calculator, hanging_tool, tool_without_parameters},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Creates a run context with `token` as the cancellation token.
fn cancelled_by(token: &CancellationToken) -> RunContext {
    RunContext { cancellation: token.clone(), ..RunContext::default() }
}

/// A model that never replies.
struct NeverReplies(ModelProfile);

#[async_trait]
impl ChatModel for NeverReplies {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        std::future::pending().await
    }

    fn profile(&self) -> &ModelProfile {
        &self.0
    }
}

/// A cancellation gives every call a result. Here the run is cancelled after the first of three
/// calls has returned. Another run must be able to continue the conversation.
#[tokio::test(start_paused = true)]
async fn cancellation_between_reply_and_results_closes_every_call() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "hang", "{}"), ("c", "hang", "{}")])
        .reply_with(|request| {
            assert_request_paired(request);
            Ok(ChatResponse::new("Fine."))
        });
    let agent = ReactAgent::new(model, calculator().with_tool(hanging_tool(HOUR))).unwrap();
    let token = CancellationToken::new();

    let started = Instant::now();
    let mut events = agent.stream(RunInput::new("Go.").with_context(cancelled_by(&token)));
    let error = loop {
        match events.next().await.unwrap() {
            Ok(RunEvent::CallFinished { result }) if result.call_id == "a" => token.cancel(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };

    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    assert_paired(&error.transcript);
    let texts: Vec<_> = error.transcript.messages().iter().skip(2).map(|message| message.text()).collect();
    assert_eq!(texts, ["2", "cancelled", "cancelled"]);
    let next = agent.run(RunInput::new("Never mind.").with_history(error.transcript)).await.unwrap();
    assert_eq!(next.text().unwrap(), "Fine.");
}

/// A cancellation must drop the model request at once, even if the model ignores the cancellation
/// token.
#[tokio::test(start_paused = true)]
async fn request_is_cancelled_without_delay() {
    let agent = ReactAgent::new(NeverReplies(ModelProfile::new("silent")), calculator()).unwrap();
    let token = CancellationToken::new();
    let run = agent.run(RunInput::new("Hi").with_context(cancelled_by(&token)));
    let cancel = async {
        sleep(Duration::from_secs(60)).await;
        token.cancel();
        Instant::now()
    };

    let (ended, cancelled) = tokio::join!(async { (run.await, Instant::now()) }, cancel);

    assert!(matches!(*ended.0.unwrap_err().kind, AgentErrorKind::Cancelled));
    assert!(ended.1 - cancelled < Duration::from_secs(1));
}

#[tokio::test]
async fn cancelled_token_sends_no_request() {
    let token = CancellationToken::new();
    token.cancel();
    let model = ScriptedModel::new();
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
    let error = agent.run(RunInput::new("Hi").with_context(cancelled_by(&token))).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_eq!((model.requests().len(), error.transcript.len()), (0, 1));
}

/// If the event stream of a run is dropped, the futures of its tool calls must also be dropped.
#[tokio::test]
async fn dropped_stream_aborts_its_calls() {
    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    let dropped = Arc::new(AtomicBool::new(false));
    let flag_of_call = Arc::clone(&dropped);
    let definition = ToolDefinition::new(ToolName::new("held").unwrap(), Schema::object());
    let held = DynamicTool::new(definition, move |_, cx| {
        let flag = SetOnDrop(Arc::clone(&flag_of_call));
        async move {
            cx.report_progress(haft_core::tool::Progress::default());
            std::future::pending::<()>().await;
            drop(flag);
        }
    });
    let model = ScriptedModel::new().reply_calls([("a", "held", "{}")]);
    let agent = ReactAgent::new(model, calculator().with_tool(held)).unwrap();

    let mut events = agent.stream("Go.");
    while !matches!(events.next().await.unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    drop(events);
    while !dropped.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
}

/// With `ReactAgent::drive` the caller owns the run. After its event stream was dropped, the run
/// can be cancelled or driven again.
#[tokio::test(start_paused = true)]
async fn run_of_the_caller_survives_a_dropped_stream() {
    let idempotent = ToolPolicy { idempotent: true, timeout: Some(HOUR), ..ToolPolicy::default() };
    let look =
        tool_without_parameters("look", || async { "seen" }).with_definition(|it| it.with_policy(idempotent));
    let model = ScriptedModel::new()
        .reply_calls([("a", "hang", "{}"), ("b", "look", "{}"), ("c", "add", r#"{"x":1,"y":1}"#)])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, calculator().with_tool(hanging_tool(HOUR)).with_tool(look)).unwrap();
    let mut run = agent.create_run("Go.".into()).unwrap();

    let mut events = agent.drive(&mut run, RunContext::default());
    while !matches!(events.next().await.unwrap().unwrap(), RunEvent::CallStarted { call } if call.id == "c") {
    }
    drop(events);

    let open: Vec<_> = run.interrupted_calls().into_iter().map(|call| call.id).collect();
    assert_eq!(open, ["a", "b", "c"]);

    let mut closed = run.clone();
    closed.cancel();
    assert_paired(closed.transcript());

    // Only the call to the idempotent tool `look` runs again. The other two calls get an
    // unconfirmed failure, because their effect is unknown.
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))));
    let kinds: Vec<_> = run
        .transcript()
        .messages()
        .iter()
        .filter_map(|message| match message.body() {
            haft_core::message::MessageBody::Tool(result) => {
                Some(result.failure().map(|failure| failure.kind))
            }
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [Some(FailureKind::Unconfirmed), None, Some(FailureKind::Unconfirmed)]);
}

/// The usage of a reply is counted once, even if the run is cancelled or its driver is dropped
/// while an `after_reply` hook is running.
#[tokio::test(start_paused = true)]
async fn usage_of_a_reply_is_counted_once_if_its_hook_is_interrupted() {
    let response = || ChatResponse { usage: Usage::one_request(100, 10), ..ChatResponse::new("Hi.") };
    let hangs_once = |is_first: Arc<AtomicBool>| {
        Extension::new("hangs").after_reply(move |_, _| {
            let hangs = is_first.swap(false, Ordering::Relaxed);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok(Verdict::Pass)
            }
        })
    };
    let agent = |model: ScriptedModel| {
        ReactAgent::builder(model).extension(hangs_once(Arc::new(AtomicBool::new(true)))).build().unwrap()
    };

    let (cancelled, token) = (agent(ScriptedModel::new().reply(response())), CancellationToken::new());
    let run = cancelled.run(RunInput::new("Hi").with_context(cancelled_by(&token)));
    let cancel = async {
        sleep(Duration::from_secs(1)).await;
        token.cancel();
    };
    let error = tokio::join!(run, cancel).0.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    assert_eq!(error.usage, Usage::one_request(100, 10));

    let agent = agent(ScriptedModel::new().reply(response()).reply(response()));
    let mut run = agent.create_run("Hi".into()).unwrap();
    let drive = agent.drive(&mut run, RunContext::default()).collect::<Vec<_>>();
    assert!(tokio::time::timeout(Duration::from_secs(1), drive).await.is_err());
    assert_eq!(run.usage(), Usage::one_request(100, 10));
    // The new driver repeats the request. Its hook completes.
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))), "{events:?}");
    assert_eq!((run.usage().requests, run.usage().total_tokens()), (2, 220));
}

/// A cancelled or dropped request is counted as a failed request, like a request that times out.
#[tokio::test(start_paused = true)]
async fn abandoned_request_is_counted() {
    let agent = ReactAgent::new(NeverReplies(ModelProfile::new("silent")), calculator()).unwrap();
    let token = CancellationToken::new();
    let run = agent.run(RunInput::new("Hi").with_context(cancelled_by(&token)));
    let cancel = async {
        sleep(Duration::from_secs(1)).await;
        token.cancel();
    };
    let error = tokio::join!(run, cancel).0.unwrap_err();
    assert_eq!(error.usage, Usage::failed_request());

    let mut run = agent.create_run("Hi".into()).unwrap();
    let drive = agent.drive(&mut run, RunContext::default()).collect::<Vec<_>>();
    assert!(tokio::time::timeout(Duration::from_secs(1), drive).await.is_err());
    let agent = ReactAgent::new(ScriptedModel::new().reply_text("Hello."), calculator()).unwrap();
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))), "{events:?}");
    assert_eq!(run.usage().requests, 2);
}
