//! While a call is suspended, later calls that conflict with it are postponed.

use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, Tool, ToolExt as _, Toolset,
    agent::{RunLimits, SuspendedRun},
    call::{Decision, Pending, PendingKind, ToolResponse},
    tool::{RunContext, ToolPolicy, Touch, TouchFn},
};
use haft_middleware::AgentExt as _;
use haft_react::{PendingQueue, ReactAgent, Run, run::RunState};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::{Script, reloaded},
    pairing::{assert_paired, message_lines},
    tools::{pushing_tool, tool_without_parameters},
};

/// The names of the executed tools, in the order of their execution.
type Log = Arc<Mutex<Vec<String>>>;

fn logged(name: &'static str, policy: ToolPolicy, log: &Log) -> impl Tool + 'static {
    let log = Arc::clone(log);
    let tool = tool_without_parameters(name, move || {
        log.lock().unwrap().push(name.to_owned());
        async move { name }
    });
    tool.with_definition(|it| it.with_policy(policy))
}

/// Creates the tools `before` and `after`, the sequential tools `barrier` and `gate`, which require
/// approvals, the sequential tool `external`, and the tools `approve` and `write`, which conflict
/// with each other.
fn tools(log: &Log) -> Toolset {
    let plain = ToolPolicy::default;
    let barrier = || ToolPolicy { sequential: true, requires_approval: true, ..plain() };
    let touches = TouchFn::new(|_| vec![Touch::write("account")]);
    let external = tool_without_parameters("external", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let sequential = ToolPolicy { sequential: true, ..plain() };
    Toolset::new()
        .with_tool(logged("before", plain(), log))
        .with_tool(logged("barrier", barrier(), log))
        .with_tool(logged("gate", barrier(), log))
        .with_tool(external.with_definition(|it| it.with_policy(sequential)))
        .with_tool(logged("after", plain(), log))
        .with_tool(logged(
            "approve",
            ToolPolicy { requires_approval: true, touches: Some(touches.clone()), ..plain() },
            log,
        ))
        .with_tool(logged("write", ToolPolicy { touches: Some(touches), ..plain() }, log))
}

/// An agent whose model makes calls to the tools of [`tools`] in one reply, and then answers. The
/// id of each call is the name of its tool.
struct Case {
    agent: ReactAgent,
    model: ScriptedModel,
    log: Log,
}

impl Case {
    fn new<const N: usize>(calls: [&str; N]) -> Self {
        Self::of(ScriptedModel::new().reply_calls(calls.map(|name| (name, name, "{}"))).reply_text("Done."))
    }

    /// Creates a case whose test ends before the answer.
    fn unfinished<const N: usize>(calls: [&str; N]) -> Self {
        Self::of(ScriptedModel::new().reply_calls(calls.map(|name| (name, name, "{}"))))
    }

    fn of(model: ScriptedModel) -> Self {
        let log = Log::default();
        let agent = ReactAgent::new(model.clone(), tools(&log)).unwrap();
        Self { agent, model, log }
    }

    /// Returns the names of the tools that were executed since the last call of this method.
    fn executed(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    async fn suspend(&self) -> SuspendedRun {
        reloaded(self.agent.run("Go.").await.unwrap())
    }

    /// Resumes `suspended`, and returns the run that is suspended again.
    async fn resume(&self, suspended: SuspendedRun, id: &str, decision: Decision) -> SuspendedRun {
        reloaded(self.agent.run(suspended.resume([(id, decision)])).await.unwrap())
    }

    /// Resumes `suspended`, and compares the last model request with `expected`.
    async fn finish(&self, suspended: SuspendedRun, id: &str, decision: Decision, expected: Expect) {
        let answer = self.agent.run(suspended.resume([(id, decision)])).await.unwrap().into_answer().unwrap();
        assert_paired(&answer.transcript);
        expected.assert_eq(&message_lines(&self.model.requests()[1]));
    }
}

fn ids(suspended: &SuspendedRun) -> Vec<&str> {
    suspended.undecided_calls().into_iter().map(|pending| &*pending.call.id).collect()
}

/// A sequential tool that waits for its approval delays the later calls of its reply, until it was
/// approved and has run.
#[tokio::test]
async fn calls_after_a_suspended_barrier_run_after_its_approval() {
    let case = Case::new(["before", "barrier", "after"]);
    let suspended = case.suspend().await;
    assert_eq!((ids(&suspended), case.executed()), (vec!["barrier"], vec!["before".to_owned()]));
    case.finish(
        suspended,
        "barrier",
        Decision::approved(),
        expect![[r#"
            user: Go.
            assistant: before before{}; barrier barrier{}; after after{}
            tool: before before
            tool: barrier barrier
            tool: after after
        "#]],
    )
    .await;
    assert_eq!(case.executed(), ["barrier", "after"]);
}

/// The calls of one reply in a written dialect are postponed, too.
#[tokio::test]
async fn written_calls_after_a_suspended_barrier_run_after_its_approval() {
    let json = r#"{"tool_calls": [{"name": "before", "args": {}}, {"name": "barrier", "args": {}}, {"name": "after", "args": {}}]}"#;
    for script in [Script::Json, Script::Text] {
        let model = script.model().reply_text(json);
        let case = Case::of(script.answer(model, "Done."));
        let suspended = case.suspend().await;
        let names: Vec<_> = suspended.undecided_calls().into_iter().map(|it| &*it.call.name).collect();
        assert_eq!((names, case.executed()), (vec!["barrier"], vec!["before".to_owned()]), "{script:?}");
        let answer = case.agent.run(suspended.approve_all()).await.unwrap().into_answer().unwrap();
        assert_eq!(
            (case.executed(), &*answer.text),
            (vec!["barrier".to_owned(), "after".to_owned()], "Done.")
        );
        assert_paired(&answer.transcript);
    }
}

#[tokio::test]
async fn calls_after_a_denied_barrier_run() {
    let case = Case::new(["barrier", "after"]);
    let suspended = case.suspend().await;
    case.finish(
        suspended,
        "barrier",
        Decision::denied("no"),
        expect![[r#"
            user: Go.
            assistant: barrier barrier{}; after after{}
            tool: barrier denied: no
            tool: after after
        "#]],
    )
    .await;
    assert_eq!(case.executed(), ["after"]);
}

#[tokio::test]
async fn calls_after_an_external_barrier_run_after_its_output() {
    let case = Case::new(["before", "external", "after"]);
    let suspended = case.suspend().await;
    assert_eq!(case.executed(), ["before"]);
    case.finish(
        suspended,
        "external",
        Decision::output("drawn"),
        expect![[r#"
            user: Go.
            assistant: before before{}; external external{}; after after{}
            tool: before before
            tool: external drawn
            tool: after after
        "#]],
    )
    .await;
    assert_eq!(case.executed(), ["after"]);
}

/// Calls that touch the same resource as a suspended call are postponed. Other calls run.
#[tokio::test]
async fn only_calls_in_conflict_with_a_suspended_call_are_postponed() {
    let case = Case::new(["approve", "write", "after"]);
    let suspended = case.suspend().await;
    assert_eq!(case.executed(), ["after"]);
    case.finish(
        suspended,
        "approve",
        Decision::approved(),
        expect![[r#"
            user: Go.
            assistant: approve approve{}; write write{}; after after{}
            tool: approve approve
            tool: write write
            tool: after after
        "#]],
    )
    .await;
    assert_eq!(case.executed(), ["approve", "write"]);
}

/// Two barriers request their approvals at once. Whichever is approved first, they run in the order
/// of the reply.
#[tokio::test]
async fn several_barriers_run_in_order() {
    for (first, second) in [("barrier", "gate"), ("gate", "barrier")] {
        let case = Case::new(["barrier", "write", "gate", "after"]);
        let suspended = case.suspend().await;
        assert_eq!((ids(&suspended), case.executed()), (vec!["barrier", "gate"], vec![]));
        let suspended = case.resume(suspended, first, Decision::approved()).await;
        assert_eq!(ids(&suspended), [second]);
        let executed = case.executed();
        assert_eq!(executed, if first == "barrier" { vec!["barrier", "write"] } else { vec![] });
        case.finish(
            suspended,
            second,
            Decision::approved(),
            expect![[r#"
                user: Go.
                assistant: barrier barrier{}; write write{}; gate gate{}; after after{}
                tool: barrier barrier
                tool: write write
                tool: gate gate
                tool: after after
            "#]],
        )
        .await;
        assert_eq!([executed, case.executed()].concat(), ["barrier", "write", "gate", "after"]);
    }
}

/// The host program gets an external call only after the barrier in front of it has run.
#[tokio::test]
async fn external_call_is_passed_to_the_host_after_the_barrier() {
    let case = Case::unfinished(["barrier", "external", "after"]);
    let suspended = case.suspend().await;
    assert_eq!(ids(&suspended), ["barrier"]);
    let suspended = case.resume(suspended, "barrier", Decision::approved()).await;
    assert_eq!((ids(&suspended), case.executed()), (vec!["external"], vec!["barrier".to_owned()]));
}

/// The decision about a postponed call is an error, as for any call that does not wait.
#[tokio::test]
async fn postponed_call_accepts_no_decision() {
    let case = Case::unfinished(["barrier", "after"]);
    let suspended = case.suspend().await;
    let error = case.agent.run(suspended.resume([("after", Decision::denied("no"))])).await.unwrap_err();
    expect![[
        r#"the run cannot begin: there is a decision about the call "after", which does not wait; waiting: barrier"#
    ]]
    .assert_eq(&error.to_string());
}

#[tokio::test]
async fn postponed_call_of_a_cancelled_run_has_a_result() {
    let case = Case::unfinished(["before", "barrier", "after"]);
    let mut run = Run::from_suspended(case.suspend().await).unwrap();
    run.cancel();
    assert_eq!((run.state(), case.executed()), (RunState::Ended, vec!["before".to_owned()]));
    assert_paired(run.transcript());
    let texts: Vec<_> = run.transcript().messages().iter().skip(2).map(|message| message.text()).collect();
    assert_eq!(texts, ["before", "cancelled", "cancelled"]);
}

/// A run whose time is up denies the postponed calls together with the decided call.
#[tokio::test]
async fn limit_closes_postponed_calls() {
    let case = Case::unfinished(["barrier", "after"]);
    let limits = RunLimits { time: Some(std::time::Duration::ZERO), ..RunLimits::default() };
    let resume = case.suspend().await.approve_all().with_limits(limits);
    let error = case.agent.run(resume).await.unwrap_err();
    assert_paired(&error.transcript);
    assert_eq!(case.executed(), Vec::<String>::new());
}

/// The events of a postponed call are those of a suspended call: it starts, becomes pending, and
/// starts again.
#[tokio::test]
async fn postponed_call_emits_a_pending_event() {
    let case = Case::unfinished(["barrier", "after"]);
    let events = case.agent.stream(RunInput::new("Go.")).map(Result::unwrap);
    let kinds = events.filter_map(|event| async move {
        match event {
            RunEvent::CallPending { pending } => Some((pending.call.id, pending.pending.kind)),
            _ => None,
        }
    });
    let approval = PendingKind::Approval { arguments: json!({}) };
    assert_eq!(
        kinds.collect::<Vec<_>>().await,
        [("barrier".to_owned(), approval), ("after".to_owned(), PendingKind::Postponed)]
    );
}

/// A child agent that is a sequential tool is a barrier while one of its calls is suspended.
#[tokio::test]
async fn suspended_child_agent_is_a_barrier() {
    let log = Log::default();
    let child = ScriptedModel::new().reply_calls([("1", "approve", "{}")]).reply_text("Bought.");
    let child = ReactAgent::new(child, tools(&log)).unwrap().into_tool("buy", "Buys something.");
    let policy = ToolPolicy { sequential: true, ..ToolPolicy::default() };
    let child = child.with_definition(|it| it.with_policy(policy));
    let model = ScriptedModel::new()
        .reply_calls([("buy", "buy", r#"{"task":"A pen."}"#), ("after", "after", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, tools(&log).with_tool(child)).unwrap();
    let suspended = reloaded(agent.run("Go.").await.unwrap());
    assert_eq!((ids(&suspended), log.lock().unwrap().len()), (vec!["buy/1"], 0));
    let answer = agent.run(suspended.approve_all()).await.unwrap().into_answer().unwrap();
    assert_eq!(*log.lock().unwrap(), ["approve", "after"]);
    assert_paired(&answer.transcript);
}

/// Creates the tool `plan`, which pushes calls to `barrier` and `after`.
fn plan() -> impl Tool + 'static {
    pushing_tool("plan", |queue| {
        for name in ["before", "barrier", "after"] {
            queue.push_call(name, json!({}))?;
        }
        Ok("planned")
    })
}

#[tokio::test]
async fn pushed_calls_after_a_suspended_barrier_run_after_its_approval() {
    let log = Log::default();
    let model = ScriptedModel::new().reply_calls([("1", "plan", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, tools(&log).with_tool(plan())).unwrap();
    let suspended = reloaded(agent.run("Go.").await.unwrap());
    assert_eq!((suspended.pending.len(), &*log.lock().unwrap()), (1, &vec!["before".to_owned()]));
    agent.run(suspended.approve_all()).await.unwrap().into_answer().unwrap();
    assert_eq!(*log.lock().unwrap(), ["before", "barrier", "after"]);
}

#[tokio::test]
async fn queue_postpones_calls_after_a_suspended_barrier() {
    let log = Log::default();
    let (tools, mut queue) = (tools(&log), PendingQueue::new());
    let handle = queue.handle(&tools, &RunContext::default()).await;
    for name in ["before", "barrier", "after"] {
        handle.push_call(name, json!({})).unwrap();
    }
    let pending = queue.execute(&tools, RunContext::default()).await;
    assert_eq!((pending.len(), &*log.lock().unwrap()), (1, &vec!["before".to_owned()]));
    let mut queue: PendingQueue = serde_json::from_str(&serde_json::to_string(&queue).unwrap()).unwrap();
    queue.on_decision(&pending[0].call.id, Decision::approved()).unwrap();
    assert_eq!(queue.execute(&tools, RunContext::default()).await, []);
    assert_eq!(*log.lock().unwrap(), ["before", "barrier", "after"]);
}
