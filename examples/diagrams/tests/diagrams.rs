//! Tests of the router with scripted models. The tools write real SVG files.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use diagrams::{DiagramError, Graph, Sequence, router, tools};
use haft_core::{
    Toolset,
    agent::{RunAnswer, StopReason},
    model::ChatResponse,
};
use haft_mcp::{HttpServer, HttpServiceConfig, McpService, McpSource, serve_http};
use haft_testing::ScriptedModel;
use serde_json::json;
use tokio::net::TcpListener;

/// Creates the output folder for the test `name`. Returns its path.
fn folder(name: &str) -> Result<PathBuf, std::io::Error> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn draws(tool: &str, source: &str) -> ScriptedModel {
    ScriptedModel::new().reply_calls([("1", tool, &json!({"source": source}).to_string())])
}

async fn answer(
    models: [ScriptedModel; 2],
    folder: &Path,
    request: &str,
) -> Result<RunAnswer, Box<dyn Error>> {
    let [architect, sequencer] = models;
    let output = router(architect, sequencer, &tools(folder))?.run(request).await?;
    Ok(output.into_answer()?)
}

const SHOP: &str = r#"digraph shop {
    rankdir=TB
    node [shape=box]
    browser -> web [label="HTTPS"]; web -> api -> database
    api [label="API & <tools>"] // not a tag
    browser -> database [label="never"]
    database -> web
}"#;

#[tokio::test]
async fn architecture_is_routed_to_the_architect() -> Result<(), Box<dyn Error>> {
    let folder = folder("architecture")?;
    let models = [draws("draw_graph", SHOP), ScriptedModel::new()];
    let answer = answer(models, &folder, "Draw the architecture of my shop.").await?;
    assert_eq!(answer.agent.as_deref(), Some("architecture"));
    assert_eq!(answer.stop_reason, StopReason::Tool, "a drawn file ends the run");
    assert!(answer.text.starts_with("Drawn: 4 boxes, 5 arrows. Open "), "{}", answer.text);
    let svg = fs::read_to_string(folder.join("architecture.svg"))?;
    assert!(svg.contains(">API &amp; &lt;tools&gt;</text>"), "{svg}");
    assert_eq!(svg.matches("marker-end").count(), 5);
    Ok(())
}

/// Both agents work with the tools of a server over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn diagrams_are_drawn_over_http() -> Result<(), Box<dyn Error>> {
    let folder = folder("http")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let service = McpService::new(tools(&folder), HttpServiceConfig::default());
    let server = tokio::spawn(serve_http(service, listener, std::future::pending()));
    let source = McpSource::connect("diagrams", HttpServer::new(url)).await?;
    let remote = Toolset::new().with_source(source);
    let models = (draws("draw_graph", SHOP), ScriptedModel::new());
    let output = router(models.0, models.1, &remote)?.run("Draw the architecture of my shop.").await?;
    let answer = output.into_answer()?;
    assert!(answer.text.starts_with("Drawn: 4 boxes, 5 arrows. Open "), "{}", answer.text);
    assert!(folder.join("architecture.svg").exists());
    server.abort();
    Ok(())
}

#[tokio::test]
async fn sequence_is_routed_to_the_sequencer() -> Result<(), Box<dyn Error>> {
    let folder = folder("sequence")?;
    let source = "sequenceDiagram\n  participant S as Server\n  Client->>S: hello\n  S->>S: check\n  S-->>Client: welcome";
    let answer = answer(
        [ScriptedModel::new(), draws("draw_sequence", source)],
        &folder,
        "Draw the sequence of a login.",
    )
    .await?;
    assert_eq!(answer.agent.as_deref(), Some("sequence"));
    assert!(answer.text.starts_with("Drawn: 2 participants, 3 messages. Open "), "{}", answer.text);
    assert!(fs::read_to_string(folder.join("sequence.svg"))?.contains(">Server</text>"));
    Ok(())
}

#[tokio::test]
async fn ambiguous_request_leads_to_a_question() -> Result<(), Box<dyn Error>> {
    let folder = folder("vague")?;
    let answer =
        answer([ScriptedModel::new(), ScriptedModel::new()], &folder, "Draw something nice.").await?;
    assert_eq!(answer.stop_reason, StopReason::Clarification);
    assert_eq!(
        answer.text,
        "Do you want a diagram of an architecture: boxes and connections or a sequence diagram: messages between \
         participants, in order?"
    );
    Ok(())
}

/// If the source is invalid, the model receives a syntax error with the correct form, and can send
/// a corrected source in the same run.
#[tokio::test]
async fn syntax_error_is_corrected_by_the_model() -> Result<(), Box<dyn Error>> {
    let folder = folder("wrong")?;
    let right = json!({"source": "a -> b"}).to_string();
    let architect = draws("draw_graph", "a -> {b c}").reply_with(move |request| {
        let text = request.messages.iter().last().map(|message| message.text());
        assert_eq!(text.as_deref(), Some("line 1: an arrow has one target: write one line per arrow"));
        let call = haft_core::ToolCall::new("2", "draw_graph", right);
        let tool_calls = vec![call];
        Ok(ChatResponse::new(haft_core::message::AssistantMessage { tool_calls, ..Default::default() }))
    });
    let answer = answer([architect, ScriptedModel::new()], &folder, "Draw a graph.").await?;
    assert!(answer.text.starts_with("Drawn: 2 boxes, 1 arrows."), "{}", answer.text);
    Ok(())
}

#[test]
fn syntax_errors_name_their_line() {
    let graph = |source: &str| Graph::parse(source).map_err(|error| error.to_string()).err();
    assert_eq!(graph("a -> b\n\"c"), Some("line 2: a quoted text has no end".to_owned()));
    assert_eq!(
        graph("digraph { subgraph x { a } }"),
        Some("line 1: subgraphs are not drawn: leave them out".to_owned())
    );
    assert_eq!(graph("a [label]"), Some("line 1: expected `[label=\"…\"]`".to_owned()));
    assert_eq!(graph("digraph {}"), Some("there is nothing to draw: write at least one `a -> b`".to_owned()));
    let many: String = (0..300).map(|number| format!("a{number}\n")).collect();
    assert!(matches!(Graph::parse(&many), Err(DiagramError::TooMany { found: 300, .. })));
    assert!(matches!(Sequence::parse("A: hello"), Err(DiagramError::Syntax { line: 1, .. })));
    assert!(matches!(Sequence::parse("sequenceDiagram"), Err(DiagramError::Empty(_))));
}

/// Cycles, self-loops, isolated nodes and parallel arrows must be drawn without errors.
#[test]
fn every_graph_is_drawn() -> Result<(), DiagramError> {
    for (source, arrows) in [("a -> b -> c -> a", 3), ("a -> a", 1), ("a\nb\nc", 0), ("a -> b\na -> b", 2)] {
        let svg = Graph::parse(source)?.to_svg();
        assert_eq!(svg.matches("marker-end").count(), arrows, "{source}");
        assert!(!svg.contains("NaN"), "{svg}");
    }
    Ok(())
}
