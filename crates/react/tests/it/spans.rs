//! Tests of tracing spans and events. Their names follow the conventions of OpenTelemetry.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use expect_test::expect;
use haft_core::{
    RunInput, ToolError, ToolExt as _, Toolset,
    model::ModelError,
    tool::{Deprecation, RunContext},
};
use haft_react::{ReactAgent, Verdict};
use haft_testing::ScriptedModel;
use serde_json::json;
use tracing::{Dispatch, Level, subscriber::NoSubscriber};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::tools::{add_tool, calculator};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `agent` with a tracing subscriber. Returns the answer, and the trace that the subscriber
/// wrote.
async fn run_with_trace(level: Level, spans: FmtSpan, question: &str, agent: ReactAgent) -> (String, String) {
    // With a single subscriber, `tracing` caches for each callsite the interest of the first thread
    // that reaches it. That thread may belong to a test without the subscriber. With a second
    // subscriber, `tracing` combines the interest of both.
    let _second = Dispatch::new(NoSubscriber::new());
    let written = Buffer::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || writer.clone())
        .with_span_events(spans)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let context = RunContext { run_id: "run_1".to_owned(), ..RunContext::default() };
    let guard = tracing::subscriber::set_default(subscriber);
    let output = agent.run(RunInput::new(question).with_context(context)).await.unwrap();
    drop(guard);
    let bytes = written.0.lock().unwrap().clone();
    (output.text().unwrap().to_owned(), String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn spans_have_the_names_of_opentelemetry() {
    let model = ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).reply_text("42");
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let (_, written) = run_with_trace(Level::INFO, FmtSpan::NEW, "17 + 25?", agent).await;

    let spans: Vec<_> =
        written.lines().map(|line| line.trim_start_matches(" INFO ").trim_end_matches(": new")).collect();
    expect![[r#"
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:chat{gen_ai.operation.name="chat" gen_ai.request.model="scripted"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name="add" gen_ai.tool.call.id="call_1"}
        invoke_agent{gen_ai.operation.name="invoke_agent" gen_ai.request.model="scripted" haft.run.id="run_1"}:chat{gen_ai.operation.name="chat" gen_ai.request.model="scripted"}"#]].assert_eq(&spans.join("\n"));
}

/// A deprecated tool causes one warning per run, even if it is listed and called several times.
#[tokio::test]
async fn deprecated_tool_is_logged_once_per_run() {
    let call = [("", "add", r#"{"x":17,"y":25}"#)];
    let model = ScriptedModel::new()
        .reply_calls(call)
        .reply_calls([("", "add", r#"{"x":1,"y":2}"#)])
        .reply_text("42");
    let replacement = Deprecation { replacement: Some("sum".to_owned()), note: None };
    let old = add_tool().with_definition(|it| it.with_deprecation(replacement));
    let agent = ReactAgent::new(model, Toolset::new().with_tool(old)).unwrap();
    let (_, written) = run_with_trace(Level::WARN, FmtSpan::NONE, "17 + 25?", agent).await;
    assert_eq!(written.trim(), r#"WARN tool "add" is deprecated; use "sum""#);
}

/// Creates an agent with the text `canary` in every message, argument, result and error. If
/// `with_content` is `true`, its spans contain content.
fn canary_agent(canary: &str, with_content: bool) -> ReactAgent {
    let echo = haft_core::tool_fn("echo", "Echoes.", |Echo { text, fails }| async move {
        if fails { Err(ToolError::retry(text)) } else { Ok(text) }
    });
    let arguments = |fails: bool| json!({"text": canary, "fails": fails}).to_string();
    let model = ScriptedModel::new()
        .fail(ModelError::InvalidResponse(canary.to_owned()))
        .reply_calls([("a", "echo", &arguments(false)), ("b", "echo", &arguments(true))])
        .reply_calls([("c", "echo", &*format!(r#"{{"text":{{"{canary}":1}}}}"#)), ("d", canary, "{}")])
        .reply_text(canary)
        .reply_text(canary);
    ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(echo))
        .instructions(canary)
        .dynamic_instructions({
            let canary = canary.to_owned();
            move |_| std::future::ready(Ok(canary.clone()))
        })
        .output_validator(|output, cx| async move {
            if cx.step < 5 { Ok(Verdict::retry(output.text)) } else { Ok(Verdict::Pass) }
        })
        .trace_content(with_content)
        .build()
        .unwrap()
}

/// Runs the [`canary_agent`] with `text` and checks its answer. Returns the trace at level `TRACE`.
async fn trace_of(text: &str, with_content: bool) -> String {
    let (answer, trace) =
        run_with_trace(Level::TRACE, FmtSpan::FULL, text, canary_agent(text, with_content)).await;
    assert_eq!(answer, text);
    trace
}

#[derive(serde::Deserialize, haft_core::export::schemars::JsonSchema)]
#[schemars(crate = "haft_core::export::schemars")]
struct Echo {
    text: String,
    fails: bool,
}

/// Spans contain messages, arguments and results only if `trace_content` is set.
#[tokio::test]
async fn spans_have_content_only_with_trace_content() {
    const CANARY: &str = "canary_7f3a";
    let trace = trace_of(CANARY, false).await;
    assert!(trace.contains("execute_tool") && trace.contains("finish_reasons=\"tool_call\""), "{trace}");
    let leaks: Vec<_> = trace.lines().filter(|line| line.contains(CANARY)).collect();
    // A tool name is not content, although the model writes it.
    let leaks: Vec<_> =
        leaks.into_iter().filter(|line| !line.contains("gen_ai.tool.name=\"canary_7f3a\"")).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");

    let trace = trace_of(CANARY, true).await;
    for field in [
        r#"gen_ai.system_instructions="[{\"type\":\"text\",\"content\":\"canary_7f3a"#,
        r#"gen_ai.input.messages="[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"canary_7f3a\"}]}"#,
        r#"gen_ai.output.messages="[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"a\""#,
        r#"gen_ai.tool.call.arguments="{\"text\":\"canary_7f3a\""#,
        r#"gen_ai.tool.call.result="canary_7f3a""#,
    ] {
        let plain = field.replace('\\', "");
        assert!(trace.replace('\\', "").contains(&plain), "{field} is missing: {trace}");
    }
}
