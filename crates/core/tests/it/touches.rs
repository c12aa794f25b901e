//! Tests of the execution order of parallel calls that touch the same resources.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::{Expect, expect};
use futures::StreamExt as _;
use haft_core::{
    Pipeline, Schema, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolName,
    call::{ApprovalRule, Approvals, Decision, Pending, PendingKind, ToolResponse},
    export::async_trait,
    pipeline::{Batch, CallOutcome, InvalidCall, RepairHook},
    tool::{DynamicTool, RunContext, ToolPolicy, Touch, TouchFn},
    toolset::ToolList,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The call id, the start and the end of each finished call. Times are in milliseconds since the
/// beginning of the test.
type CallTimes = Arc<Mutex<Vec<(String, u64, u64)>>>;

fn definition(name: &str, policy: ToolPolicy) -> ToolDefinition {
    let schema = Schema::new(json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "ms": {"type": "integer"}},
    }));
    ToolDefinition::new(ToolName::new(name).unwrap(), schema.unwrap()).with_policy(policy)
}

/// Creates a tool that adds the start and the end of each call to `times`. The argument `ms` sets
/// the duration of a call in milliseconds. The default is 10.
fn timed_tool(name: &str, policy: ToolPolicy, times: &CallTimes, began: Instant) -> DynamicTool {
    let times = Arc::clone(times);
    DynamicTool::new(definition(name, policy), move |arguments: Value, cx: ToolContext| {
        let times = Arc::clone(&times);
        async move {
            let now = || u64::try_from(began.elapsed().as_millis()).unwrap();
            let start = now();
            sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(10))).await;
            times.lock().unwrap().push((cx.call_id().to_owned(), start, now()));
            cx.call_id().to_owned()
        }
    })
}

/// Creates four tools. `read` and `write` touch the files in their argument `path`, and their
/// `touches` function panics if `path` is empty. `free` touches no resource. `alone` is sequential.
fn tools(times: &CallTimes, began: Instant) -> ToolList {
    let touching = |touch: fn(String) -> Touch| ToolPolicy {
        touches: Some(TouchFn::new(move |arguments| match arguments["path"].as_str() {
            None => Vec::new(),
            Some("") => panic!("no path"),
            Some(paths) => paths.split(' ').map(|path| touch(format!("file:{path}"))).collect(),
        })),
        ..ToolPolicy::default()
    };
    let alone = ToolPolicy { sequential: true, ..ToolPolicy::default() };
    let tools = [
        timed_tool("read", touching(Touch::read), times, began),
        timed_tool("write", touching(Touch::write), times, began),
        timed_tool("free", ToolPolicy::default(), times, began),
        timed_tool("alone", alone, times, began),
    ];
    ToolList::new("test", tools)
}

fn batch(tools: ToolList, calls: &[(&str, &str)]) -> Batch {
    let calls = calls.iter().map(|(tool, arguments)| {
        let id = format!("{tool} {}", arguments.trim_matches(['{', '}']));
        ToolCall::new(id, *tool, *arguments)
    });
    Batch::new(tools, calls)
}

/// Runs `calls`, pairs of a tool name and JSON arguments, as one batch. Compares their times with
/// `expected`, which contains a line `start..end id` for each call, in the order in which the calls
/// end.
async fn check(calls: &[(&str, &str)], expected: Expect) {
    let (times, began) = (CallTimes::default(), Instant::now());
    let outcomes = Pipeline::new().call_all(batch(tools(&times, began), calls)).await;
    assert_eq!(outcomes.len(), calls.len());
    let times = times.lock().unwrap();
    let lines: Vec<_> = times.iter().map(|(id, start, end)| format!("{start}..{end} {id}\n")).collect();
    expected.assert_eq(&lines.concat());
}

#[tokio::test(start_paused = true)]
async fn writers_of_one_file_run_in_order_and_of_different_files_in_parallel() {
    let calls = [
        ("write", r#"{"path":"a"}"#),
        ("write", r#"{"path":"b", "ms":15}"#),
        ("write", r#"{"path":"a", "ms":11}"#),
        ("write", r#"{"path":"b", "ms":7}"#),
    ];
    check(
        &calls,
        expect![[r#"
        0..10 write "path":"a"
        0..15 write "path":"b", "ms":15
        10..21 write "path":"a", "ms":11
        15..22 write "path":"b", "ms":7
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn readers_run_in_parallel_between_writers() {
    let calls = [
        ("read", r#"{"path":"a", "ms":1}"#),
        ("read", r#"{"path":"a", "ms":5}"#),
        ("write", r#"{"path":"a"}"#),
        ("read", r#"{"path":"a", "ms":2}"#),
        ("read", r#"{"path":"a b", "ms":3}"#),
        ("free", r#"{"ms":30}"#),
        ("write", r#"{"path":"a"}"#),
    ];
    check(
        &calls,
        expect![[r#"
        0..1 read "path":"a", "ms":1
        0..5 read "path":"a", "ms":5
        5..15 write "path":"a"
        15..17 read "path":"a", "ms":2
        15..18 read "path":"a b", "ms":3
        18..28 write "path":"a"
        0..30 free "ms":30
    "#]],
    )
    .await;
}

/// A call can touch several resources. If it touches the same resource twice, it must not wait for
/// itself.
#[tokio::test(start_paused = true)]
async fn call_may_touch_several_resources() {
    let calls = [
        ("write", r#"{"path":"a a"}"#),
        ("write", r#"{"path":"b", "ms":15}"#),
        ("write", r#"{"path":"a b a"}"#),
        ("read", r#"{"path":"b"}"#),
    ];
    check(
        &calls,
        expect![[r#"
        0..10 write "path":"a a"
        0..15 write "path":"b", "ms":15
        15..25 write "path":"a b a"
        25..35 read "path":"b"
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn sequential_tool_conflicts_with_every_call() {
    let calls = [
        ("write", r#"{"path":"a"}"#),
        ("free", r#"{"ms":15}"#),
        ("alone", "{}"),
        ("alone", r#"{"ms":1}"#),
        ("write", r#"{"path":"a"}"#),
        ("free", r#"{"ms":2}"#),
    ];
    check(
        &calls,
        expect![[r#"
        0..10 write "path":"a"
        0..15 free "ms":15
        15..25 alone 
        25..26 alone "ms":1
        26..28 free "ms":2
        26..36 write "path":"a"
    "#]],
    )
    .await;
}

/// The resources of a call are unknown if its arguments are invalid, or if the `touches` function
/// panics, as it does here for an empty path. A call with unknown resources must run alone.
#[tokio::test(start_paused = true)]
async fn call_with_unknown_resources_runs_alone() {
    let calls = [
        ("free", "{}"),
        ("read", r#"{"path":"", "ms":1}"#),
        ("free", "{}"),
        ("read", r#"{"path":[1,2]}"#),
        ("free", r#"{"ms":1}"#),
        ("read", "not JSON"),
        ("free", r#"{"ms":2}"#),
    ];
    check(
        &calls,
        expect![[r#"
        0..10 free 
        10..11 read "path":"", "ms":1
        11..21 free 
        21..22 free "ms":1
        22..24 free "ms":2
    "#]],
    )
    .await;
}

/// The `touches` function receives the repaired arguments: `"5"` is repaired to `5`, and the empty
/// text to `{}`.
#[tokio::test(start_paused = true)]
async fn function_receives_repaired_arguments() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let touches = {
        let seen = Arc::clone(&seen);
        TouchFn::new(move |arguments| {
            seen.lock().unwrap().push(arguments.clone());
            Vec::new()
        })
    };
    let policy = ToolPolicy { touches: Some(touches), ..ToolPolicy::default() };
    let tools = ToolList::new("test", [timed_tool("wait", policy, &CallTimes::default(), Instant::now())]);
    let one = batch(tools.clone(), &[("wait", "{}")]);
    Pipeline::new().call_all(one).await;
    assert!(seen.lock().unwrap().is_empty(), "a single call has no conflicts");
    let two = batch(tools, &[("wait", r#"{"ms":"5"}"#), ("wait", "")]);
    Pipeline::new().call_all(two).await;
    assert_eq!(*seen.lock().unwrap(), [json!({"ms": 5}), json!({})]);
}

/// The model requests a write to `a`, but a person approves a write to `b` instead. A later write
/// to `b` waits for this call, and a later write to `a` does not.
#[tokio::test(start_paused = true)]
async fn approved_arguments_replace_those_of_the_model() {
    let (times, began) = (CallTimes::default(), Instant::now());
    let calls =
        [("write", r#"{"path":"a"}"#), ("write", r#"{"path":"a","ms":1}"#), ("write", r#"{"path":"b"}"#)];
    let mut batch = batch(tools(&times, began), &calls);
    let pending = Pending::new(PendingKind::Approval { arguments: json!({"path": "a"}) });
    let resumed = pending.resume(Decision::approved_with_arguments(json!({"path": "b"}))).unwrap();
    batch.calls[0].resumed = Some(resumed);
    Pipeline::new().call_all(batch).await;
    let starts: Vec<_> = times.lock().unwrap().iter().map(|(id, start, _)| (id.clone(), *start)).collect();
    expect![[r#"
        [
            (
                "write \"path\":\"a\",\"ms\":1",
                0,
            ),
            (
                "write \"path\":\"a\"",
                0,
            ),
            (
                "write \"path\":\"b\"",
                10,
            ),
        ]
    "#]]
    .assert_debug_eq(&starts);
}

/// Describes the outcome of a call in one word.
fn describe(outcome: &CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Finished(_) => "finished",
        CallOutcome::Pending(pending) => match pending.pending.kind {
            PendingKind::Approval { .. } => "approval",
            PendingKind::Postponed => "postponed",
            _ => "pending",
        },
    }
}

/// Creates the tools of [`tools`] and two tools that require approvals: `approve` writes the file
/// `a`, and `ask` is sequential. Also creates the sequential tool `external`, which is suspended.
fn suspending_tools(times: &CallTimes, began: Instant) -> ToolList {
    let touches = Some(TouchFn::new(|_| vec![Touch::write("file:a")]));
    let approve = ToolPolicy { requires_approval: true, touches, ..ToolPolicy::default() };
    let ask = ToolPolicy { requires_approval: true, sequential: true, ..ToolPolicy::default() };
    let alone = ToolPolicy { sequential: true, ..ToolPolicy::default() };
    let external = DynamicTool::new(definition("external", alone), |_, _| async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let suspending: Vec<Arc<dyn Tool>> = vec![
        Arc::new(timed_tool("approve", approve, times, began)),
        Arc::new(timed_tool("ask", ask, times, began)),
        Arc::new(external),
    ];
    let others = tools(times, began);
    let all = suspending.into_iter().chain(others.tools().iter().cloned());
    ToolList::collect(all.map(|tool| ("test", tool)), Vec::new())
}

/// Runs `calls`, and returns the outcome of each call in one word.
async fn outcomes(calls: &[(&str, &str)], suspended: &[usize]) -> Vec<&'static str> {
    let (times, began) = (CallTimes::default(), Instant::now());
    let mut batch = batch(suspending_tools(&times, began), calls);
    // Removing the last call first keeps the earlier indices valid.
    for index in suspended.iter().rev() {
        let call = batch.calls.remove(*index);
        batch.suspended.insert(0, (*index, call.call));
    }
    for (position, (index, _)) in batch.suspended.iter_mut().enumerate() {
        *index -= position;
    }
    Pipeline::new().call_all(batch).await.iter().map(describe).collect()
}

/// A call that conflicts with an earlier suspended call does not start. Other calls run.
#[tokio::test(start_paused = true)]
async fn suspended_call_postpones_later_calls_in_conflict() {
    let writes = [
        ("write", r#"{"path":"a"}"#),
        ("approve", "{}"),
        ("write", r#"{"path":"b"}"#),
        ("read", r#"{"path":"a b"}"#),
        ("write", r#"{"path":"b","ms":1}"#),
        ("free", "{}"),
    ];
    // The last write to `b` conflicts with the postponed read of `a b`.
    assert_eq!(
        outcomes(&writes, &[]).await,
        ["finished", "approval", "finished", "postponed", "postponed", "finished"]
    );
    let barrier = [("free", "{}"), ("external", "{}"), ("free", r#"{"ms":1}"#), ("alone", "{}")];
    assert_eq!(outcomes(&barrier, &[]).await, ["finished", "pending", "postponed", "postponed"]);
}

/// All approvals of a reply are requested at once, also for calls that cannot start yet. Invalid
/// arguments are reported at once as well. External calls are for the host program to execute, so
/// they are postponed.
#[tokio::test(start_paused = true)]
async fn postponed_call_requests_its_approval_at_once() {
    let calls =
        [("ask", "{}"), ("ask", r#"{"ms":1}"#), ("ask", "not JSON"), ("external", "{}"), ("free", "{}")];
    assert_eq!(outcomes(&calls, &[]).await, ["approval", "approval", "finished", "postponed", "postponed"]);
}

/// A remembered approval does not start a call before the suspended call in front of it. A
/// remembered denial is reported at once.
#[tokio::test(start_paused = true)]
async fn remembered_decision_does_not_start_a_postponed_call() {
    let (times, began) = (CallTimes::default(), Instant::now());
    let calls = [("external", "{}"), ("ask", "{}")];
    let pipeline = Pipeline::new();
    let outcomes = pipeline.call_all(batch(suspending_tools(&times, began), &calls)).await;
    let [_, CallOutcome::Pending(pending)] = &outcomes[..] else { panic!("{outcomes:?}") };
    for (decision, expected) in [
        (Decision::approved().for_tool(), ["pending", "postponed"]),
        (Decision::denied("never").for_tool(), ["pending", "finished"]),
    ] {
        let approvals = Approvals::new();
        approvals.extend(ApprovalRule::new(None, pending, &decision));
        let run_context = Arc::new(RunContext { approvals: Some(approvals), ..RunContext::default() });
        let batch = Batch { run_context, ..batch(suspending_tools(&times, began), &calls) };
        let outcomes: Vec<_> = pipeline.call_all(batch).await.iter().map(describe).collect();
        assert_eq!(outcomes, expected);
    }
    assert_eq!(*times.lock().unwrap(), []);
}

/// The arguments of a postponed call are repaired when the call runs.
#[tokio::test(start_paused = true)]
async fn postponed_call_is_not_repaired_by_a_hook() {
    struct Unused;

    #[async_trait]
    impl RepairHook for Unused {
        async fn repair(&self, call: &InvalidCall<'_>) -> Option<Value> {
            panic!("{call:?}")
        }
    }

    let (times, began) = (CallTimes::default(), Instant::now());
    let batch = batch(suspending_tools(&times, began), &[("external", "{}"), ("free", "not JSON")]);
    let outcomes = Pipeline::new().with_repair_hook(Unused).call_all(batch).await;
    assert_eq!(outcomes.iter().map(describe).collect::<Vec<_>>(), ["pending", "postponed"]);
}

/// A batch can contain later calls of a reply while earlier calls are suspended.
#[tokio::test(start_paused = true)]
async fn call_suspended_in_an_earlier_batch_postpones_calls() {
    let calls = [("ask", "{}"), ("free", "{}")];
    assert_eq!(outcomes(&calls, &[0]).await, ["postponed"]);
    let calls = [("free", "{}"), ("ask", "{}"), ("alone", "{}"), ("external", "{}"), ("free", r#"{"ms":1}"#)];
    assert_eq!(outcomes(&calls, &[1, 3]).await, ["finished", "postponed", "postponed"]);
    let calls = [("write", r#"{"path":"b"}"#), ("approve", "{}"), ("write", r#"{"path":"a"}"#)];
    assert_eq!(outcomes(&calls, &[1]).await, ["finished", "postponed"]);
    assert_eq!(outcomes(&calls, &[0, 1]).await, ["postponed"]);
}

/// Only a batch postpones calls: a tool that returns such a pending state fails.
#[tokio::test]
async fn tool_cannot_postpone_its_call() {
    let tool = DynamicTool::new(definition("later", ToolPolicy::default()), |_, _| async {
        ToolResponse::Pending(Pending::new(PendingKind::Postponed))
    });
    let outcomes = Pipeline::new().call_all(batch(ToolList::new("test", [tool]), &[("later", "{}")])).await;
    assert_eq!(describe(&outcomes[0]), "finished");
}

/// Dropping the stream aborts the running calls. Calls that wait for a running call never start.
#[tokio::test(start_paused = true)]
async fn dropping_the_stream_aborts_the_schedule() {
    let (times, began) = (CallTimes::default(), Instant::now());
    let calls = [
        ("write", r#"{"path":"a", "ms":1}"#),
        ("write", r#"{"path":"a"}"#),
        ("write", r#"{"path":"a"}"#),
        ("free", "{}"),
    ];
    let mut outcomes = Box::pin(Pipeline::new().stream_batch(batch(tools(&times, began), &calls)));
    let (index, _) = outcomes.next().await.unwrap();
    assert_eq!(index, 0);
    assert!(futures::poll!(outcomes.next()).is_pending());
    drop(outcomes);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(times.lock().unwrap().len(), 1);
}

/// Three calls write the same resource. The last call, `ok`, starts after the first call has failed
/// at 5 ms and the second call has panicked.
#[tokio::test(start_paused = true)]
async fn failed_call_does_not_block_later_calls() {
    let touches = TouchFn::new(|_| vec![Touch::write("x")]);
    let policy = || ToolPolicy { touches: Some(touches.clone()), ..ToolPolicy::default() };
    let fails = DynamicTool::new(definition("fails", policy()), |_, _| async {
        sleep(Duration::from_millis(5)).await;
        Err::<ToolResponse, _>(ToolError::failed("broken"))
    });
    let panics = DynamicTool::new(definition("panics", policy()), |_, _| async {
        if true {
            panic!("boom");
        }
    });
    let (times, began) = (CallTimes::default(), Instant::now());
    let tools = ToolList::new("test", [fails, panics, timed_tool("ok", policy(), &times, began)]);
    let batch = batch(tools, &[("fails", "{}"), ("panics", "{}"), ("ok", "{}")]);
    assert_eq!(Pipeline::new().call_all(batch).await.len(), 3);
    assert_eq!(*times.lock().unwrap(), [("ok ".to_owned(), 5, 15)]);
}

/// A randomly generated call for the property test.
#[derive(Clone, Debug)]
struct GeneratedCall {
    tool: &'static str,
    paths: Vec<&'static str>,
    ms: u64,
}

impl GeneratedCall {
    fn runs_alone(&self) -> bool {
        self.tool == "alone" || (["read", "write"].contains(&self.tool) && self.paths == [""])
    }

    fn is_in_conflict_with(&self, other: &Self) -> bool {
        let touch = |it: &Self| ["read", "write"].contains(&it.tool);
        let writes = self.tool == "write" || other.tool == "write";
        let shares = self.paths.iter().any(|path| other.paths.contains(path));
        self.runs_alone() || other.runs_alone() || (touch(self) && touch(other) && writes && shares)
    }
}

fn generated() -> impl Strategy<Value = GeneratedCall> {
    let tool = prop_oneof![
        4 => Just("read"),
        4 => Just("write"),
        1 => Just("free"),
        1 => Just("alone"),
    ];
    let paths = prop_oneof![
        9 => prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 1..4),
        1 => Just(vec![""]),
    ];
    (tool, paths, 1..20_u64).prop_map(|(tool, paths, ms)| GeneratedCall { tool, paths, ms })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each call starts when all earlier calls in conflict with it have ended. If no earlier call
    /// conflicts, the call starts with the batch. Every call has a result.
    #[test]
    fn calls_start_when_earlier_calls_in_conflict_have_ended(
        calls in prop::collection::vec(generated(), 0..24),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (times, began) = (CallTimes::default(), Instant::now());
            let batch = Batch::new(
                tools(&times, began),
                calls.iter().enumerate().map(|(index, call)| {
                    let arguments = json!({"path": call.paths.join(" "), "ms": call.ms});
                    ToolCall::new(index.to_string(), call.tool, arguments.to_string())
                }),
            );
            let outcomes = Pipeline::new().call_all(batch).await;
            let ids: Vec<_> = outcomes.iter().map(CallOutcome::call_id).collect();
            prop_assert_eq!(ids, (0..calls.len()).map(|index| index.to_string()).collect::<Vec<_>>());
            let mut times = times.lock().unwrap().clone();
            times.sort_by_key(|(id, _, _)| id.parse::<usize>().unwrap());
            prop_assert_eq!(times.len(), calls.len());
            for (index, call) in calls.iter().enumerate() {
                let earlier = calls.iter().zip(&times).take(index);
                let ends = earlier.filter(|(it, _)| it.is_in_conflict_with(call)).map(|(_, (_, _, end))| *end);
                prop_assert_eq!(times[index].1, ends.max().unwrap_or(0), "start of call {}", index);
                prop_assert_eq!(times[index].2, times[index].1 + call.ms);
            }
            Ok(())
        })?;
    }
}
