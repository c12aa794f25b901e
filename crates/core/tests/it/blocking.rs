//! Behaviour B18, B70: calls from code that is not asynchronous.

use std::{sync::Mutex, time::Duration};

use haft_core::{
    Schema, ToolDefinition, ToolExt, ToolName, Toolset,
    call::FailureKind,
    tool,
    tool::{DynamicTool, Policy},
};
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    task::{LocalSet, block_in_place, spawn_blocking, unconstrained},
};

fn named(name: &str) -> ToolDefinition {
    ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object())
}

/// Adds two integers, some time later.
#[tool]
async fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    x + y
}

/// Both twins, on this thread.
fn said() -> [String; 2] {
    let tools = Toolset::new().with(Add);
    let results =
        [Add.invoke_blocking(json!({"x": "1", "y": 2})), tools.call_blocking("add", json!({"x": 1, "y": 2}))];
    results.map(|result| {
        if let Some(failure) = result.failure() {
            assert_eq!(failure.kind, FailureKind::Fatal);
        }
        result.model_text().into_owned()
    })
}

fn works(said: [String; 2]) {
    assert_eq!(said, ["3", "3"]);
}

fn is_refused(said: [String; 2]) {
    let refusal = |method| {
        format!("a blocking call inside an async runtime could never end: use `{method}(…).await` there")
    };
    assert_eq!(said, [refusal("invoke"), refusal("call")]);
}

fn runtimes() -> [Runtime; 2] {
    let [mut one, mut many] = [Builder::new_current_thread(), Builder::new_multi_thread()];
    [one.enable_all().build().unwrap(), many.worker_threads(2).enable_all().build().unwrap()]
}

#[test]
fn a_blocking_call_works_outside_a_runtime() {
    works(said());
    // A runtime that is only at hand runs nothing here.
    for runtime in runtimes() {
        let _at_hand = runtime.enter();
        works(said());
    }
}

/// It could take the thread that it waits for.
#[test]
fn a_blocking_call_on_a_thread_of_tasks_is_a_typed_error() {
    for runtime in runtimes() {
        is_refused(runtime.block_on(async { said() }));
        is_refused(runtime.block_on(async { tokio::spawn(async { said() }).await.unwrap() }));
        is_refused(LocalSet::new().block_on(&runtime, async { said() }));
        // Also for a task that tokio does not bound, and the task goes on.
        is_refused(runtime.block_on(unconstrained(async { said() })));
        runtime.block_on(async {
            is_refused(said());
            assert_eq!(Add.invoke(json!({"x": 1})).await.model_text(), "1");
        });
    }
}

/// There it is what the thread is for.
#[test]
fn a_blocking_call_where_code_may_block_works() {
    for runtime in runtimes() {
        works(runtime.block_on(async { spawn_blocking(said).await.unwrap() }));
    }
    let [_, many] = runtimes();
    works(many.block_on(async { tokio::spawn(async { block_in_place(said) }).await.unwrap() }));
    works(many.block_on(async { block_in_place(said) }));
}

/// A tool that blocks its own thread may call another.
#[test]
fn a_blocking_tool_calls_another_one() {
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

/// Blocking code that was given up is not waited for.
#[test]
fn a_blocking_call_returns_at_the_deadline() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(Some(released));
    let policy = Policy { timeout: Duration::from_millis(20), ..Policy::default() };
    let tool = DynamicTool::new(named("hang").with_policy(policy), move |_, _| {
        let released = released.lock().unwrap().take().unwrap();
        async move { spawn_blocking(move || released.recv().is_ok()).await.map(|ok| ok.to_string()) }
    });
    assert_eq!(tool.invoke_blocking(json!({})).model_text(), "timed out after 20 ms");
    // Had the call waited for the thread, this would never be reached.
    release.send(()).unwrap();
}
