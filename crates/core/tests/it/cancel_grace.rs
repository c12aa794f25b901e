//! Tests of the end of cancelled calls: their grace period and their cleanup.

use std::{
    future::{Future, pending},
    sync::Arc,
    time::Duration,
};

use haft_core::{
    Pipeline, Schema, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExt as _, ToolName, ToolResult,
    call::FailureKind,
    export::async_trait,
    limits,
    pipeline::{Batch, CallOutcome, InvalidCall, RepairHook},
    tool,
    tool::{DynamicTool, IntoToolOutput, OnCancel, RunContext, ToolPolicy},
    toolset::ToolList,
};
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// The time after which the tests cancel their calls.
const START: Duration = Duration::from_millis(50);

fn definition(name: &str, policy: ToolPolicy) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object()).with_policy(policy)
}

/// Creates a tool that calls `function` with its context.
fn tool<F, Fut>(name: &str, function: F) -> DynamicTool
where
    F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoToolOutput> + Send + 'static,
{
    DynamicTool::new(definition(name, ToolPolicy::default()), move |_, cx| function(cx))
}

/// Creates the tool `hold`, which locks `lock` and never returns.
fn holding_tool(lock: &Arc<Mutex<()>>, timeout: Duration) -> DynamicTool {
    let lock = Arc::clone(lock);
    let policy = ToolPolicy { timeout: Some(timeout), ..ToolPolicy::default() };
    DynamicTool::new(definition("hold", policy), move |_, _| {
        let lock = Arc::clone(&lock);
        async move {
            let _guard = lock.lock_owned().await;
            pending::<()>().await;
        }
    })
}

/// Creates the tool `tidy`, which needs `cleanup` to end after a cancellation.
fn listening_tool(cleanup: Duration) -> DynamicTool {
    let policy = ToolPolicy::default().with_on_cancel(OnCancel::Grace);
    DynamicTool::new(definition("tidy", policy), move |_, cx| async move {
        cx.cancellation().cancelled().await;
        sleep(cleanup).await;
        "tidied up"
    })
}

/// Runs one call to each of `tools` in parallel, cancels them after [`START`], and returns the
/// results and the duration from the cancellation to the results.
async fn cancel_calls(
    pipeline: &Pipeline,
    tools: impl IntoIterator<Item = DynamicTool>,
) -> (Vec<ToolResult>, Duration) {
    let tools = ToolList::new("test", tools);
    let calls: Vec<_> = tools.names().map(|name| ToolCall::new(name.as_str(), name.as_str(), "{}")).collect();
    let token = CancellationToken::new();
    let run_context = Arc::new(RunContext { cancellation: token.clone(), ..RunContext::default() });
    let batch = Batch { run_context, ..Batch::new(tools, calls) };
    let cancel = async {
        sleep(START).await;
        token.cancel();
        Instant::now()
    };
    let (outcomes, cancelled) = tokio::join!(pipeline.call_all(batch), cancel);
    (outcomes.into_iter().map(CallOutcome::into_result).collect(), cancelled.elapsed())
}

fn kind(result: &ToolResult) -> Option<FailureKind> {
    result.failure().map(|failure| failure.kind)
}

/// The lock of an aborted call is free when the call is reported as cancelled. A tool that does not
/// listen to its token does not delay the cancellation.
#[tokio::test(start_paused = true)]
async fn aborted_calls_are_dropped_before_they_are_reported() {
    let locks = [Arc::default(), Arc::default()];
    let [one, two] = &locks;
    let tools = [holding_tool(one, limits::CALL_TIMEOUT), {
        let two = Arc::clone(two);
        tool("hold_too", move |_| {
            let two = Arc::clone(&two);
            async move {
                let _guard = two.lock_owned().await;
                pending::<()>().await;
            }
        })
    }];
    let (results, delay) = cancel_calls(&Pipeline::new(), tools).await;
    assert_eq!(results.iter().map(kind).collect::<Vec<_>>(), [Some(FailureKind::Cancelled); 2]);
    assert!(locks.iter().all(|lock| lock.try_lock().is_ok()));
    assert!(delay < Duration::from_millis(10), "{delay:?}");
}

/// A tool does not listen to its token because a nested call needed an approval or a repair of its
/// arguments.
#[tokio::test(start_paused = true)]
async fn nested_call_does_not_make_its_caller_listen() {
    struct NoRepair;

    #[async_trait]
    impl RepairHook for NoRepair {
        async fn repair(&self, _: &InvalidCall<'_>) -> Option<Value> {
            None
        }
    }

    let nested = || tool("nested", |_| async {}).with_approval();
    let outer = tool("outer", move |cx| async move {
        let pipeline = Pipeline::unbounded().with_repair_hook(NoRepair);
        for arguments in [json!({}), json!(7)] {
            pipeline.call_tool(&nested(), arguments, &cx.for_nested_call(1)).await;
        }
        pending::<()>().await;
    });
    let (results, delay) = cancel_calls(&Pipeline::new(), [outer]).await;
    assert_eq!(kind(&results[0]), Some(FailureKind::Cancelled));
    assert!(delay < Duration::from_millis(10), "{delay:?}");
}

/// A tool that listens to its token has the grace period to end by itself. Its result is recorded.
/// After the period it is aborted.
#[tokio::test(start_paused = true)]
async fn listening_call_ends_by_itself_within_the_grace_period() {
    let millis = Duration::from_millis;
    let long = Pipeline::new().with_cancel_grace(millis(5000));
    let none = Pipeline::new().with_cancel_grace(Duration::ZERO);
    for (pipeline, cleanup, expected, at) in [
        (Pipeline::new(), millis(300), None, millis(300)),
        (Pipeline::new(), millis(900), Some(FailureKind::Cancelled), limits::CANCEL_GRACE),
        (long, millis(900), None, millis(900)),
        (none, millis(300), Some(FailureKind::Cancelled), millis(0)),
    ] {
        let (results, delay) = cancel_calls(&pipeline, [listening_tool(cleanup)]).await;
        assert_eq!(kind(&results[0]), expected, "{cleanup:?}");
        assert!(delay >= at && delay < at + millis(10), "{delay:?} instead of {at:?}");
        assert_eq!(pipeline.abandoned_calls(), 0);
    }
}

/// A direct call has the same grace period as a call in a batch.
#[tokio::test(start_paused = true)]
async fn direct_call_ends_by_itself_within_the_grace_period() {
    let cx = ToolContext::default();
    let token = cx.cancellation().clone();
    let cancel = async {
        sleep(START).await;
        token.cancel();
    };
    let tidy = listening_tool(Duration::from_millis(300));
    let (outcome, ()) = tokio::join!(tidy.invoke_with(json!({}), &cx), cancel);
    assert_eq!(outcome.into_result().model_text(), "tidied up");
}

/// A call that waits for a sequential call is not started after the cancellation, even if the
/// sequential call ends by itself.
#[tokio::test(start_paused = true)]
async fn waiting_calls_are_not_started_after_a_cancellation() {
    let first = listening_tool(Duration::from_millis(100))
        .with_definition(|it| it.with_policy(ToolPolicy { sequential: true, ..ToolPolicy::default() }));
    let second = tool("second", |_| async { panic!("it must not run") as String });
    let tools = ToolList::collect(
        [("test", Arc::new(first) as Arc<dyn tool::Tool>), ("test", Arc::new(second) as _)],
        Vec::new(),
    );
    let token = CancellationToken::new();
    let run_context = Arc::new(RunContext { cancellation: token.clone(), ..RunContext::default() });
    let calls = ["tidy", "second"].map(|name| ToolCall::new(name, name, "{}"));
    let batch = Batch { run_context, ..Batch::new(tools, calls) };
    let cancel = async {
        sleep(START).await;
        token.cancel();
    };
    let (outcomes, ()) = tokio::join!(async { Pipeline::new().call_all(batch).await }, cancel);
    let results: Vec<_> = outcomes.into_iter().map(CallOutcome::into_result).collect();
    assert_eq!((kind(&results[0]), kind(&results[1])), (None, Some(FailureKind::Cancelled)));
}

/// The lock of a call that times out is free when the timeout is reported.
#[tokio::test(start_paused = true)]
async fn timed_out_call_is_dropped_before_it_is_reported() {
    let lock = Arc::default();
    let hold = holding_tool(&lock, Duration::from_millis(100));
    let batch = Batch::new(ToolList::new("test", [hold]), [ToolCall::new("a", "hold", "{}")]);
    let started = Instant::now();
    let results = Pipeline::new().call_all(batch).await;
    let result = results.into_iter().next().unwrap().into_result();
    assert_eq!(kind(&result), Some(FailureKind::TimedOut));
    assert!(started.elapsed() < Duration::from_millis(110));
    assert!(lock.try_lock().is_ok());
}

/// The lock of a nested call is free when the outer call is reported, after a cancellation and
/// after a timeout. The outer tool ignores the cancellation.
#[tokio::test(start_paused = true)]
async fn nested_calls_end_before_the_outer_call() {
    let lock = Arc::default();
    for timeout in [Duration::from_millis(20), limits::CALL_TIMEOUT] {
        let inner = ToolList::new("inner", [holding_tool(&lock, limits::CALL_TIMEOUT)]);
        let policy = ToolPolicy { timeout: Some(timeout), ..ToolPolicy::default() };
        let outer = DynamicTool::new(definition("outer", policy), move |_, cx| {
            let inner = inner.clone();
            async move {
                let pipeline = Pipeline::current(&cx).unwrap();
                let call = ToolCall::new("b", "hold", "{}");
                let nested = pipeline.call(&inner, &call, &cx.for_nested_call(1)).await;
                Err::<String, _>(ToolError::failed(nested.into_result().model_text()))
            }
        });
        let (results, delay) = cancel_calls(&Pipeline::new(), [outer]).await;
        let expected = if timeout < START { FailureKind::TimedOut } else { FailureKind::Failed };
        assert_eq!(kind(&results[0]), Some(expected));
        assert!(lock.try_lock().is_ok());
        assert!(delay < Duration::from_millis(10), "{delay:?}");
    }
}

/// A blocking tool cannot be aborted. A short call ends within the grace period, and a long call is
/// abandoned.
#[tokio::test]
async fn blocking_call_has_the_grace_period() {
    /// Blocks a thread of the pool.
    #[tool(blocking)]
    fn block(millis: u64) -> String {
        std::thread::sleep(Duration::from_millis(millis));
        "blocked".to_owned()
    }

    for (millis, grace, expected) in [(200, 5000, None), (400, 50, Some(FailureKind::Cancelled))] {
        let pipeline = Pipeline::new().with_cancel_grace(Duration::from_millis(grace));
        let cx = ToolContext::default();
        let token = cx.cancellation().clone();
        let cancel = async {
            sleep(START).await;
            token.cancel();
        };
        let (outcome, ()) = tokio::join!(pipeline.call_tool(&Block, json!({"millis": millis}), &cx), cancel);
        assert_eq!(kind(&outcome.into_result()), expected);
        assert_eq!(pipeline.abandoned_calls(), usize::from(expected.is_some()));
    }
}

/// A tool that blocks its thread cannot be dropped. The pipeline waits for a limited time, and then
/// counts the call as abandoned until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_blocks_its_thread_is_abandoned_after_a_limited_wait() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let stuck = tool("stuck", move |_| {
        let gate = Arc::clone(&gate);
        async move {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
    });
    let pipeline = Pipeline::new();
    let (results, delay) = cancel_calls(&pipeline, [stuck]).await;
    assert_eq!(kind(&results[0]), Some(FailureKind::Cancelled));
    assert!(delay >= limits::ABORT_WAIT && delay < Duration::from_secs(10), "{delay:?}");
    assert_eq!(pipeline.abandoned_calls(), 1);
    drop(release);
    while pipeline.abandoned_calls() > 0 {
        tokio::task::yield_now().await;
    }
}
