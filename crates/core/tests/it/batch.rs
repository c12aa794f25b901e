//! Tests of batches: tool calls that run in parallel.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Pipeline, Schema, ToolCall, ToolContext, ToolDefinition, ToolError, ToolName, ToolResult,
    call::FailureKind,
    pipeline::{Batch, CallOutcome},
    tool::{DynamicTool, HostState, RunContext, ToolPolicy},
    toolset::ToolList,
};
use tokio::time::{Instant, sleep};

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

fn batch(tools: impl IntoIterator<Item = DynamicTool>, names: &[&str]) -> Batch {
    let calls = names.iter().enumerate().map(|(i, name)| ToolCall::new(format!("call_{i}"), *name, "{}"));
    Batch::new(ToolList::new("test", tools), calls)
}

async fn run_batch(pipeline: &Pipeline, batch: Batch) -> Vec<ToolResult> {
    pipeline.call_all(batch).await.into_iter().map(CallOutcome::into_result).collect()
}

fn texts(results: &[ToolResult]) -> Vec<String> {
    results.iter().map(|result| result.model_text().into_owned()).collect()
}

/// Five parallel calls that take about 100 ms each take about 100 ms in total. The results are in
/// call order, although the last call ends first.
#[tokio::test(start_paused = true)]
async fn calls_overlap_and_results_are_in_call_order() {
    let delay = Arc::new(AtomicUsize::new(5));
    let tool = DynamicTool::new(definition("wait"), move |_, cx: ToolContext| {
        let delay = delay.fetch_sub(1, Ordering::Relaxed) as u64;
        async move {
            sleep(Duration::from_millis(95 + delay)).await;
            cx.call_id().to_owned()
        }
    });
    let began = Instant::now();
    let results = run_batch(&Pipeline::new(), batch([tool], &["wait"; 5])).await;
    assert!(began.elapsed() < Duration::from_millis(110), "{:?}", began.elapsed());
    assert_eq!(texts(&results), ["call_0", "call_1", "call_2", "call_3", "call_4"]);
}

/// A batch with a successful call, a failing call, a panicking call and a call to an unknown tool
/// has four results in call order.
#[tokio::test]
async fn failed_call_does_not_affect_its_siblings() {
    let ok = DynamicTool::new(definition("ok"), |_, _| async { "fine" });
    let error =
        DynamicTool::new(definition("error"), |_, _| async { Err::<(), _>(ToolError::failed("broken")) });
    let panics = DynamicTool::new(definition("panics"), |_, _| async {
        if true {
            panic!("boom");
        }
    });
    let results =
        run_batch(&Pipeline::new(), batch([ok, error, panics], &["ok", "error", "panics", "okk"])).await;
    expect![[r#"
        [
            "fine",
            "broken",
            "the tool panicked; it may have done a part of its work",
            "unknown tool \"okk\"; did you mean \"ok\"? available: ok, error, panics",
        ]
    "#]]
    .assert_debug_eq(&texts(&results));
}

/// On a multi-thread runtime, a tool that blocks its thread times out and does not affect the other
/// calls. `Pipeline::abandoned_calls` counts the call until its code returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn call_that_blocks_its_thread_times_out_alone() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(Some(blocked));
    let policy = ToolPolicy { timeout: Some(Duration::from_millis(50)), ..ToolPolicy::default() };
    let blocks = DynamicTool::new(definition("blocks").with_policy(policy), move |_, _| {
        let blocked = blocked.lock().unwrap().take().unwrap();
        async move { blocked.recv().unwrap_or(()) }
    });
    let ok = DynamicTool::new(definition("ok"), |_, _| async { "fine" });
    let pipeline = Pipeline::new();
    let results = run_batch(&pipeline, batch([blocks, ok], &["blocks", "ok"])).await;
    assert_eq!(texts(&results), ["timed out after 50 ms", "fine"]);
    assert_eq!(pipeline.abandoned_calls(), 1);
    release.send(()).unwrap();
    while pipeline.abandoned_calls() > 0 {
        tokio::task::yield_now().await;
    }
}

/// The batch has the calls s1, s2, b and s3, and the tool `b` is sequential. Calls s1 and s2
/// overlap, b runs alone after them, and s3 runs after b.
#[tokio::test(start_paused = true)]
async fn sequential_tool_is_a_barrier() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let tool = |name: &'static str, sequential| {
        let log = log.clone();
        let policy = ToolPolicy { sequential, ..ToolPolicy::default() };
        DynamicTool::new(definition(name).with_policy(policy), move |_, _| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push(format!("{name} begins"));
                sleep(Duration::from_millis(10)).await;
                log.lock().unwrap().push(format!("{name} ends"));
                name
            }
        })
    };
    let tools = [tool("s1", false), tool("s2", false), tool("b", true), tool("s3", false)];
    let results = run_batch(&Pipeline::new(), batch(tools, &["s1", "s2", "b", "s3"])).await;
    assert_eq!(texts(&results), ["s1", "s2", "b", "s3"]);
    expect![[r#"
        [
            "s1 begins",
            "s2 begins",
            "s1 ends",
            "s2 ends",
            "b begins",
            "b ends",
            "s3 begins",
            "s3 ends",
        ]
    "#]]
    .assert_debug_eq(&*log.lock().unwrap());
}

#[tokio::test]
async fn dropping_the_batch_aborts_its_calls() {
    struct OnDrop(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let (dropped, drops) = tokio::sync::oneshot::channel();
    let (began, begins) = tokio::sync::oneshot::channel();
    let guards = Mutex::new(Some((began, OnDrop(Some(dropped)))));
    let tool = DynamicTool::new(definition("wait"), move |_, _| {
        let (began, guard) = guards.lock().unwrap().take().unwrap();
        async move {
            let _guard = guard;
            began.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    let pipeline = Pipeline::new();
    let all = tokio::spawn(async move { pipeline.call_all(batch([tool], &["wait"])).await });
    begins.await.unwrap();
    all.abort();
    drops.await.unwrap();
}

#[tokio::test]
async fn every_call_of_a_cancelled_batch_has_a_result() {
    let tool = DynamicTool::new(definition("wait"), |_, cx: ToolContext| async move {
        cx.cancellation().cancel();
        std::future::pending::<()>().await;
    });
    let results = run_batch(&Pipeline::new(), batch([tool], &["wait", "wait"])).await;
    let kinds: Vec<_> = results.iter().map(|result| result.failure().unwrap().kind).collect();
    assert_eq!(kinds, [FailureKind::Cancelled, FailureKind::Cancelled]);
}

/// If a call and its run have host state of the same type, the value of the call is used.
#[tokio::test]
async fn state_of_a_call_overrides_state_of_the_run() {
    let show = DynamicTool::new(definition("show"), |_, cx| async move {
        Ok::<_, ToolError>(format!("{} {}", cx.state::<u32>()?, cx.state::<char>()?))
    });
    let run =
        RunContext { state: HostState::new().with_value(1_u32).with_value('a'), ..RunContext::default() };
    let mut batch = Batch { run_context: Arc::new(run), ..batch([show], &["show", "show"]) };
    batch.calls[1].state = HostState::new().with_value(2_u32);
    assert_eq!(texts(&run_batch(&Pipeline::new(), batch).await), ["1 a", "2 a"]);
}
