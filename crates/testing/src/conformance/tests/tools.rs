use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::format_violations;
use crate::conformance;
use haft_core::{
    Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput, ToolResult,
    call::ToolResponse,
    tool::{DynamicTool, HostState, RunContext},
};

fn definition() -> ToolDefinition {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
    ToolDefinition::new(ToolName::new("double").unwrap(), Schema::new(schema).unwrap())
}

fn tool_of(
    definition: ToolDefinition,
    call: impl Fn(Value, ToolContext) -> Result<ToolOutput, ToolError> + Clone + Send + Sync + 'static,
) -> DynamicTool {
    DynamicTool::new(definition, move |arguments, cx| {
        let call = call.clone();
        async move { call(arguments, cx) }
    })
}

async fn check(tool: impl Tool + 'static, expected: Expect) {
    expected.assert_eq(&format_violations(&conformance::tool(tool).await));
}

/// Checks `tool`, whose calls do not end when they are cancelled or dropped. The check waits up to
/// the timeout for each call to end, so a short timeout keeps the test fast.
async fn check_end(tool: impl Tool + 'static, expected: Expect) {
    let report = conformance::tool(tool).timeout(Duration::from_millis(200)).await;
    expected.assert_eq(&format_violations(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn conforming_tool_has_no_findings() {
    let double =
        |arguments: Value, _| Ok(ToolOutput::structured(json!(arguments["x"].as_i64().unwrap_or(0) * 2)));
    let definition = definition().with_output_schema(json!({"type": "integer"}));
    check(tool_of(definition, double), expect![""]).await;
}

/// A tool that alternates between two definitions.
struct UnstableTool([ToolDefinition; 2], AtomicUsize);

#[async_trait]
impl Tool for UnstableTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % 2]
    }

    async fn call(&self, _: Value, _: &ToolContext) -> Result<ToolResponse, ToolError> {
        Ok("done".into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_or_invalid_definition_is_found() {
    let tool = UnstableTool([definition(), definition().with_description("Doubles.")], AtomicUsize::new(0));
    check(tool, expect!["the definition is valid and constant: it changes between calls"]).await;
    let tool = tool_of(definition().with_input_schema(json!({"type": "string"})), |_, _| Ok("done".into()));
    check(tool, expect!["the definition is valid and constant: its arguments: invalid schema at /: the arguments of a tool must be an object"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_of_valid_arguments_is_found() {
    let positive_only = |arguments: Value, _| match arguments["x"].as_i64() {
        Some(1..) => Ok("done".into()),
        _ => Err(ToolError::InvalidArguments("x must be positive".into())),
    };
    check(
        tool_of(definition(), positive_only),
        expect![[
            r#"a call with valid arguments succeeds: {"x":0} fails: invalid arguments: x must be positive"#
        ]],
    )
    .await;
    conformance::tool(tool_of(definition(), positive_only))
        .arguments(json!({"x": 1}))
        .await
        .assert_conforms();
}

#[tokio::test(flavor = "multi_thread")]
async fn panics_and_fatal_errors_are_found() {
    let panics = |_, _| panic!("oh");
    check(
        tool_of(definition(), panics),
        expect![[r#"a call does not panic: it panics when it is called with {"x":0}"#]],
    )
    .await;
    let needs = |_, cx: ToolContext| cx.state::<u8>().map(|it| it.to_string().into());
    check(
        tool_of(definition(), needs),
        expect![[
            r#"a call with valid arguments succeeds: {"x":0} fails: no state of type u8: the host program must provide one"#
        ]],
    )
    .await;
    let run = RunContext { state: HostState::new().with_value(7_u8), ..RunContext::default() };
    conformance::tool(tool_of(definition(), needs)).context(run).await.assert_conforms();
}

/// The operator `?` on the result of a nested call returns the failure of that call, including its
/// kind.
#[tokio::test(flavor = "multi_thread")]
async fn failures_of_nested_calls_are_found() {
    let failing_with = |error: fn() -> ToolError| {
        tool_of(definition(), move |_, _| Ok(ToolResult::failed("id", "nested", &error()).into_output()?))
    };
    check(
        failing_with(|| ToolError::Fatal("no licence".into())),
        expect![[r#"a call with valid arguments succeeds: {"x":0} fails: no licence"#]],
    )
    .await;
    check(
        failing_with(|| ToolError::InvalidArguments("no x".into())),
        expect![[r#"a call with valid arguments succeeds: {"x":0} fails: invalid arguments: no x"#]],
    )
    .await;
}

/// Generated arguments may be meaningless, so a tool may fail with them. With arguments that the
/// caller has set, a failure is a finding, because results are checked only after a successful
/// call.
#[tokio::test(flavor = "multi_thread")]
async fn failure_with_given_arguments_is_found() {
    let fails = |_, _| Err(ToolError::failed("no such file"));
    check(tool_of(definition(), fails), expect![""]).await;
    let report = conformance::tool(tool_of(definition(), fails)).arguments(json!({"x": 1})).await;
    expect![[r#"a call with valid arguments succeeds: {"x":1} fails: no such file"#]]
        .assert_eq(&format_violations(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn result_that_violates_its_schema_is_found() {
    let definition = || definition().with_output_schema(json!({"type": "integer"}));
    let text = |_, _| Ok(ToolOutput::structured(json!("two")));
    check(
        tool_of(definition(), text),
        expect![[r#"a result matches the output schema: the call did run, but its result does not fit the tool's output schema: /: expected integer, received string "two""#]],
    )
    .await;
    let bare = |_, _| Ok("2".into());
    check(tool_of(definition(), bare), expect!["a result matches the output schema: the call did run, but its result does not fit the tool's output schema: it has no structured content"]).await;
}

/// A tool that leaks a task: each call spawns an endless task and does not abort it.
struct LeakyTool(ToolDefinition);

#[async_trait]
impl Tool for LeakyTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    async fn call(&self, _: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let cx = cx.clone();
        let work = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(cx);
        });
        drop(work.await);
        Ok("done".into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn call_that_outlives_cancellation_or_drop_is_found() {
    check_end(LeakyTool(definition()), expect!["a cancelled call ends: it still runs after 200ms"]).await;
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let blocks = move |_, _| {
        let _ = gate.lock().unwrap().recv();
        Ok("done".into())
    };
    check_end(tool_of(definition(), blocks), expect!["a cancelled call ends: it still runs after 200ms"])
        .await;
    drop(release);
}

#[tokio::test(flavor = "multi_thread")]
async fn report_contains_the_remedy() {
    let report = conformance::tool(tool_of(definition(), |_, _| panic!("oh"))).await;
    expect![[r#"
        tool "double" violates a rule
        - a call does not panic: it panics when it is called with {"x":0}
          remedy: return an error: `ToolError::Failed` says what the model reads"#]]
    .assert_eq(&report.to_string());
}
