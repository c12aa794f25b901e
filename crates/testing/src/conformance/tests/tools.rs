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

use super::broken;
use crate::conformance;
use haft_core::{
    Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName, ToolOutput,
    call::ToolOutcome,
    tool::{DynamicTool, RunContext, State},
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
    expected.assert_eq(&broken(&conformance::tool(tool).await));
}

/// For a tool of which it is waited that it ends.
async fn check_end(tool: impl Tool + 'static, expected: Expect) {
    let report = conformance::tool(tool).within(Duration::from_millis(200)).await;
    expected.assert_eq(&broken(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_keeps_its_promises_has_no_findings() {
    let double =
        |arguments: Value, _| Ok(ToolOutput::structured(json!(arguments["x"].as_i64().unwrap_or(0) * 2)));
    let definition = definition().with_output_schema(json!({"type": "integer"}));
    check(tool_of(definition, double), expect![""]).await;
}

struct Unstable([ToolDefinition; 2], AtomicUsize);

#[async_trait]
impl Tool for Unstable {
    fn definition(&self) -> &ToolDefinition {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % 2]
    }

    async fn call(&self, _: Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        Ok("done".into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_changes_or_cannot_be_used_is_found() {
    let tool = Unstable([definition(), definition().with_description("Doubles.")], AtomicUsize::new(0));
    check(tool, expect!["the definition is the same at every call: it changes by itself"]).await;
    let tool = tool_of(definition().with_input_schema(json!({"type": "string"})), |_, _| Ok("done".into()));
    check(tool, expect!["the definition can be used: its arguments: invalid schema at /: the arguments of a tool must be an object"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_the_schema_allows_and_the_tool_refuses_are_found() {
    let narrow = |arguments: Value, _| match arguments["x"].as_i64() {
        Some(1..) => Ok("done".into()),
        _ => Err(ToolError::InvalidArguments("x must be positive".into())),
    };
    check(
        tool_of(definition(), narrow),
        expect!["arguments that fit the schema are taken: {\"x\":0} is refused: x must be positive"],
    )
    .await;
    conformance::tool(tool_of(definition(), narrow)).arguments(json!({"x": 1})).await.assert();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_an_error_that_stops_the_run_are_found() {
    let panics = |_, _| panic!("oh");
    check(
        tool_of(definition(), panics),
        expect![[r#"a call does not panic: it panics when it is called with {"x":0}"#]],
    )
    .await;
    let needs = |_, cx: ToolContext| cx.state::<u8>().map(|it| it.to_string().into());
    check(
        tool_of(definition(), needs),
        expect!["a call that goes wrong costs itself: no state of type u8: the host program must provide one"],
    )
    .await;
    let run = RunContext { state: State::new().with(7_u8), ..RunContext::default() };
    conformance::tool(tool_of(definition(), needs)).context(run).await.assert();
}

/// Not everybody who calls a tool holds its arguments against its schema.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_with_arguments_that_do_not_fit_is_found() {
    let trusts = |arguments: Value, _| Ok(arguments["x"].as_i64().unwrap().to_string().into());
    check(
        tool_of(definition(), trusts),
        expect!["a call does not panic: it panics when it is called with null"],
    )
    .await;
}

/// What a tool gives when all goes well cannot be looked at when nothing does.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_fails_with_what_it_was_given_is_found() {
    let fails = |_, _| Err(ToolError::failed("no such file"));
    check(tool_of(definition(), fails), expect![""]).await;
    let report = conformance::tool(tool_of(definition(), fails)).arguments(json!({"x": 1})).await;
    expect!["a call with arguments that were given for it goes well: it fails: no such file"]
        .assert_eq(&broken(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_does_not_fit_its_schema_is_found() {
    let definition = || definition().with_output_schema(json!({"type": "integer"}));
    let text = |_, _| Ok(ToolOutput::structured(json!("two")));
    check(
        tool_of(definition(), text),
        expect![[r#"a result fits the output schema: /: expected integer, received string "two""#]],
    )
    .await;
    let bare = |_, _| Ok("2".into());
    check(tool_of(definition(), bare), expect!["a result fits the output schema: there is an output schema, and the result has no structured content"]).await;
}

struct Leaves(ToolDefinition);

#[async_trait]
impl Tool for Leaves {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    async fn call(&self, _: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
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
async fn a_call_that_does_not_end_when_it_should_is_found() {
    check_end(
        Leaves(definition()),
        expect![[r#"
            a call that is cancelled ends: it still runs after 200ms
            dropping a call ends it: it still runs after 200ms"#]],
    )
    .await;
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let blocks = move |_, _| {
        let _ = gate.lock().unwrap().recv();
        Ok("done".into())
    };
    check_end(
        tool_of(definition(), blocks),
        expect![[r#"
            a call that is cancelled ends: it still runs after 200ms
            dropping a call ends it: it still runs after 200ms"#]],
    )
    .await;
    drop(release);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_says_what_to_do() {
    let report = conformance::tool(tool_of(definition(), |_, _| panic!("oh"))).await;
    expect![[r#"
        tool "double" breaks a promise
        - a call does not panic: it panics when it is called with {"x":0}
          remedy: return an error: `ToolError::Failed` says what the model reads"#]]
    .assert_eq(&report.to_string());
}
