//! Tests of blocking calls from synchronous code.

use std::{sync::Mutex, time::Duration};

use haft_core::{
    Schema, ToolDefinition, ToolExt, ToolName, Toolset,
    call::FailureKind,
    tool,
    tool::{DynamicTool, ToolPolicy},
};
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    task::{LocalSet, block_in_place, spawn_blocking, unconstrained},
};

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// Adds two integers after a delay.
#[tool]
async fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    x + y
}

/// Calls a tool with `invoke_blocking` and with `call_blocking` on this thread, and returns the
/// texts of both results.
fn blocking_results() -> [String; 2] {
    let tools = Toolset::new().with_tool(Add);
    let results =
        [Add.invoke_blocking(json!({"x": "1", "y": 2})), tools.call_blocking("add", json!({"x": 1, "y": 2}))];
    results.map(|result| {
        if let Some(failure) = result.failure() {
            assert_eq!(failure.kind, FailureKind::Fatal);
        }
        result.model_text().into_owned()
    })
}

fn assert_success(texts: [String; 2]) {
    assert_eq!(texts, ["3", "3"]);
}

fn assert_rejected(texts: [String; 2]) {
    let error = |method| {
        format!("a blocking call inside an async runtime could never end: use `{method}(…).await` there")
    };
    assert_eq!(texts, [error("invoke"), error("call")]);
}

fn runtimes() -> [Runtime; 2] {
    let [mut one, mut many] = [Builder::new_current_thread(), Builder::new_multi_thread()];
    [one.enable_all().build().unwrap(), many.worker_threads(2).enable_all().build().unwrap()]
}

/// `invoke_blocking` and `call_blocking` can be called from synchronous code outside a runtime.
#[test]
fn blocking_call_works_outside_a_runtime() {
    assert_success(blocking_results());
    // `Runtime::enter` does not make the thread run async tasks, so the thread is allowed to block.
    for runtime in runtimes() {
        let _entered = runtime.enter();
        assert_success(blocking_results());
    }
}

/// On a thread that runs async tasks, a blocking call returns an error, because it could wait
/// forever for its own thread.
#[test]
fn blocking_call_on_a_runtime_thread_is_a_typed_error() {
    for runtime in runtimes() {
        assert_rejected(runtime.block_on(async { blocking_results() }));
        assert_rejected(
            runtime.block_on(async { tokio::spawn(async { blocking_results() }).await.unwrap() }),
        );
        assert_rejected(LocalSet::new().block_on(&runtime, async { blocking_results() }));
        // A blocking call also fails in a task without a cooperative budget. After a failed
        // blocking call, a task can still make async calls.
        assert_rejected(runtime.block_on(unconstrained(async { blocking_results() })));
        runtime.block_on(async {
            assert_rejected(blocking_results());
            assert_eq!(Add.invoke(json!({"x": 1})).await.model_text(), "1");
        });
    }
}

#[test]
fn blocking_call_works_on_threads_for_blocking_code() {
    for runtime in runtimes() {
        assert_success(runtime.block_on(async { spawn_blocking(blocking_results).await.unwrap() }));
    }
    let [_, many] = runtimes();
    assert_success(
        many.block_on(async { tokio::spawn(async { block_in_place(blocking_results) }).await.unwrap() }),
    );
    assert_success(many.block_on(async { block_in_place(blocking_results) }));
}

#[test]
fn blocking_tool_can_make_blocking_calls() {
    /// Adds three integers.
    #[tool(blocking)]
    fn sum(a: i64, b: i64, c: i64) -> Result<String, String> {
        let two = Add.invoke_blocking(json!({"x": a, "y": b})).into_output().map_err(|it| it.message)?;
        let all = Add
            .invoke_blocking(json!({"x": two.to_value(), "y": c}))
            .into_output()
            .map_err(|it| it.message)?;
        Ok(all.text().into_owned())
    }
    assert_eq!(Sum.invoke_blocking(json!({"a": 1, "b": 2, "c": 3})).model_text(), "6");
}

/// A blocking call must return when it times out, even if the tool still blocks a thread.
#[test]
fn blocking_call_returns_at_its_deadline() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(Some(released));
    let policy = ToolPolicy { timeout: Some(Duration::from_millis(20)), ..ToolPolicy::default() };
    let tool = DynamicTool::new(definition("hang").with_policy(policy), move |_, _| {
        let released = released.lock().unwrap().take().unwrap();
        async move { spawn_blocking(move || released.recv().is_ok()).await.map(|ok| ok.to_string()) }
    });
    assert_eq!(tool.invoke_blocking(json!({})).model_text(), "timed out after 20 ms");
    // If the blocking call waited for the blocked thread, the test would never reach this line.
    release.send(()).unwrap();
}
