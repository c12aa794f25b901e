//! Calls to `#[tool]` functions: arguments, state, context, panics and results.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Json, ToolContext, ToolError, ToolExt, ToolOutput, ToolResult, Toolset,
    call::{FailureKind, ToolResponse},
    content::Content,
    tool,
    tool::HostState,
};
use serde_json::{Value, json};

async fn call_with_state(state: HostState, tool: impl haft_core::Tool, arguments: Value) -> ToolResult {
    tool.invoke_with(
        arguments,
        &ToolContext::new(Arc::new(tool::RunContext { state, ..Default::default() }), ""),
    )
    .await
    .into_result()
}

/// The error lists all violations. A missing argument is an error, and the function is not called.
#[test]
fn function_is_not_called_with_invalid_arguments() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);

    #[tool]
    fn add(x: i64, y: i64, #[tool(default = 0)] z: i64) -> i64 {
        RUNS.fetch_add(1, Ordering::Relaxed);
        x + y + z
    }

    let result = Add.invoke_blocking(json!({"x": "abc", "z": true}));
    assert_eq!(result.failure().unwrap().kind, FailureKind::InvalidArguments);
    expect![[r#"
        invalid arguments: /: missing required property "y" (integer)
        /x: expected integer, received string "abc"
        /z: expected integer, received boolean true"#]]
    .assert_eq(&result.model_text());
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);

    assert_eq!(Add.invoke_blocking(json!({"x": 17, "y": 25})).model_text(), "42");
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
}

/// A tool receives a value of the host program as host state.
#[tokio::test]
async fn tool_gets_the_state_of_its_host() {
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Counter {
        fn add(&self, n: usize) -> usize {
            self.0.fetch_add(n, Ordering::Relaxed) + n
        }
    }

    /// Adds to the counter.
    #[tool]
    async fn count(#[tool(state)] counter: Arc<Counter>, #[tool(default = 1)] n: usize) -> usize {
        counter.add(n)
    }

    let counter = Arc::new(Counter::default());
    let state = HostState::new().with_value(Arc::clone(&counter));
    assert_eq!(call_with_state(state.clone(), Count, json!({})).await.model_text(), "1");
    assert_eq!(call_with_state(state, Count, json!({"n": 4})).await.model_text(), "5");
    assert_eq!(counter.add(0), 5);

    let failure = Count.invoke(json!({})).await;
    assert_eq!(failure.failure().unwrap().kind, FailureKind::Fatal);
}

#[tokio::test]
async fn tool_gets_its_context() {
    #[tool]
    async fn by_reference(#[tool(context)] cx: &ToolContext) -> String {
        std::future::ready(()).await;
        cx.call_id().to_owned()
    }

    #[tool]
    fn by_value(#[tool(context)] cx: ToolContext) -> String {
        cx.call_id().to_owned()
    }

    let cx = ToolContext::new(Arc::default(), "call-7");
    assert_eq!(ByReference.invoke_with(json!({}), &cx).await.into_result().model_text(), "call-7");
    assert_eq!(ByValue.invoke_with(json!({}), &cx).await.into_result().model_text(), "call-7");
}

/// A blocking tool does not block the thread of its caller. Here, the tool waits for a value that
/// another future on the same thread sends.
#[tokio::test]
async fn blocking_tool_does_not_delay_other_calls() {
    type Gate = Arc<Mutex<Option<std::sync::mpsc::Receiver<i64>>>>;

    #[tool(blocking)]
    fn wait(#[tool(state)] gate: Gate, #[tool(context)] cx: &ToolContext, n: i64) -> Result<i64, ToolError> {
        let gate = gate.lock().unwrap().take().ok_or_else(|| ToolError::retry(cx.call_id()))?;
        gate.recv_timeout(Duration::from_secs(10)).map(|m| n + m).map_err(ToolError::failed)
    }

    let (open, gate) = std::sync::mpsc::channel();
    let gate: Gate = Arc::new(Mutex::new(Some(gate)));
    let waiting = call_with_state(HostState::new().with_value(gate), Wait, json!({"n": 40}));
    let other = async { open.send(2).unwrap() };
    let (result, ()) = futures::join!(waiting, other);
    assert_eq!(result.model_text(), "42");
}

#[tokio::test]
async fn panic_of_a_blocking_tool_is_a_failed_call() {
    #[tool(blocking)]
    fn explode(n: i64) -> i64 {
        assert!(n < 0, "boom");
        n
    }

    let result = Explode.invoke(json!({"n": 1})).await;
    assert_eq!(result.failure().unwrap().kind, FailureKind::Failed);
    assert_eq!(Explode.invoke(json!({"n": -1})).await.model_text(), "-1");
}

/// A blocking tool needs the thread pool of a tokio runtime. Without a runtime, `spawn_blocking`
/// would panic, so the call fails with an error.
#[test]
fn blocking_tool_without_a_tokio_runtime_is_an_error() {
    #[tool(blocking)]
    fn block() {}

    let result = futures::executor::block_on(Block.invoke(json!({})));
    expect!["a blocking tool needs a tokio runtime, for its pool of threads"].assert_eq(&result.model_text());
}

#[test]
fn common_return_types_are_supported() {
    #[tool]
    fn nothing() {}
    #[tool]
    fn text() -> String {
        "text".to_owned()
    }
    #[tool]
    fn fixed() -> &'static str {
        "fixed"
    }
    #[tool]
    fn number() -> f64 {
        0.5
    }
    #[tool]
    fn data() -> Json<Vec<i64>> {
        Json(vec![1, 2])
    }
    #[tool]
    fn pieces() -> Vec<Content> {
        vec![Content::text("a"), Content::text("b")]
    }
    #[tool]
    fn warned() -> ToolOutput {
        ToolOutput::from("fine").with_warning("old")
    }
    #[tool]
    fn failing() -> Result<Json<i64>, std::num::ParseIntError> {
        "x".parse().map(Json)
    }
    #[tool]
    async fn boxed() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err("no".into())
    }
    #[tool]
    fn hinted() -> Result<(), ToolError> {
        Err(ToolError::retry("another"))
    }
    #[tool]
    fn outcome() -> Result<ToolResponse, ToolError> {
        Ok("done".into())
    }

    let status_and_text = |result: ToolResult| (result.is_success(), result.model_text().into_owned());
    assert_eq!(status_and_text(Nothing.invoke_blocking(json!({}))), (true, String::new()));
    assert_eq!(status_and_text(Text.invoke_blocking(json!({}))), (true, "text".into()));
    assert_eq!(status_and_text(Fixed.invoke_blocking(json!({}))), (true, "fixed".into()));
    assert_eq!(status_and_text(Number.invoke_blocking(json!({}))), (true, "0.5".into()));
    assert_eq!(status_and_text(Data.invoke_blocking(json!({}))), (true, "[1,2]".into()));
    assert_eq!(Pieces.invoke_blocking(json!({})).output().unwrap().content.len(), 2);
    assert_eq!(Warned.invoke_blocking(json!({})).warnings, ["old"]);
    assert_eq!(
        status_and_text(Failing.invoke_blocking(json!({}))),
        (false, "invalid digit found in string".into())
    );
    assert_eq!(status_and_text(Boxed.invoke_blocking(json!({}))), (false, "no".into()));
    assert_eq!(Hinted.invoke_blocking(json!({})).failure().unwrap().kind, FailureKind::Retry);
    assert_eq!(status_and_text(Outcome.invoke_blocking(json!({}))), (true, "done".into()));
}

/// Tools in a module whose types, functions and parameters have names such as `Result`, `Value` and
/// `cx`. These names must not collide with names in the generated code.
mod hygiene {
    #![allow(dead_code, non_camel_case_types)]

    use haft_core::tool;

    type Result<T> = std::result::Result<T, String>;
    type Option = std::option::Option<i64>;
    enum Value {}
    enum Tool {}
    enum ToolContext {}
    trait Function {}
    trait Clone {}
    fn arguments() {}
    fn cx() {}

    #[tool]
    fn describe(describe: i64, arguments: i64, cx: Option, value: i64, of_cx: i64) -> Result<i64> {
        self::arguments();
        self::cx();
        Ok(describe + arguments + cx.unwrap_or(0) + value + of_cx)
    }

    #[tool(blocking)]
    fn r#type(
        r#match: i64,
        #[tool(state)] this: String,
        #[tool(context)] ctx: &haft_core::ToolContext,
    ) -> Result<i64> {
        Ok(r#match + this.len() as i64 + ctx.call_id().len() as i64)
    }

    #[tokio::test]
    async fn names_do_not_collide() {
        use haft_core::{Tool as _, ToolExt as _};

        let all = serde_json::json!({"describe": 1, "arguments": 2, "cx": 3, "value": 4, "of_cx": 5});
        assert_eq!(Describe.invoke(all).await.model_text(), "15");
        assert_eq!(Type.definition().name(), &"type");
        assert_eq!(Type.argument_schemas()[0].0, "match");
        let cx = haft_core::ToolContext::default().with_state("four".to_owned());
        let result = Type.invoke_with(serde_json::json!({"match": 3}), &cx).await.into_result();
        assert_eq!(result.model_text(), "7");
    }
}

/// A tool in a crate that depends on `haft_core` under another name. The option `crate = …` sets
/// this name.
mod renamed {
    use haft_core as other;

    #[other::tool(crate = other)]
    pub(super) fn double(n: i64, #[tool(context)] _cx: &other::ToolContext) -> i64 {
        2 * n
    }
}

#[tokio::test]
async fn core_dependency_can_be_renamed() {
    let tools = Toolset::new().with_tool(renamed::Double);
    assert_eq!(tools.call("double", json!({"n": 21})).await.model_text(), "42");
}

/// `3.0` is accepted as an integer, as in JSON Schema. `3.5` is rejected.
#[tokio::test]
async fn whole_float_is_an_integer_argument() {
    /// Adds one.
    #[tool]
    fn successor(n: i64) -> i64 {
        n + 1
    }
    assert_eq!(Successor.invoke(json!({"n": 3.0})).await.model_text(), "4");
    assert!(!Successor.invoke(json!({"n": 3.5})).await.is_success());
}
