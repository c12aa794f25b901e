//! Tests of the cleanup of cancelled runs: tools, hooks and models have ended when the run returns.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    ChatModel, RunInput, Schema, ToolCall, ToolContext, ToolDefinition, ToolExt as _, ToolName, Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits},
    call::FailureKind,
    export::async_trait,
    limits,
    message::{AssistantMessage, MessageBody, Transcript},
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool::{DynamicTool, OnCancel, RunContext, ToolPolicy},
};
use haft_middleware::AgentExt as _;
use haft_react::{Dialect, JsonReact, LimitAction, NativeCalls, ReactAgent, TextReact, Verdict};
use haft_testing::ScriptedModel;
use serde_json::json;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{pairing::assert_paired, tools::calculator};

const START: Duration = Duration::from_millis(50);

type Lock = Arc<Mutex<()>>;

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// Creates the tool `hold`, which locks `lock` and never returns.
fn holding_tool(lock: &Lock) -> DynamicTool {
    let lock = Arc::clone(lock);
    DynamicTool::new(definition("hold"), move |_, _| {
        let lock = Arc::clone(&lock);
        async move {
            let _guard = lock.lock_owned().await;
            pending::<()>().await;
        }
    })
}

/// Creates the tool `tidy`, which locks `lock`, and needs `cleanup` to end after a cancellation.
fn listening_tool(lock: &Lock, cleanup: Duration) -> DynamicTool {
    let lock = Arc::clone(lock);
    let definition = definition("tidy").map_policy(|policy| policy.with_on_cancel(OnCancel::Grace));
    DynamicTool::new(definition, move |_, cx: ToolContext| {
        let lock = Arc::clone(&lock);
        async move {
            let _guard = lock.lock_owned().await;
            cx.cancellation().cancelled().await;
            sleep(cleanup).await;
            "tidied up"
        }
    })
}

/// Returns a reply in the format of `dialect` that calls `tool`.
fn call_reply(dialect: &str, tool: &str) -> ChatResponse {
    match dialect {
        "native" => ChatResponse::new(AssistantMessage {
            tool_calls: vec![ToolCall::new("", tool, "{}")],
            ..AssistantMessage::default()
        }),
        "json" => {
            ChatResponse::new(json!({"thought": "So.", "tool_name": tool, "tool_args": {}}).to_string())
        }
        _ => ChatResponse::new(format!("Thought: So.\nAction: {tool}\nArguments: {{}}")),
    }
}

/// Runs `agent`, and cancels the run after [`START`]. Returns its error and the duration from the
/// cancellation to the error.
async fn cancel_run(agent: &ReactAgent, streams: bool) -> (AgentError, Duration) {
    let token = CancellationToken::new();
    let context = RunContext { cancellation: token.clone(), ..RunContext::default() };
    let input = RunInput::new("Go.").with_context(context);
    let run = async {
        if streams {
            let events = agent.stream(input).collect::<Vec<_>>().await;
            events.into_iter().find_map(Result::err).unwrap()
        } else {
            agent.run(input).await.unwrap_err()
        }
    };
    let cancel = async {
        sleep(START).await;
        token.cancel();
        Instant::now()
    };
    let (error, cancelled) = tokio::join!(run, cancel);
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error:?}");
    assert_paired(&error.transcript);
    (error, cancelled.elapsed())
}

/// Returns the text or the failure kind of each tool result in `transcript`.
fn results(transcript: &Transcript) -> Vec<Result<String, FailureKind>> {
    let results = transcript.messages().iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => Some(match result.failure() {
            Some(failure) => Err(failure.kind),
            None => Ok(message.text()),
        }),
        _ => None,
    });
    results.collect()
}

/// When a run returns `Cancelled`, the futures of its tools are dropped, in every dialect. The
/// cancellation is not delayed.
#[tokio::test(start_paused = true)]
async fn lock_of_a_tool_is_free_when_the_run_returns() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)];
    for dialect in dialects {
        for streams in [false, true] {
            let lock = Lock::default();
            let model = ScriptedModel::new().reply(call_reply(dialect.name(), "hold"));
            let agent = ReactAgent::builder(model)
                .tools(Toolset::new().with_tool(holding_tool(&lock)))
                .dialect(Arc::clone(&dialect));
            let (error, delay) = cancel_run(&agent.build().unwrap(), streams).await;
            assert!(lock.try_lock().is_ok(), "{}", dialect.name());
            assert_eq!(results(&error.transcript), [Err(FailureKind::Cancelled)]);
            assert!(delay < Duration::from_millis(10), "{delay:?}");
        }
    }
}

/// A tool that listens to its token ends by itself, and its result is in the transcript, in every
/// dialect.
#[tokio::test(start_paused = true)]
async fn result_within_the_grace_period_is_recorded() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)];
    for dialect in dialects {
        let (lock, cleanup) = (Lock::default(), Duration::from_millis(300));
        let model = ScriptedModel::new().reply(call_reply(dialect.name(), "tidy"));
        let agent = ReactAgent::builder(model)
            .tools(Toolset::new().with_tool(listening_tool(&lock, cleanup)))
            .dialect(Arc::clone(&dialect));
        let (error, delay) = cancel_run(&agent.build().unwrap(), false).await;
        assert_eq!(results(&error.transcript), [Ok("tidied up".to_owned())]);
        assert!(delay >= cleanup && delay < Duration::from_secs(1), "{delay:?}");
        assert!(lock.try_lock().is_ok());
    }
}

/// The results of a cancelled batch. One call has ended before, one ends in the grace period, one
/// is aborted, and one that waits for a sequential call is never started.
#[tokio::test(start_paused = true)]
async fn cancelled_batch_keeps_its_results_and_starts_no_call() {
    let lock = Lock::default();
    let sequential = ToolPolicy { sequential: true, ..ToolPolicy::default() };
    let tidy = listening_tool(&Lock::default(), Duration::from_millis(100))
        .with_definition(|it| it.with_policy(sequential));
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let after = DynamicTool::new(definition("after"), move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        async { "ran" }
    });
    let tools = calculator().with_tool(holding_tool(&lock)).with_tool(tidy).with_tool(after);

    let calls = [("a", "add", r#"{"x":1,"y":1}"#), ("b", "tidy", "{}"), ("c", "after", "{}")];
    let agent = ReactAgent::new(ScriptedModel::new().reply_calls(calls), tools.clone()).unwrap();
    let (error, _) = cancel_run(&agent, false).await;
    let expected = [Ok("2".to_owned()), Ok("tidied up".to_owned()), Err(FailureKind::Cancelled)];
    assert_eq!(results(&error.transcript), expected);

    let calls = [("a", "add", r#"{"x":1,"y":1}"#), ("b", "hold", "{}"), ("c", "tidy", "{}")];
    let agent = ReactAgent::new(ScriptedModel::new().reply_calls(calls), tools).unwrap();
    let (error, _) = cancel_run(&agent, true).await;
    let expected = [Ok("2".to_owned()), Err(FailureKind::Cancelled), Err(FailureKind::Cancelled)];
    assert_eq!(results(&error.transcript), expected);
    assert_eq!(started.load(Ordering::Relaxed), 0);
}

/// The grace period of the builder: zero aborts a listening tool at once, and a longer period waits
/// for it.
#[tokio::test(start_paused = true)]
async fn grace_period_is_configurable() {
    for (grace, is_recorded) in [(Duration::ZERO, false), (Duration::from_secs(5), true)] {
        let lock = Lock::default();
        let tools = Toolset::new().with_tool(listening_tool(&lock, Duration::from_secs(2)));
        let model = ScriptedModel::new().reply(call_reply("native", "tidy"));
        let agent = ReactAgent::builder(model).tools(tools).cancel_grace(grace).build().unwrap();
        let (error, delay) = cancel_run(&agent, false).await;
        assert_eq!(results(&error.transcript)[0].is_ok(), is_recorded);
        assert_eq!(delay >= Duration::from_secs(2), is_recorded, "{delay:?}");
        assert!(lock.try_lock().is_ok());
    }
}

/// The time limit of a run ends its calls in the same way: a listening tool has its result, another
/// tool is aborted, and the locks of both are free.
#[tokio::test(start_paused = true)]
async fn time_limit_waits_for_the_end_of_its_calls() {
    let (held, tidied) = (Lock::default(), Lock::default());
    let tools = Toolset::new()
        .with_tool(holding_tool(&held))
        .with_tool(listening_tool(&tidied, Duration::from_millis(100)));
    let time = Duration::from_secs(1);
    let limits = RunLimits { time: Some(time), ..RunLimits::default() };
    for action in [LimitAction::Fail, LimitAction::Answer] {
        let mut model = ScriptedModel::new().reply_calls([("a", "hold", "{}"), ("b", "tidy", "{}")]);
        if action == LimitAction::Answer {
            model = model.reply_text("Too slow.");
        }
        let agent = ReactAgent::builder(model).tools(tools.clone()).limits(limits).limit_action(action);
        let ended = agent.build().unwrap().run("Go.").await;
        let transcript = match (action, ended) {
            (LimitAction::Answer, Ok(output)) => output.into_answer().unwrap().transcript,
            (_, Err(error)) => {
                assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Time(_))), "{error:?}");
                error.transcript
            }
            (_, other) => panic!("{other:?}"),
        };
        let expected = [Err(FailureKind::TimedOut), Ok("tidied up".to_owned())];
        assert_eq!(results(&transcript), expected);
        assert!(held.try_lock().is_ok() && tidied.try_lock().is_ok());
    }
}

/// The tools of an agent that is a tool have ended when its parent returns, after a cancellation of
/// the parent and after the timeout of the call.
#[tokio::test(start_paused = true)]
async fn tools_of_a_child_agent_end_before_the_parent() {
    for timeout in [Duration::from_millis(20), limits::CALL_TIMEOUT] {
        let (held, tidied) = (Lock::default(), Lock::default());
        let tools = Toolset::new()
            .with_tool(holding_tool(&held))
            .with_tool(listening_tool(&tidied, Duration::from_millis(300)));
        let model = ScriptedModel::new().reply_calls([("a", "hold", "{}"), ("b", "tidy", "{}")]);
        let policy = ToolPolicy { timeout: Some(timeout), ..ToolPolicy::default() };
        let child = ReactAgent::new(model, tools).unwrap().into_tool("child", "Works.");
        let child = child.with_definition(|it| it.with_policy(policy));
        let grandparent = ReactAgent::new(
            ScriptedModel::new().reply_calls([("c", "child", r#"{"task":"Work."}"#)]),
            Toolset::new().with_tool(child),
        );
        let parent = ReactAgent::new(
            ScriptedModel::new().reply_calls([("d", "parent", r#"{"task":"Work."}"#)]),
            Toolset::new().with_tool(grandparent.unwrap().into_tool("parent", "Delegates.")),
        );
        let (_, delay) = cancel_run(&parent.unwrap(), true).await;
        assert!(held.try_lock().is_ok() && tidied.try_lock().is_ok());
        assert!(delay < Duration::from_secs(1), "{delay:?}");
    }
}

/// A model that holds a lock during its request.
struct HoldingModel {
    lock: Lock,
    profile: ModelProfile,
}

#[async_trait]
impl ChatModel for HoldingModel {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let _guard = self.lock.lock().await;
        pending().await
    }

    fn stream<'a>(&'a self, _: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = futures::stream::once(async {
            let _guard = self.lock.lock().await;
            pending().await
        });
        events.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

/// The request of a cancelled run is dropped before the run returns.
#[tokio::test(start_paused = true)]
async fn request_is_dropped_before_the_run_returns() {
    for streams in [false, true] {
        let lock = Lock::default();
        let model = HoldingModel { lock: Arc::clone(&lock), profile: ModelProfile::new("holding") };
        let (_, delay) = cancel_run(&ReactAgent::new(model, calculator()).unwrap(), streams).await;
        assert!(lock.try_lock().is_ok());
        assert_eq!(delay, Duration::ZERO);
    }
}

/// The hooks of a cancelled run are dropped before the run returns.
#[tokio::test(start_paused = true)]
async fn hooks_are_dropped_before_the_run_returns() {
    let lock = Lock::default();
    let hold = move |lock: &Lock| {
        let lock = Arc::clone(lock);
        async move {
            let _guard = lock.lock_owned().await;
            pending::<()>().await;
        }
    };
    let builder = || ReactAgent::builder(ScriptedModel::new());
    let (one, two, three) = (Arc::clone(&lock), Arc::clone(&lock), Arc::clone(&lock));
    let agents = [
        builder().dynamic_instructions(move |_| {
            let held = hold(&one);
            async move {
                held.await;
                Ok(String::new())
            }
        }),
        builder().prepare(move |request, _| {
            let held = hold(&two);
            async move {
                held.await;
                Ok(request)
            }
        }),
        ReactAgent::builder(ScriptedModel::new().reply_text("42")).output_validator(move |_, _| {
            let held = hold(&three);
            async move {
                held.await;
                Ok(Verdict::Pass)
            }
        }),
    ];
    for agent in agents {
        let (_, delay) = cancel_run(&agent.build().unwrap(), false).await;
        assert!(lock.try_lock().is_ok());
        assert!(delay < Duration::from_millis(10), "{delay:?}");
    }
}

/// A blocking agent also returns after the end of its tools.
#[test]
fn blocking_agent_returns_after_the_end_of_its_tools() {
    let lock = Lock::default();
    let token = CancellationToken::new();
    let cancel = token.clone();
    let held = Arc::clone(&lock);
    let hold = DynamicTool::new(definition("hold"), move |_, _| {
        let (lock, cancel) = (Arc::clone(&held), cancel.clone());
        async move {
            let _guard = lock.lock_owned().await;
            cancel.cancel();
            pending::<()>().await;
        }
    });
    let model = ScriptedModel::new().reply(call_reply("native", "hold"));
    let agent = ReactAgent::new(model, Toolset::new().with_tool(hold)).unwrap().to_blocking();
    let context = RunContext { cancellation: token, ..RunContext::default() };
    let error = agent.run(RunInput::new("Go.").with_context(context)).unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert!(lock.try_lock().is_ok());
}
