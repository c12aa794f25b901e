//! What a trace says of a run.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use expect_test::expect;
use haft_core::{
    Agent as _, Deprecation, RunContext, RunInput, ToolExt as _, Toolset, testing::ScriptedModel,
};
use haft_react::ReactAgent;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::tools::{add, calculator};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn spans_have_the_names_of_opentelemetry() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_span_events(FmtSpan::NEW)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let call = [("call_1", "add", r#"{"x":17,"y":25}"#)];
    let model = ScriptedModel::new().calls(call).text("42").calls(call).text("42");
    let agent = ReactAgent::new(model, calculator()).unwrap();
    // A place in the code that another test comes to first, at the very time when this one begins to listen, is heard by nobody:
    // all of them are known before.
    agent.run("17 + 25?".into()).await.unwrap();
    let context = RunContext { run_id: "run_1".to_owned(), ..RunContext::default() };

    let guard = tracing::subscriber::set_default(subscriber);
    agent.run(RunInput::new("17 + 25?").with_context(context)).await.unwrap();
    drop(guard);

    let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let spans: Vec<_> =
        written.lines().map(|line| line.trim_start_matches(" INFO ").trim_end_matches(": new")).collect();
    expect![[r#"
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:chat{gen_ai.operation.name="chat" gen_ai.request.model="scripted"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name="add" gen_ai.tool.call.id="call_1"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:chat{gen_ai.operation.name="chat" gen_ai.request.model="scripted"}"#]].assert_eq(&spans.join("\n"));
}

/// BEHAVIOUR A68: once a run, however often it is offered and called.
#[tokio::test]
async fn a_deprecated_tool_is_told_once_a_run() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let call = [("", "add", r#"{"x":17,"y":25}"#)];
    let model = ScriptedModel::new().calls(call).calls([("", "add", r#"{"x":1,"y":2}"#)]).text("42");
    let replacement = Deprecation { replacement: Some("sum".to_owned()), note: None };
    let old = add().with_definition(|it| it.with_deprecation(replacement));
    let agent = ReactAgent::new(model, Toolset::new().with(old)).unwrap();

    let guard = tracing::subscriber::set_default(subscriber);
    agent.run("17 + 25?".into()).await.unwrap();
    drop(guard);

    let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert_eq!(written.trim(), r#"WARN tool "add" is deprecated; use "sum""#);
}
