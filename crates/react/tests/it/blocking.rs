//! Behaviour B18: agents in synchronous code, which neither deadlock nor panic inside a runtime.

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

use crate::tools::{calculator, plain};

fn adding() -> BlockingAgent<ReactAgent> {
    let model = ScriptedModel::new().calls([("a", "add", r#"{"x":17,"y":25}"#)]).text("It is 42.");
    ReactAgent::new(model, calculator()).unwrap().blocking()
}

fn silent() -> BlockingAgent<ReactAgent> {
    ReactAgent::new(ScriptedModel::new(), calculator()).unwrap().blocking()
}

/// Says when it is dropped.
struct Last(mpsc::Sender<()>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// `held()`: reports that it is there, and never returns; says when it is given up.
fn held() -> (DynamicTool, mpsc::Receiver<()>) {
    let (sender, gone) = mpsc::channel();
    let definition = plain("held", || async {}).definition().clone();
    let held = DynamicTool::new(definition, move |_, cx| {
        let last = Last(sender.clone());
        async move {
            cx.report(tool::Progress::default());
            std::future::pending::<()>().await;
            drop(last);
        }
    });
    (held, gone)
}

#[test]
fn it_runs_to_the_end() {
    let answer = adding().run("17 + 25?").unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("It is 42.", 1));
}

#[test]
fn it_tells_what_happens() {
    let events: Vec<_> = adding().stream("17 + 25?").map(Result::unwrap).collect();
    let finished = events.iter().position(|event| matches!(event, RunEvent::CallFinished { .. })).unwrap();
    let said = events.iter().position(|event| matches!(event, RunEvent::TextDelta { .. })).unwrap();
    assert!(finished < said);
    let (RunEvent::CallFinished { result }, Some(RunEvent::Done { output })) =
        (&events[finished], events.last())
    else {
        panic!("{events:?}")
    };
    let answer = output.clone().into_answer().unwrap();
    let mut kept = answer.transcript.messages().iter().map(|message| message.body());
    let is_same = |body: &MessageBody| matches!(body, MessageBody::Tool(kept) if Arc::ptr_eq(kept, result));
    assert!(kept.any(is_same), "the result is shared, not copied");
}

#[test]
fn a_parked_run_is_taken_up() {
    let draw = plain("draw", || async { ToolResponse::Pending(Pending::new(PendingKind::External)) });
    let model = ScriptedModel::new().calls([("a", "draw", "{}")]).text("Drawn.");
    let agent = ReactAgent::new(model, Toolset::new().with(draw)).unwrap().blocking();
    let suspended = agent.run("Draw.").unwrap().into_answer().unwrap_err();
    let answers = Decisions::from([("a".to_owned(), Decision::output("a house"))]);
    assert_eq!(agent.run(RunInput::resume(suspended, answers)).unwrap().text().unwrap(), "Drawn.");
}

#[track_caller]
fn assert_refused(agent: &BlockingAgent<ReactAgent>) {
    let earlier: Transcript = [Message::user("Hi"), Message::assistant("Hello.")].into_iter().collect();
    let error = agent.run(RunInput::new("And?").with_history(earlier.clone())).unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::BlockingInRuntime(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a blocking call inside an async runtime could never end: use `run(…).await` there"
    );
    assert_eq!(error.transcript, earlier, "the conversation is lost");
    let events: Vec<_> = agent.stream("Hi").collect();
    let [Err(error)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        error.to_string(),
        "a blocking call inside an async runtime could never end: use `stream(…)` there"
    );
}

#[tokio::test]
async fn on_one_thread_it_is_an_error() {
    assert_refused(&silent());
    // The task goes on as before.
    tokio::task::yield_now().await;
    tokio::spawn(async { assert_refused(&silent()) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads_it_is_an_error() {
    assert_refused(&silent());
    tokio::spawn(async { assert_refused(&silent()) }).await.unwrap();
}

#[tokio::test]
async fn in_a_local_set_it_is_an_error() {
    let set = tokio::task::LocalSet::new();
    set.run_until(async {
        assert_refused(&silent());
        tokio::task::spawn_local(async { assert_refused(&silent()) }).await.unwrap();
    })
    .await;
}

#[test]
fn in_another_executor_it_is_an_error() {
    futures::executor::block_on(async { assert_refused(&silent()) });
}

#[tokio::test]
async fn where_code_may_block_it_runs() {
    let answer = tokio::task::spawn_blocking(|| adding().run("17 + 25?").unwrap()).await.unwrap();
    assert_eq!(answer.text().unwrap(), "It is 42.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_place_it_runs() {
    let answer = tokio::task::block_in_place(|| adding().run("17 + 25?").unwrap());
    assert_eq!(answer.text().unwrap(), "It is 42.");
}

/// A runtime that is only at hand is none that runs this code.
#[test]
fn beside_a_runtime_it_runs() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    assert_eq!(adding().run("17 + 25?").unwrap().text().unwrap(), "It is 42.");
}

#[test]
fn a_blocking_tool_asks_another_agent() {
    /// Asks.
    #[tool(blocking)]
    fn ask() -> Result<String, haft_core::agent::AgentError> {
        Ok(adding().run("17 + 25?")?.text().unwrap().to_owned())
    }

    let model = ScriptedModel::new().calls([("a", "ask", "{}")]).text("42, it says.");
    let agent = ReactAgent::new(model, Toolset::new().with(Ask)).unwrap().blocking();
    let output = agent.run("Ask.").unwrap();
    assert_eq!(output.results_of("ask").next().unwrap().model_text(), "It is 42.");
}

#[test]
fn a_dropped_iterator_ends_its_calls() {
    let (held, gone) = held();
    let model = ScriptedModel::new().calls([("a", "held", "{}")]);
    let agent = ReactAgent::new(model, Toolset::new().with(held)).unwrap().blocking();
    let mut events = agent.stream("Go.");
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    drop(events);
    gone.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// The iterator lives without its agent, and both can be dropped where nothing may block.
#[test]
fn dropped_inside_a_runtime_it_ends() {
    let (held, gone) = held();
    let model = ScriptedModel::new().calls([("a", "held", "{}")]);
    let agent = ReactAgent::new(model, Toolset::new().with(held)).unwrap().blocking();
    let mut events = agent.stream("Go.");
    drop(agent);
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(events) });
    gone.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// An iterator that is asked inside a runtime says so, and is over.
#[test]
fn asked_inside_a_runtime_it_ends() {
    let (held, gone) = held();
    let model = ScriptedModel::new().calls([("a", "held", "{}")]);
    let mut events = ReactAgent::new(model, Toolset::new().with(held)).unwrap().blocking().stream("Go.");
    while !matches!(events.next().unwrap().unwrap(), RunEvent::CallProgress { .. }) {}
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let error = events.next().unwrap().unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::BlockingInRuntime(_)));
        assert!(events.next().is_none());
    });
    gone.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// A tool that blocks its thread costs itself: its deadline is kept.
#[test]
fn a_tool_that_blocks_is_given_up() {
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let definition = plain("block", || async {}).definition().clone();
    let definition =
        definition.with_policy(ToolPolicy { timeout: Duration::from_millis(20), ..ToolPolicy::default() });
    let block = DynamicTool::new(definition, move |_, _| {
        let _ = released.lock().unwrap().recv();
        async { Err::<(), _>(ToolError::failed("too late")) }
    });
    let model =
        ScriptedModel::new().calls([("a", "block", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)]).text("Done.");
    let agent = ReactAgent::new(model, calculator().with(block)).unwrap().blocking();
    let answer = agent.run("Go.").unwrap().into_answer().unwrap();
    let kinds: Vec<_> = answer.steps.iter().map(|step| step.result.failure().map(|it| it.kind)).collect();
    assert_eq!(kinds, [Some(FailureKind::TimedOut), None]);
    drop(release);
}

/// So do more of them than there are threads.
#[test]
fn tools_that_block_all_threads_are_given_up() {
    const BLOCKED: usize = 9;

    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let definition = plain("block", || async {}).definition().clone();
    let definition =
        definition.with_policy(ToolPolicy { timeout: Duration::from_millis(20), ..ToolPolicy::default() });
    let block = DynamicTool::new(definition, move |_, _| {
        let _ = released.lock().unwrap().recv();
        async {}
    });
    let ids: [_; BLOCKED] = std::array::from_fn(|id| id.to_string());
    let model = ScriptedModel::new().calls(ids.each_ref().map(|id| (&**id, "block", "{}"))).text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with(block)).unwrap().blocking();
    let (sender, answers) = mpsc::channel();
    std::thread::spawn(move || sender.send(agent.run("Go.").map(Box::new)));
    let output = answers.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    let answer = output.into_answer().unwrap();
    let timed_out = |kind| kind == Some(FailureKind::TimedOut);
    assert!(answer.steps.iter().all(|step| timed_out(step.result.failure().map(|it| it.kind))));
    assert_eq!((&*answer.text, answer.steps.len()), ("Done.", BLOCKED));
    drop(release);
}

/// So does other code of the host that a run waits for.
#[test]
fn hooks_that_block_all_threads_are_given_up() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let builder = ReactAgent::builder(ScriptedModel::new()).hook_timeout(Duration::from_millis(20));
    let agent = builder.dynamic_instructions(move |_| {
        let _ = released.lock().unwrap().recv();
        async { Ok(String::new()) }
    });
    let agent = agent.build().unwrap().blocking();
    let (sender, errors) = mpsc::channel();
    std::thread::spawn(move || (0..9).try_for_each(|_| sender.send(agent.run("Go.").unwrap_err())));
    for _ in 0..9 {
        let error = errors.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(*error.kind, AgentErrorKind::Hook { .. }), "{error:?}");
    }
    drop(release);
}
