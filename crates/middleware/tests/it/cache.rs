//! The result cache stores only results of idempotent tools, and returns them only to the principal
//! that made the call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_core::{
    Pipeline, Schema, Tool, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExt, ToolName, ToolOutput,
    ToolResult, ToolSource as _, Toolset,
    call::{Decision, Pending, PendingKind, ToolResponse},
    pipeline::{CallOutcome, CallRecord, Recorder},
    tool::{DynamicTool, HostState, Principal, RunContext, StateType, ToolPolicy},
    toolset::{ListContext, ToolList},
};
use haft_middleware::{LayeredTool, ResultCache, ToolMiddleware as _, ToolsetMiddleware as _};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{advance, sleep, timeout},
};
use tower::ServiceBuilder;

const MINUTE: Duration = Duration::from_secs(60);

/// Creates an idempotent tool that counts its executions and passes the current count, starting at
/// 1, to `act`. Returns the tool and the counter.
fn counting_tool<F>(act: F) -> (DynamicTool, Arc<AtomicUsize>)
where
    F: Fn(usize) -> Result<ToolResponse, ToolError> + Send + Sync + 'static,
{
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let definition =
        ToolDefinition::new(ToolName::new("look").unwrap(), Schema::object()).with_policy(policy);
    let tool = DynamicTool::new(definition, move |_, _| {
        let outcome = act(counted.fetch_add(1, Ordering::Relaxed) + 1);
        async move { outcome }
    });
    (tool, runs)
}

/// Creates an idempotent tool that returns `run 1` for its first execution, `run 2` for its second,
/// and so on.
fn numbering_tool() -> DynamicTool {
    counting_tool(|run| Ok(format!("run {run}").into())).0
}

fn context(principal: Option<Principal>, state: HostState) -> ToolContext {
    ToolContext::new(Arc::new(RunContext { principal, state, ..RunContext::default() }), "1")
}

fn context_of(id: &str, scopes: &[&str]) -> ToolContext {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    context(Some(Principal { id: id.into(), scopes }), HostState::new())
}

async fn call_result(tool: &impl Tool, arguments: Value, cx: &ToolContext) -> ToolResult {
    tool.invoke_with(arguments, cx).await.into_result()
}

async fn call_text(tool: &impl Tool, arguments: Value, cx: &ToolContext) -> String {
    call_result(tool, arguments, cx).await.model_text().into_owned()
}

#[tokio::test(start_paused = true)]
async fn repeated_call_returns_the_cached_result_with_a_warning() {
    let tool = numbering_tool().layer(ResultCache::new(MINUTE));
    let cx = ToolContext::default();
    assert_eq!(call_text(&tool, json!({"a": 1, "b": [2]}), &cx).await, "run 1");
    advance(Duration::from_secs(12)).await;
    let again = call_result(&tool, json!({"b": [2], "a": 1}), &cx).await;
    assert_eq!(
        again.to_json(),
        json!({"success": true, "result": "run 1", "error": null, "warning": "from the result cache, 12 s old"})
    );
    // No result is cached for these arguments yet. The cache treats `3` and `3.0` as different
    // arguments.
    for (run, arguments) in [(2, json!({"a": 1})), (3, json!({"a": 3})), (4, json!({"a": 3.0}))] {
        assert_eq!(call_text(&tool, arguments, &cx).await, format!("run {run}"));
    }
    advance(Duration::from_secs(48)).await;
    assert_eq!(call_text(&tool, json!({"a": 1, "b": [2]}), &cx).await, "run 5");
}

#[tokio::test]
async fn results_are_not_shared_between_principals_or_states() {
    let tool = numbering_tool().with_definition(|it| it.with_state_type(StateType::of::<u8>()));
    let tool = tool.layer(ResultCache::new(MINUTE));
    let callers = [
        context_of("ann", &[]),
        context_of("bob", &[]),
        context_of("ann", &["files"]),
        context_of("ann", &["files", "mail"]),
        ToolContext::default(),
        context(None, HostState::new().with_value(1_u8)),
        context(None, HostState::new().with_value(1_u8)),
    ];
    for (run, caller) in (1..).zip(&callers) {
        assert_eq!(call_text(&tool, json!({}), caller).await, format!("run {run}"));
    }
    for (run, caller) in (1..).zip(&callers) {
        assert!(call_text(&tool, json!({}), caller).await.starts_with(&format!("run {run}\nWarning: from")));
    }
}

/// Undeclared host state is not part of the cache key, so a change of an undeclared value must not
/// prevent a cache hit.
#[tokio::test]
async fn only_declared_state_is_in_the_key() {
    let tool = numbering_tool().with_definition(|it| it.with_state_type(StateType::of::<u8>()));
    let tool = tool.layer(ResultCache::new(MINUTE));
    let of_program = HostState::new().with_value(1_u8);
    let step = |number: u16| context(None, HostState::new().with_value(number).with_defaults(&of_program));
    assert_eq!(call_text(&tool, json!({}), &step(1)).await, "run 1");
    assert!(call_text(&tool, json!({}), &step(2)).await.starts_with("run 1\nWarning: from"));
    assert_eq!(call_text(&tool, json!({}), &context(None, HostState::new().with_value(1_u8))).await, "run 2");
}

/// If a call starts before `clear` and ends after it, its result may be outdated and must not be
/// cached.
#[tokio::test]
async fn call_that_started_before_clear_is_not_cached() {
    let cache = ResultCache::new(MINUTE);
    let clears = cache.clone();
    let (tool, _) = counting_tool(move |run| {
        if run == 1 {
            clears.clear();
        }
        Ok(format!("run {run}").into())
    });
    let tool = tool.layer(cache);
    let cx = ToolContext::default();
    assert_eq!(call_text(&tool, json!({}), &cx).await, "run 1");
    assert_eq!(call_text(&tool, json!({}), &cx).await, "run 2");
    assert!(call_text(&tool, json!({}), &cx).await.starts_with("run 2\nWarning: from"));
}

/// Two tools with equal names and definitions must not share results. A tool must keep its results
/// when it is renamed.
#[tokio::test]
async fn each_tool_has_its_own_results() {
    let cache = ResultCache::new(MINUTE);
    let (mine, yours) = (numbering_tool().layer(cache.clone()), numbering_tool().layer(cache.clone()));
    let cx = ToolContext::default();
    call_text(&mine, json!({}), &cx).await;
    assert_eq!(call_text(&yours, json!({}), &cx).await, "run 1");
    let renamed = Arc::new(mine).with_definition(|it| it.with_name("find"));
    assert!(call_text(&renamed, json!({}), &cx).await.starts_with("run 1\nWarning: from"));
    cache.clear();
    assert_eq!(call_text(&renamed, json!({}), &cx).await, "run 2");
}

/// The results of other tools may depend on host state that is not part of the key, or their calls
/// may have an effect.
#[tokio::test]
async fn only_cacheable_tools_are_cached() {
    let numbers = numbering_tool().map_policy(|it| ToolPolicy { idempotent: false, ..it });
    let definition = ToolDefinition::new(ToolName::new("state").unwrap(), Schema::object())
        .map_policy(|policy| policy.with_idempotent_calls().with_cacheable_results(false));
    let reads = DynamicTool::new(definition, |_, cx: ToolContext| async move { cx.state::<u8>() });
    let (numbers, reads) = (numbers.layer(ResultCache::new(MINUTE)), reads.layer(ResultCache::new(MINUTE)));
    for number in [1_u8, 2] {
        let cx = context(None, HostState::new().with_value(number));
        assert_eq!(call_text(&numbers, json!({}), &cx).await, format!("run {number}"));
        assert_eq!(call_text(&reads, json!({}), &cx).await, number.to_string());
    }
}

#[tokio::test]
async fn failures_and_invalid_results_are_not_cached() {
    let (flaky, _) = counting_tool(|run| match run {
        1 => Err(ToolError::failed("down")),
        run => Ok(format!("run {run}").into()),
    });
    let flaky = flaky.layer(ResultCache::new(MINUTE));
    let cx = ToolContext::default();
    assert_eq!(call_text(&flaky, json!({}), &cx).await, "down");
    assert_eq!(call_text(&flaky, json!({}), &cx).await, "run 2");

    let (wrong, _) = counting_tool(|run| match run {
        1 => Ok(ToolResponse::Done(ToolOutput::structured(json!("one")))),
        run => Ok(ToolResponse::Done(ToolOutput::structured(json!(run)))),
    });
    let wrong = wrong
        .with_definition(|it| it.with_output_schema(json!({"type": "integer"})))
        .layer(ResultCache::new(MINUTE));
    assert!(!call_result(&wrong, json!({}), &cx).await.is_success());
    assert_eq!(call_text(&wrong, json!({}), &cx).await, "2");
}

/// A suspended call has no result to cache, and a decision applies to a single call. The next call
/// must be suspended again.
#[tokio::test]
async fn suspended_calls_are_not_cached() {
    let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let definition = ToolDefinition::new(ToolName::new("ask").unwrap(), Schema::object()).with_policy(policy);
    let tool = DynamicTool::new(definition, |_, cx: ToolContext| async move {
        match cx.decision() {
            Some(Decision::Input { value }) => value.to_string().into(),
            _ => ToolResponse::Pending(Pending::new(PendingKind::input("Which?"))),
        }
    })
    .layer(ResultCache::new(MINUTE));
    for answer in [1, 2] {
        let cx = ToolContext::default();
        let CallOutcome::Pending(suspended) = tool.invoke_with(json!({}), &cx).await else { panic!() };
        let answered = suspended.pending.resume(Decision::Input { value: json!(answer) }).unwrap();
        assert_eq!(call_text(&tool, json!({}), &cx.with_resumed(answered)).await, answer.to_string());
    }
}

#[tokio::test]
async fn cache_is_bounded_in_entries_and_bytes() {
    let long = || counting_tool(|run| Ok(format!("{run}{}", "x".repeat(1_000)).into())).0;
    let fresh = async |tool: &LayeredTool<_>, n: i32| {
        call_result(tool, json!({"n": n}), &ToolContext::default()).await.warnings.is_empty()
    };
    for cache in
        [ResultCache::new(MINUTE).with_max_entries(2), ResultCache::new(MINUTE).with_max_bytes(2_500)]
    {
        let tool = long().layer(cache);
        assert!(fresh(&tool, 1).await && fresh(&tool, 2).await);
        // The result for 1 was used more recently than the result for 2, so the result for 2 is
        // evicted.
        assert!(!fresh(&tool, 1).await);
        assert!(fresh(&tool, 3).await);
        assert!(!fresh(&tool, 1).await && fresh(&tool, 2).await);
    }
    let tool = long().layer(ResultCache::new(MINUTE).with_max_bytes(900));
    assert!(fresh(&tool, 1).await && fresh(&tool, 1).await, "a result above the bound is not cached");
    let tool = long().layer(ResultCache::new(MINUTE).with_max_entries(0));
    assert!(fresh(&tool, 1).await && fresh(&tool, 1).await);
}

/// The cache must store a long result in full. Each call must return a handle to the full text that
/// only the principal of the call can use.
#[tokio::test]
async fn long_result_is_cached_untruncated() {
    let (tool, runs) = counting_tool(|_| Ok("x".repeat(1 << 20).into()));
    let pipeline = Pipeline::new();
    let tools = ToolList::new("test", [tool.layer(ResultCache::new(MINUTE))]);
    let ann = context_of("ann", &[]);
    for _ in 0..2 {
        let result = pipeline.call(&tools, &ToolCall::new("1", "look", "{}"), &ann).await.into_result();
        let output = result.output().unwrap();
        assert!(output.text().contains("bytes in 1 pieces are cut"));
        let handle = output.result_handle.as_ref().unwrap();
        let store = pipeline.store().unwrap();
        assert_eq!(store.get(handle, &ann).await.unwrap().unwrap().text().len(), 1 << 20);
        assert!(store.get(handle, &context_of("bob", &[])).await.unwrap().is_none());
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// Concurrent equal calls must all run. The cache must keep the result of the call that started
/// last.
#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_not_coalesced() {
    let runs = AtomicUsize::new(0);
    let definition = ToolDefinition::new(ToolName::new("look").unwrap(), Schema::object())
        .with_policy(ToolPolicy { idempotent: true, ..ToolPolicy::default() });
    let tool = DynamicTool::new(definition, move |_, _| {
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            // The first call takes longer than the second call, so it ends after the second call.
            sleep(Duration::from_secs(if run == 1 { 5 } else { 1 })).await;
            format!("run {run}")
        }
    })
    .layer(ResultCache::new(MINUTE));
    let cx = ToolContext::default();
    let second = async {
        sleep(Duration::from_secs(1)).await;
        call_text(&tool, json!({}), &cx).await
    };
    let both = futures::join!(call_text(&tool, json!({}), &cx), second);
    assert_eq!(both, ("run 1".to_owned(), "run 2".to_owned()));
    assert!(
        call_text(&tool, json!({}), &cx).await.starts_with("run 2\nWarning: from the result cache, 4 s old")
    );
}

/// A call with a cached result must not wait for a concurrency limit, and its record must be marked
/// as cached.
#[tokio::test(start_paused = true)]
async fn cached_result_is_recorded_and_bypasses_limits() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<bool>>>);
    impl Recorder for Log {
        fn record(&self, record: &CallRecord<'_>) {
            self.0.lock().unwrap().push(record.is_cached);
        }
    }
    let is_held = Arc::new(Notify::new());
    let notify = Arc::clone(&is_held);
    let definition = ToolDefinition::new(ToolName::new("look").unwrap(), Schema::object())
        .with_policy(ToolPolicy { idempotent: true, ..ToolPolicy::default() });
    let tool = DynamicTool::new(definition, move |arguments: Value, _| {
        let notify = Arc::clone(&notify);
        async move {
            if arguments["hold"] == true {
                notify.notify_one();
                std::future::pending::<()>().await;
            }
            "found"
        }
    });
    let stack = ServiceBuilder::new().layer(ResultCache::new(MINUTE)).buffer(1).concurrency_limit(1);
    let log = Log::default();
    let source = Toolset::new().with_tool(tool).layered(stack);
    let list = source.tools(&ListContext::default()).await.unwrap();
    let pipeline = Pipeline::new().with_recorder(log.clone());
    let cx = ToolContext::default();
    let look = |arguments: &'static str| {
        let call = ToolCall::new("1", "look", arguments);
        let (pipeline, list, cx) = (&pipeline, &list, &cx);
        async move { pipeline.call(list, &call, cx).await.into_result() }
    };
    assert!(look("{}").await.is_success());
    let others = async {
        is_held.notified().await;
        assert!(timeout(MINUTE, look("{}")).await.unwrap().is_success());
        assert_eq!(*log.0.lock().unwrap(), [false, true]);
        assert!(timeout(MINUTE, look(r#"{"n": 1}"#)).await.is_err(), "the only permit is held");
    };
    tokio::select! {
        _ = look(r#"{"hold": true}"#) => panic!("the permit is released"),
        () = others => {}
    }
}
