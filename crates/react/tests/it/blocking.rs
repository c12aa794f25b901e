//! Inside an async runtime, the blocking API returns an error. It neither deadlocks nor panics.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use haft_core::{
    Message, RunEvent, RunInput, Tool as _, ToolError, Toolset, Transcript,
    agent::AgentErrorKind,
    call::{Decision, Decisions, FailureKind, Pending, PendingKind, ToolResponse},
    message::MessageBody,
    tool,
    tool::{DynamicTool, ToolPolicy},
};
use haft_react::{ReactAgent, blocking::BlockingAgent};
use haft_testing::ScriptedModel;

use crate::tools::{calculator, tool_without_parameters};

fn calculator_agent() -> BlockingAgent<ReactAgent> {
    let model =
        ScriptedModel::new().reply_calls([("a", "add", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
    ReactAgent::new(model, calculator()).unwrap().to_blocking()
}

/// Returns an agent whose model must not be called, since its script is empty.
fn agent_without_replies() -> BlockingAgent<ReactAgent> {
    ReactAgent::new(ScriptedModel::new(), calculator()).unwrap().to_blocking()
}

/// A value that sends a message when it is dropped.
struct DropSignal(mpsc::Sender<()>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Creates the tool `never_returns`, which reports progress and never returns. The receiver gets a
/// message when the call is dropped.
fn never_returning_tool() -> (DynamicTool, mpsc::Receiver<()>) {
    let (sender, dropped) = mpsc::channel();
    let definition = tool_without_parameters("never_returns", || async {}).definition().clone();
    let never_returns = DynamicTool::new(definition, move |_, cx| {
        let signal = DropSignal(sender.clone());
        async move {
            cx.report_progress(tool::Progress::default());
            std::future::pending::<()>().await;
            drop(signal);
        }
    });
    (never_returns, dropped)
}

#[test]
fn run_returns_the_answer() {
    let answer = calculator_agent().run("17 + 25?").unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("It is 42.", 1));
}

#[test]
fn stream_returns_events_in_order() {
    let events: Vec<_> = calculator_agent().stream("17 + 25?").map(Result::unwrap).collect();
    let finished = events.iter().position(|event| matches!(event, RunEvent::CallFinished { .. })).unwrap();
    let text = events.iter().position(|event| matches!(event, RunEvent::TextDelta { .. })).unwrap();
    assert!(finished < text);
    let (RunEvent::CallFinished { result }, Some(RunEvent::Done { output })) =
        (&events[finished], events.last())
    else {
        panic!("{events:?}")
    };
    let answer = output.clone().into_answer().unwrap();
    let mut recorded = answer.transcript.messages().iter().map(|message| message.body());
    let is_same =
        |body: &MessageBody| matches!(body, MessageBody::Tool(recorded) if Arc::ptr_eq(recorded, result));
    assert!(recorded.any(is_same), "the result must be shared, not copied");
}

#[test]
fn suspended_run_is_resumed() {
    let draw = tool_without_parameters("draw", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let model = ScriptedModel::new().reply_calls([("a", "draw", "{}")]).reply_text("Drawn.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(draw)).unwrap().to_blocking();
    let suspended = agent.run("Draw.").unwrap().into_answer().unwrap_err();
    let decisions = Decisions::from([("a".to_owned(), Decision::output("a house"))]);
    assert_eq!(agent.run(RunInput::resume(suspended, decisions)).unwrap().text().unwrap(), "Drawn.");
}

/// Asserts that `run` and `stream` of `agent` fail with `BlockingInRuntime` on this thread.
#[track_caller]
fn assert_inside_runtime_error(agent: &BlockingAgent<ReactAgent>) {
    let earlier: Transcript = [Message::user("Hi"), Message::assistant("Hello.")].into_iter().collect();
    let error = agent.run(RunInput::new("And?").with_history(earlier.clone())).unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::BlockingInRuntime(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a blocking call inside an async runtime could never end: use `run(…).await` there"
    );
    assert_eq!(error.transcript, earlier, "the error must have the transcript");
    let events: Vec<_> = agent.stream("Hi").collect();
    let [Err(error)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        error.to_string(),
        "a blocking call inside an async runtime could never end: use `stream(…)` there"
    );
}

#[tokio::test]
async fn current_thread_runtime_is_an_error() {
    assert_inside_runtime_error(&agent_without_replies());
    // The task can continue after the error: it can still await and spawn.
    tokio::task::yield_now().await;
    tokio::spawn(async { assert_inside_runtime_error(&agent_without_replies()) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_thread_runtime_is_an_error() {
    assert_inside_runtime_error(&agent_without_replies());
    tokio::spawn(async { assert_inside_runtime_error(&agent_without_replies()) }).await.unwrap();
}

#[tokio::test]
async fn local_set_is_an_error() {
    let set = tokio::task::LocalSet::new();
    set.run_until(async {
        assert_inside_runtime_error(&agent_without_replies());
        tokio::task::spawn_local(async { assert_inside_runtime_error(&agent_without_replies()) })
            .await
            .unwrap();
    })
    .await;
}

#[test]
fn futures_executor_is_an_error() {
    futures::executor::block_on(async { assert_inside_runtime_error(&agent_without_replies()) });
}

#[tokio::test]
async fn spawn_blocking_can_run_an_agent() {
    let answer = tokio::task::spawn_blocking(|| calculator_agent().run("17 + 25?").unwrap()).await.unwrap();
    assert_eq!(answer.text().unwrap(), "It is 42.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn block_in_place_can_run_an_agent() {
    let answer = tokio::task::block_in_place(|| calculator_agent().run("17 + 25?").unwrap());
    assert_eq!(answer.text().unwrap(), "It is 42.");
}

/// A thread that only called `Runtime::enter` polls no task, so the blocking API must work on it.
#[test]
fn entered_runtime_can_run_an_agent() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    assert_eq!(calculator_agent().run("17 + 25?").unwrap().text().unwrap(), "It is 42.");
}

#[test]
fn blocking_tool_can_run_an_agent() {
    /// Runs another agent.
    #[tool(blocking)]
    fn ask() -> Result<String, haft_core::agent::AgentError> {
        Ok(calculator_agent().run("17 + 25?")?.text().unwrap().to_owned())
    }

    let model = ScriptedModel::new().reply_calls([("a", "ask", "{}")]).reply_text("42, it says.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Ask)).unwrap().to_blocking();
    let output = agent.run("Ask.").unwrap();
    assert_eq!(output.results_of("ask").next().unwrap().model_text(), "It is 42.");
}

#[test]
fn dropped_iterator_drops_its_calls() {
    let (never_returns, dropped) = never_returning_tool();
    let model = ScriptedModel::new().reply_calls([("a", "never_returns", "{}")]);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(never_returns)).unwrap().to_blocking();
    let mut events = agent.stream("Go.");
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    drop(events);
    dropped.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// The event iterator can outlive its agent, and can be dropped inside an async task, where
/// blocking is forbidden.
#[test]
fn iterator_can_be_dropped_inside_a_runtime() {
    let (never_returns, dropped) = never_returning_tool();
    let model = ScriptedModel::new().reply_calls([("a", "never_returns", "{}")]);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(never_returns)).unwrap().to_blocking();
    let mut events = agent.stream("Go.");
    drop(agent);
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(events) });
    dropped.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// If `next` of the event iterator is called inside a runtime, it returns an error, ends the
/// iterator, and drops the tool call in progress.
#[test]
fn next_inside_a_runtime_ends_the_iterator() {
    let (never_returns, dropped) = never_returning_tool();
    let model = ScriptedModel::new().reply_calls([("a", "never_returns", "{}")]);
    let mut events =
        ReactAgent::new(model, Toolset::new().with_tool(never_returns)).unwrap().to_blocking().stream("Go.");
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let error = events.next().unwrap().unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::BlockingInRuntime(_)));
        assert!(events.next().is_none());
    });
    dropped.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// A tool that blocks its thread must time out. The second call in the same reply must still
/// succeed.
#[test]
fn blocked_tool_times_out() {
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let definition = tool_without_parameters("block", || async {}).definition().clone();
    let definition = definition
        .with_policy(ToolPolicy { timeout: Some(Duration::from_millis(20)), ..ToolPolicy::default() });
    let block = DynamicTool::new(definition, move |_, _| {
        let _ = released.lock().unwrap().recv();
        async { Err::<(), _>(ToolError::failed("too late")) }
    });
    let model = ScriptedModel::new()
        .reply_calls([("a", "block", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, calculator().with_tool(block)).unwrap().to_blocking();
    let answer = agent.run("Go.").unwrap().into_answer().unwrap();
    let kinds: Vec<_> = answer.steps.iter().map(|step| step.result.failure().map(|it| it.kind)).collect();
    assert_eq!(kinds, [Some(FailureKind::TimedOut), None]);
    drop(release);
}

/// Nine tool calls block nine threads, which is more than the runtime has. All calls must still
/// time out.
#[test]
fn tools_that_block_all_threads_time_out() {
    const BLOCKED_CALLS: usize = 9;

    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let definition = tool_without_parameters("block", || async {}).definition().clone();
    let definition = definition
        .with_policy(ToolPolicy { timeout: Some(Duration::from_millis(20)), ..ToolPolicy::default() });
    let block = DynamicTool::new(definition, move |_, _| {
        let _ = released.lock().unwrap().recv();
        async {}
    });
    let ids: [_; BLOCKED_CALLS] = std::array::from_fn(|id| id.to_string());
    let model =
        ScriptedModel::new().reply_calls(ids.each_ref().map(|id| (&**id, "block", "{}"))).reply_text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(block)).unwrap().to_blocking();
    let (sender, results) = mpsc::channel();
    std::thread::spawn(move || sender.send(agent.run("Go.").map(Box::new)));
    let output = results.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    let answer = output.into_answer().unwrap();
    let timed_out = |kind| kind == Some(FailureKind::TimedOut);
    assert!(answer.steps.iter().all(|step| timed_out(step.result.failure().map(|it| it.kind))));
    assert_eq!((&*answer.text, answer.steps.len()), ("Done.", BLOCKED_CALLS));
    drop(release);
}

/// A hook blocks its thread in each of nine runs, which is more runs than the runtime has threads.
/// Every hook must still time out.
#[test]
fn hooks_that_block_all_threads_time_out() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let builder = ReactAgent::builder(ScriptedModel::new()).hook_timeout(Duration::from_millis(20));
    let agent = builder.dynamic_instructions(move |_| {
        let _ = released.lock().unwrap().recv();
        async { Ok(String::new()) }
    });
    let agent = agent.build().unwrap().to_blocking();
    let (sender, errors) = mpsc::channel();
    std::thread::spawn(move || (0..9).try_for_each(|_| sender.send(agent.run("Go.").unwrap_err())));
    for _ in 0..9 {
        let error = errors.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(*error.kind, AgentErrorKind::HookFailed { .. }), "{error:?}");
    }
    drop(release);
}
