//! `tower` layers can be applied to tools.

use serde_json::json;
use std::{
    cell::Cell,
    future::{Ready, pending, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::join_all};
use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName, ToolSource, Toolset,
    call::{BoxError, Decision, FailureKind, Pending, PendingKind, ToolResponse},
    pipeline::{CallOutcome, CallRecord, Recorder},
    tool::{DynamicTool, ToolPolicy},
    toolset::{ListContext, SourceError, ToolList},
};
use haft_middleware::{CallRequest, ToolMiddleware as _, ToolRegistry, ToolsetMiddleware as _};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tower::{
    Service, ServiceBuilder,
    layer::layer_fn,
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer},
    retry::{Policy as RetryPolicy, RetryLayer},
    timeout::TimeoutLayer,
};

const SECOND: Duration = Duration::from_secs(1);

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// Creates a tool that takes one second.
fn slow(name: &str) -> DynamicTool {
    DynamicTool::new(definition(name), |_, _| async {
        sleep(SECOND).await;
        "done"
    })
}

fn hang() -> DynamicTool {
    DynamicTool::new(definition("hang"), |_, _| pending::<()>())
}

/// Creates a tool that returns an error for its first `failures` calls. Returns the tool and a
/// counter of its calls.
fn flaky(failures: usize, policy: ToolPolicy) -> (DynamicTool, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = DynamicTool::new(definition("flaky").with_policy(policy), move |_, _| {
        let is_down = counted.fetch_add(1, Ordering::Relaxed) < failures;
        async move { if is_down { Err(ToolError::retry("try later")) } else { Ok("up") } }
    });
    (tool, calls)
}

async fn call_text(tool: &impl Tool) -> String {
    tool.invoke(json!({})).await.model_text().into_owned()
}

#[tokio::test(start_paused = true)]
async fn tower_timeout_reads_like_a_pipeline_timeout() {
    let tool = hang().layer(TimeoutLayer::new(Duration::from_millis(50)));
    let result = tool.invoke(json!({})).await;
    assert_eq!(result.model_text(), "timed out after 50 ms");
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
    // The timeout of `tower` begins when the call leaves the queue of the concurrency limit, so the
    // time in the queue does not count.
    let queued = slow("slow").layer(
        ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).timeout(Duration::from_millis(500)),
    );
    let texts = futures::join!(call_text(&queued), call_text(&queued));
    assert_eq!(texts, ("timed out after 500 ms".to_owned(), "timed out after 500 ms".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn tokio_timeout_in_a_layer_is_a_timeout() {
    let layer = layer_fn(|inner| {
        tower::service_fn(move |request: CallRequest| {
            let mut inner: haft_middleware::ToolService = Clone::clone(&inner);
            async move { tokio::time::timeout(SECOND, inner.call(request)).await? }
        })
    });
    assert_eq!(call_text(&hang().layer(layer)).await, "timed out after 1000 ms");
}

#[tokio::test]
async fn errors_of_the_tool_keep_their_kind() {
    let own = |error: fn() -> ToolError| {
        DynamicTool::new(definition("per_run"), move |_, _| async move { Err::<(), _>(error()) })
            .layer(ServiceBuilder::new().buffer(1).concurrency_limit(1).timeout(SECOND))
    };
    assert_eq!(
        call_text(&own(|| ToolError::TimedOut { after: 7 * SECOND })).await,
        "timed out after 7000 ms"
    );
    let failed = own(|| ToolError::failed("request timed out")).invoke(json!({})).await;
    assert_eq!(failed.failure().unwrap().kind, FailureKind::Failed);
    for (error, kind) in [
        ((|| ToolError::retry("again")) as fn() -> ToolError, FailureKind::Retry),
        (|| ToolError::Denied("no".into()), FailureKind::Denied),
        (|| ToolError::Unconfirmed("lost".into()), FailureKind::Unconfirmed),
        (|| ToolError::Fatal("stop".into()), FailureKind::Fatal),
        (|| ToolError::Cancelled, FailureKind::Cancelled),
    ] {
        assert_eq!(own(error).invoke(json!({})).await.failure().unwrap().kind, kind);
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_bounds_parallel_calls() {
    let tool = slow("slow").layer(ConcurrencyLimitLayer::new(2));
    let started = Instant::now();
    let results = join_all((0..6).map(|_| call_text(&tool))).await;
    assert!(results.iter().all(|text| text == "done"));
    assert_eq!(started.elapsed().as_secs(), 3);
}

/// A call that times out or is dropped must return its permit to the concurrency limit.
#[tokio::test(start_paused = true)]
async fn aborted_calls_release_their_permit() {
    let policy = ToolPolicy { timeout: Some(SECOND), ..ToolPolicy::default() };
    let tool =
        hang().with_definition(|it| it.with_policy(policy.clone())).layer(ConcurrencyLimitLayer::new(1));
    assert_eq!(call_text(&tool).await, "timed out after 1000 ms");
    assert_eq!(tool.invoke(json!({})).now_or_never(), None);
    assert_eq!(call_text(&tool).await, "timed out after 1000 ms");
    // The deadline of the pipeline includes the time in the queue, so the queued second call also
    // ends after one second.
    let started = Instant::now();
    futures::join!(call_text(&tool), call_text(&tool));
    assert_eq!(started.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_works_under_a_buffer() {
    let tool = flaky(0, ToolPolicy::default()).0.layer(ServiceBuilder::new().buffer(8).rate_limit(2, SECOND));
    let started = Instant::now();
    let results = join_all((0..5).map(|_| call_text(&tool))).await;
    assert!(results.iter().all(|text| text == "up"), "{results:?}");
    assert_eq!(started.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn load_shed_rejects_excess_calls() {
    let tool = slow("slow").layer(ServiceBuilder::new().load_shed().concurrency_limit(1));
    let (first, second) = futures::join!(call_text(&tool), tool.invoke(json!({})));
    assert_eq!((first.as_str(), &*second.model_text()), ("done", "service overloaded"));
    assert_eq!(second.failure().unwrap().kind, FailureKind::Failed);
    assert_eq!(call_text(&tool).await, "done");
}

/// A `tower` retry policy that retries failed calls to idempotent tools. Contains the number of
/// remaining retries.
#[derive(Clone)]
struct RetryIdempotent(u32);

impl RetryPolicy<CallRequest, ToolResponse, BoxError> for RetryIdempotent {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        request: &mut CallRequest,
        result: &mut Result<ToolResponse, BoxError>,
    ) -> Option<Ready<()>> {
        let is_idempotent = request.definition.policy().idempotent;
        self.0 = self.0.checked_sub(1).filter(|_| is_idempotent && result.is_err())?;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &CallRequest) -> Option<CallRequest> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn only_idempotent_tools_are_retried() {
    let idempotent = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let (tool, calls) = flaky(2, idempotent.clone());
    assert_eq!(call_text(&tool.layer(RetryLayer::new(RetryIdempotent(2)))).await, "up");
    assert_eq!(calls.load(Ordering::Relaxed), 3);

    let (tool, calls) = flaky(9, idempotent);
    let failed = tool.layer(RetryLayer::new(RetryIdempotent(2))).invoke(json!({})).await;
    assert_eq!(failed.failure().unwrap().kind, FailureKind::Retry);
    assert_eq!(calls.load(Ordering::Relaxed), 3);

    let (tool, calls) = flaky(1, ToolPolicy::default());
    assert_eq!(call_text(&tool.layer(RetryLayer::new(RetryIdempotent(2)))).await, "try later");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A service that is `Send` but not `Sync`. Its method `call` panics unless `poll_ready` was called
/// on the same clone before.
#[derive(Clone)]
struct StrictService<S> {
    inner: S,
    is_ready: Cell<bool>,
}

impl<S: Service<CallRequest>> Service<CallRequest> for StrictService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.is_ready.set(true);
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: CallRequest) -> S::Future {
        assert!(self.is_ready.replace(false), "called without being ready");
        self.inner.call(request)
    }
}

#[tokio::test]
async fn service_may_be_unsync_and_is_called_after_poll_ready() {
    let tool = flaky(0, ToolPolicy::default())
        .0
        .layer(layer_fn(|inner| StrictService { inner, is_ready: Cell::new(false) }));
    assert_eq!((call_text(&tool).await, call_text(&tool).await), ("up".to_owned(), "up".to_owned()));
}

/// A fault that a layer in a test simulates.
#[derive(Clone, Copy, Debug)]
enum Fault {
    PanicInPollReady,
    PanicInCall,
    NeverReady,
    NeverReplies,
    NotReadyError,
    CallsTwice,
}

#[derive(Clone)]
struct Faulty<S>(Fault, S);

impl<S> Service<CallRequest> for Faulty<S>
where
    S: Service<CallRequest, Response = ToolResponse, Error = BoxError, Future: Send + 'static>,
{
    type Response = ToolResponse;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<ToolResponse, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.0 {
            Fault::PanicInPollReady => panic!("not ready"),
            Fault::NeverReady => Poll::Pending,
            Fault::NotReadyError => Poll::Ready(Err("closed for today".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: CallRequest) -> Self::Future {
        match self.0 {
            Fault::PanicInCall => panic!("called"),
            Fault::NeverReplies => pending().boxed(),
            _ => {
                let calls = [self.1.call(request.clone()), self.1.call(request)];
                async move { join_all(calls).await.pop().unwrap() }.boxed()
            }
        }
    }
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Recorder for Count {
    fn record(&self, _: &CallRecord<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call through a faulty layer must still have one result and one call record, and end within its
/// deadline. The next call must not be affected.
#[tokio::test(start_paused = true)]
async fn faulty_layer_affects_only_its_call() {
    for (fault, text) in [
        (Fault::PanicInPollReady, "the tool panicked; it may have done a part of its work"),
        (Fault::PanicInCall, "the tool panicked; it may have done a part of its work"),
        (Fault::NeverReady, "timed out after 1000 ms"),
        (Fault::NeverReplies, "timed out after 1000 ms"),
        (Fault::NotReadyError, "closed for today"),
        (Fault::CallsTwice, "up"),
    ] {
        let policy = ToolPolicy { timeout: Some(SECOND), ..ToolPolicy::default() };
        let (tool, _) = flaky(0, policy);
        let log = Count::default();
        let tools = Toolset::new()
            .with_tool(tool.layer(layer_fn(move |inner| Faulty(fault, inner))))
            .with_pipeline(Pipeline::new().with_recorder(log.clone()));
        for calls in 1..=2 {
            let started = Instant::now();
            assert_eq!(tools.call("flaky", json!({})).await.model_text(), text, "{fault:?}");
            assert!(started.elapsed() <= SECOND);
            assert_eq!(log.0.load(Ordering::Relaxed), calls, "{fault:?}");
        }
    }
}

/// If a layer drops a call that has started, side effects may have happened, so the failure must be
/// `Unconfirmed`. For an idempotent tool, the failure must be the error of the layer, because the
/// call can be repeated.
#[tokio::test]
async fn call_dropped_by_a_layer_is_unconfirmed() {
    let give_up = || {
        layer_fn(|inner: haft_middleware::ToolService| {
            tower::service_fn(move |request: CallRequest| {
                let mut inner = inner.clone();
                async move {
                    match inner.call(request).now_or_never() {
                        Some(outcome) => outcome,
                        None => Err(BoxError::from("going down")),
                    }
                }
            })
        })
    };
    let lost = hang().layer(give_up()).invoke(json!({})).await;
    assert_eq!(lost.failure().unwrap().kind, FailureKind::Unconfirmed);
    assert_eq!(lost.model_text(), "unconfirmed, it may or may not have happened: going down");
    let idempotent = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let again = hang().with_definition(|it| it.with_policy(idempotent)).layer(give_up());
    assert_eq!(call_text(&again).await, "going down");
    assert_eq!(call_text(&flaky(0, ToolPolicy::default()).0.layer(give_up())).await, "up");
}

/// Calls that are denied or wait for an approval must not reach the layers.
#[tokio::test]
async fn layers_see_only_permitted_and_resumed_calls() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let tool = DynamicTool::new(definition("ask"), |_, cx: ToolContext| async move {
        match cx.decision() {
            Some(Decision::Input { value }) => ToolResponse::from(value.to_string()),
            _ => ToolResponse::Pending(Pending::new(PendingKind::input("Which?"))),
        }
    });
    let policy =
        ToolPolicy { requires_approval: true, required_scopes: vec!["ask".into()], ..ToolPolicy::default() };
    let tool = tool.with_definition(|it| it.with_policy(policy)).layer(ServiceBuilder::new().map_request(
        move |request: CallRequest| {
            counted.fetch_add(1, Ordering::Relaxed);
            request
        },
    ));
    assert_eq!(call_text(&tool).await, "denied: the caller lacks the scope \"ask\"");
    let run = Arc::new(haft_core::tool::RunContext {
        principal: Some(haft_core::tool::Principal { id: "ann".into(), scopes: ["ask".to_owned()].into() }),
        ..haft_core::tool::RunContext::default()
    });
    let mut cx = ToolContext::new(Arc::clone(&run), "1");
    for (answer, layered) in [(Decision::approved(), 0), (Decision::Input { value: json!(7) }, 1)] {
        let CallOutcome::Pending(suspended) = tool.invoke_with(json!({}), &cx).await else { panic!() };
        assert_eq!(seen.load(Ordering::Relaxed), layered);
        cx = ToolContext::new(Arc::clone(&run), "1").with_resumed(suspended.pending.resume(answer).unwrap());
    }
    assert_eq!(tool.invoke_with(json!({}), &cx).await.into_result().model_text(), "7");
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

/// A layer can replace the result of a tool. The pipeline must check the replacement against the
/// output schema.
#[tokio::test]
async fn result_of_a_layer_is_checked() {
    let number = definition("number").with_output_schema(json!({"type": "integer"}));
    let tool = DynamicTool::new(number, |_, _| async { haft_core::Json(1) })
        .layer(ServiceBuilder::new().map_response(|_| ToolResponse::from("one")));
    let text = call_text(&tool).await;
    assert!(text.starts_with("the call did run, but its result does not fit"), "{text}");
}

/// The `Debug` output of a [`CallRequest`] must not contain the arguments, which may be secret.
#[test]
fn debug_of_a_request_omits_arguments() {
    let request = CallRequest::new(definition("pay"), json!({"card": "4111"}), ToolContext::default());
    let printed = format!("{request:?}");
    assert!(printed.contains("pay") && !printed.contains("4111"), "{printed}");
}

/// If a layer is applied to a source, each tool has its own concurrency limit, and keeps it when
/// the list of tools changes.
#[tokio::test(start_paused = true)]
async fn layer_of_a_source_applies_per_tool_and_survives_list_changes() {
    let registry = ToolRegistry::new("plugins");
    for name in ["a", "b"] {
        registry.register(slow(name)).unwrap();
    }
    let source = registry.clone().layered(ConcurrencyLimitLayer::new(1)).prefixed("x_");
    let list = async || source.tools(&ListContext::default()).await.unwrap();
    let (before, cx) = (list().await, ToolContext::default());
    assert_eq!(list().await.snapshot_id(), before.snapshot_id());
    registry.register(slow("c")).unwrap();
    let after = list().await;
    let called = async |list: &ToolList, name| list.get(name).unwrap().invoke_with(json!({}), &cx).await;
    let started = Instant::now();
    futures::join!(called(&before, "x_a"), called(&before, "x_b"), called(&after, "x_c"));
    assert_eq!(started.elapsed().as_secs(), 1, "each tool has its own limit");
    futures::join!(called(&before, "x_a"), called(&after, "x_a"));
    assert_eq!(started.elapsed().as_secs(), 3, "and keeps it while it is listed");
    registry.replace(slow("a").with_definition(|it| it.with_description("Another."))).unwrap();
    let replaced = list().await;
    futures::join!(called(&after, "x_a"), called(&replaced, "x_a"));
    assert_eq!(started.elapsed().as_secs(), 4, "a new definition has a new limit");
}

/// Adaptors and servers may recreate their tools for each listing. A recreated tool with an equal
/// definition must keep its layer and therefore its concurrency limit.
#[tokio::test(start_paused = true)]
async fn recreated_tool_keeps_its_layer() {
    let registry = ToolRegistry::new("plugins");
    registry.register(slow("a")).unwrap();
    let source = Toolset::from_source(registry.clone()).prefixed("x_").layered(ConcurrencyLimitLayer::new(1));
    let list = async || source.tools(&ListContext::default()).await.unwrap();
    let (before, cx) = (list().await, ToolContext::default());
    registry.register(slow("b")).unwrap();
    let after = list().await;
    assert_ne!(before.snapshot_id(), after.snapshot_id());
    let called = async |list: &ToolList| list.get("x_a").unwrap().invoke_with(json!({}), &cx).await;
    let started = Instant::now();
    futures::join!(called(&before), called(&after));
    assert_eq!(started.elapsed().as_secs(), 2, "it keeps its limit");
}

/// Two callers may have different tools with equal definitions, for example tools with a connection
/// per caller. These tools share the layer, but each caller must reach its own tool.
#[tokio::test]
async fn shared_layer_calls_the_listed_tool() {
    struct PerRun;
    #[async_trait]
    impl ToolSource for PerRun {
        fn label(&self) -> &str {
            "per_run"
        }
        async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
            let run = cx.run_id.clone();
            let tool = DynamicTool::new(definition("run_id"), move |_, _| {
                let run = run.clone();
                async move { run }
            });
            Ok(ToolList::new("per_run", [tool]))
        }
    }
    let source = PerRun.layered(ConcurrencyLimitLayer::new(1));
    let mut lists = Vec::new();
    for run in ["ann's", "bob's"] {
        let cx = ListContext { run_id: run.to_owned(), ..ListContext::default() };
        lists.push((run, source.tools(&cx).await.unwrap()));
    }
    for (run, list) in &lists {
        assert_eq!(call_text(list.get("run_id").unwrap()).await, *run);
    }
}

#[tokio::test(start_paused = true)]
async fn global_limit_applies_to_all_tools() {
    let all = Arc::new(Semaphore::new(1));
    let source = Toolset::new()
        .with_tools([slow("a"), slow("b")])
        .layered(GlobalConcurrencyLimitLayer::with_semaphore(all));
    let tools = Toolset::new().with_source(source);
    let started = Instant::now();
    futures::join!(tools.call("a", json!({})), tools.call("b", json!({})));
    assert_eq!(started.elapsed().as_secs(), 2);
}
