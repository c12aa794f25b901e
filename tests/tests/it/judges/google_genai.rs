//! Google's SDK checks the requests of `haft-gemini` with its types, which forbid unknown fields, and
//! builds replies that `haft-gemini` parses.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use axum::{Router, extract::State, routing::any};
use haft_core::{
    ChatModel, Message, Schema, ToolName, ToolOutput, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
    model::{
        ChatRequest, ChatResponse, ChatSettings, FileSearch, FinishReason, HostedMcpServer, HostedTool,
        ResponseFormat, ToolChoice, WebSearch,
    },
    toolset::ToolList,
};
use haft_gemini::{Api, Gemini, HarmBlockThreshold, HarmCategory, SafetySetting, ThinkingLevel};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::installed_folder;
use crate::Add;

/// Runs the script with `input` and returns its output.
fn run_script(place: &Path, arguments: &[&str], input: &str) -> String {
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/gemini/tests/it/judge/validate.py");
    let mut command = Command::new(place.join("bin/python"));
    command.arg(script).args(arguments).env("PYTHONIOENCODING", "utf-8");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

type Received = Arc<Mutex<Vec<Value>>>;

/// Starts a server that replies to each request with `reply`. Returns its URL and the bodies that it
/// receives.
async fn serve(reply: Value) -> (String, Received) {
    let received = Received::default();
    let handler = move |State(received): State<Received>, body: String| async move {
        received.lock().unwrap().push(serde_json::from_str(&body).unwrap());
        reply.to_string()
    };
    let app = Router::new().fallback(any(handler)).with_state(received.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, received)
}

fn image() -> Content {
    Content::from_bytes(*b"\x89PNG", "image/png")
}

/// Returns requests with each kind of content, setting and tool. `reply` is a reply of the model.
fn requests(reply: AssistantMessage) -> Vec<ChatRequest> {
    let tools = ToolList::new("test", [Add]);
    let content = vec![
        "Look:".into(),
        image(),
        Content::from_bytes(*b"RIFF", "audio/wav"),
        Content::from_bytes(*b"%PDF", "application/pdf"),
    ];
    let settings = ChatSettings {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(u64::MAX),
        parallel_tool_calls: None,
    };
    let server = HostedMcpServer {
        name: "docs".to_owned(),
        url: "https://mcp.example.org".to_owned(),
        token: Some("token".to_owned()),
        ..HostedMcpServer::default()
    };
    let search = FileSearch { stores: vec!["fileSearchStores/a".to_owned()], max_results: Some(3) };
    let output = ToolOutput { content: vec!["A cat:".into(), image()], ..ToolOutput::default() };
    let foreign = AssistantMessage {
        content: vec!["I add.".into()],
        tool_calls: vec![("call_1", "add", r#"{"x":1,"y":2}"#).into(), ("call_2", "3d", "").into()],
        ..AssistantMessage::default()
    };
    let failed = ToolResult::failed("call_2", "3d", &haft_core::ToolError::failed("no luck"));
    let schema = Schema::new(json!({
        "type": "array",
        "items": {"$ref": "#/$defs/item", "description": "An item."},
        "$defs": {"item": {"type": ["string", "null"]}},
    }));
    vec![
        ChatRequest {
            instructions: Some(Message::system("Be brief.").into()),
            tool_choice: ToolChoice::Tool(ToolName::new("add").unwrap()),
            settings,
            ..ChatRequest::new([Message::new(MessageBody::User { content })]).with_tools(tools.clone())
        },
        ChatRequest {
            tool_choice: ToolChoice::Required,
            ..ChatRequest::new([
                Message::user("Add."),
                Message::assistant(reply),
                Message::tool(ToolResult::done("c1", "add", output)),
            ])
            .with_tools(tools.clone())
        },
        ChatRequest {
            hosted_tools: [
                HostedTool::WebSearch(WebSearch::default()),
                HostedTool::CodeExecution,
                HostedTool::FileSearch(search),
                HostedTool::McpServer(server),
            ]
            .into(),
            tool_choice: ToolChoice::None,
            ..ChatRequest::new([
                Message::user("Add."),
                Message::assistant(foreign),
                Message::tool(ToolResult::done("call_1", "add", ToolOutput::structured(json!({"sum": 3})))),
                Message::tool(failed),
                Message::system("Later."),
            ])
            .with_tools(tools)
        },
        ChatRequest {
            response_format: ResponseFormat::JsonSchema {
                name: ToolName::new("items").unwrap(),
                schema: schema.unwrap(),
            },
            ..ChatRequest::new([Message::user("List.")])
        },
    ]
}

fn check_reply(reply: &ChatResponse) {
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 8));
    let message = &reply.message;
    assert_eq!((message.text().as_str(), message.reasoning.as_deref()), ("Grüße!", Some("Hm.")));
    assert_eq!(message.tool_calls, [("c1", "add", r#"{"x":1,"y":2}"#).into()]);
    assert_eq!((message.citations.len(), message.citations[0].range.clone()), (1, Some(0..8)));
    assert_eq!(message.hosted_calls[0].tool, "web_search");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_replies_have_the_types_of_the_sdk() {
    let Some(place) = installed_folder("google-genai") else { return };
    let replies = run_script(&place, &["replies"], "");
    let mut lines = String::new();
    for line in replies.lines() {
        let reply: Value = serde_json::from_str(line).unwrap();
        let name = reply["api"].as_str().unwrap();
        let api = if name == "interactions" { Api::Interactions } else { Api::GenerateContent };
        let (url, received) = serve(reply["body"].clone()).await;
        let safety =
            SafetySetting { category: HarmCategory::HateSpeech, threshold: HarmBlockThreshold::BlockNone };
        let model = Gemini::builder("gemini-3-flash")
            .base_url(url)
            .api(api)
            .thinking_level(ThinkingLevel::Minimal)
            .include_thoughts(true)
            .validate_calls(true)
            .safety_settings([safety])
            .build()
            .unwrap();
        let first = model.chat(&ChatRequest::new([Message::user("Hello")])).await.unwrap();
        check_reply(&first);
        for request in requests(first.message) {
            model.chat(&request).await.unwrap();
        }
        let bodies = std::mem::take(&mut *received.lock().unwrap());
        assert_eq!(bodies.len(), 5);
        lines.extend(bodies.iter().map(|body| json!({"api": name, "body": body}).to_string() + "\n"));
    }
    assert_eq!(lines.lines().count(), 10);
    assert_eq!(run_script(&place, &[], &lines), "");
}
