//! Requests and replies, checked with the types of Anthropic's Python SDK. `cargo xtask setup`
//! installs it. Without it, the tests are skipped, unless `HAFT_JUDGES` lists `anthropic`.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use haft_anthropic::{MessagesBuilder, Thinking};
use haft_core::{
    ChatModel as _, Message, Schema, ToolCall, ToolName, ToolOutput, ToolResult,
    content::{Content, ResourceBody},
    message::{AssistantMessage, MessageBody},
    model::{
        ChatRequest, ChatSettings, FinishReason, HostedMcpServer, HostedTool, ResponseFormat, ToolChoice,
        WebSearch,
    },
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::server::{Server, decode, hello, message, ok_reply, sent, tools};

/// Returns the Python interpreter of the judge, or `None` if it is not installed.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let place = target.join("judges").join("anthropic");
    if place.join("version").is_file() {
        return Some(place.join("bin").join("python"));
    }
    let is_required = env::var("HAFT_JUDGES").is_ok_and(|list| list.split(',').any(|it| it == "anthropic"));
    assert!(!is_required, "the SDK is not in {}: run `cargo xtask setup`", place.display());
    None
}

async fn run(python: &Path, mode: &str, input: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/judge/validate.py");
    let mut command = Command::new(python);
    command.arg(script).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the second request of a conversation: the results for a reply with all kinds of blocks.
async fn continued() -> Value {
    let blocks = json!([
        {"type": "thinking", "thinking": "I add.", "signature": "s1"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}, "caller": {"type": "direct"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
            {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x", "page_age": null},
        ]},
        {"type": "server_tool_use", "id": "s2", "name": "tool_search_tool_bm25", "input": {"query": "add"}},
        {"type": "tool_search_tool_result", "tool_use_id": "s2", "content": {
            "type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "add"}],
        }},
        {"type": "text", "text": "It is A.", "citations": [
            {"type": "char_location", "document_index": 0, "document_title": null, "start_char_index": 0, "end_char_index": 1, "cited_text": "q", "file_id": null},
        ]},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": 1}, "caller": {"type": "direct"}},
    ]);
    let reply = ok_reply(&message(blocks, "tool_use"));
    let server = Server::with_replies([reply.clone(), reply]).await;
    let model = server.builder("claude-sonnet-4-6").thinking(Thinking::Budget(2_000)).build().unwrap();
    let own = model.chat(&hello()).await.unwrap().message;
    let result = Message::tool(ToolResult::done("t1", "add", ToolOutput::from("2")));
    let request = ChatRequest::new([Message::user("Add."), Message::assistant(own), result]);
    model.chat(&request).await.unwrap();
    server.take_requests().remove(1).body
}

fn media() -> ChatRequest {
    let content = vec![
        Content::text("Look:"),
        Content::from_bytes(*b"\x89PNG", "image/png"),
        Content::from_bytes(*b"%PDF", "application/pdf"),
        Content::Resource {
            uri: "note".to_owned(),
            media_type: Some("text/plain".to_owned()),
            body: ResourceBody::Text("a".to_owned()),
        },
        Content::ResourceLink {
            uri: "https://example.com/a.pdf".to_owned(),
            name: "a".to_owned(),
            description: None,
            media_type: Some("application/pdf".to_owned()),
        },
    ];
    let output = ToolOutput { content: content.clone(), ..ToolOutput::default() };
    let calls = vec![ToolCall::new("functions.look:0", "look at", "broken")];
    ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        ..ChatRequest::new([
            Message::new(MessageBody::User { content }),
            Message::assistant(AssistantMessage { tool_calls: calls, ..AssistantMessage::default() }),
            Message::tool(ToolResult::done("functions.look:0", "look at", output)),
            Message::tool(ToolResult::failed("b", "b", &haft_core::ToolError::failed("no"))),
            Message::system("Be quick."),
        ])
    }
}

fn hosted() -> ChatRequest {
    let search = WebSearch {
        blocked_domains: vec!["a.example".to_owned()],
        max_uses: Some(1),
        ..WebSearch::default()
    };
    ChatRequest { hosted_tools: [HostedTool::WebSearch(search), HostedTool::CodeExecution].into(), ..hello() }
}

fn settings() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let schema = Schema::new(schema).unwrap();
    // The SDK uses a later version of the API, without `temperature`.
    let settings = ChatSettings {
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        parallel_tool_calls: Some(false),
        ..ChatSettings::default()
    };
    ChatRequest {
        response_format: ResponseFormat::JsonSchema { name: ToolName::new("reply").unwrap(), schema },
        tool_choice: ToolChoice::Tool(ToolName::new("t1").unwrap()),
        settings,
        ..hello().with_tools(tools((0..3).map(|number| format!("t{number}"))))
    }
}

#[tokio::test]
async fn requests_are_valid() {
    let Some(python) = python() else { return };
    let many = hello().with_tools(tools((0..50).map(|number| format!("t{number}"))));
    let mcp = HostedMcpServer {
        name: "files".to_owned(),
        url: "https://mcp.example.com".to_owned(),
        token: Some("t".to_owned()),
        allowed_tools: vec!["read".to_owned()],
    };
    let mcp = ChatRequest { hosted_tools: [HostedTool::McpServer(mcp)].into(), ..hello() };
    let same = |it: MessagesBuilder| it;
    let hour = |it: MessagesBuilder| it.prompt_cache_ttl(Duration::from_secs(3_600)).citations(true);
    let bodies = [
        ("create", sent("claude-opus-5-5", same, &hello()).await),
        (
            "create",
            sent("claude-opus-5-5", |it| it.thinking(Thinking::Adaptive).effort("xhigh"), &hello()).await,
        ),
        ("create", sent("claude-opus-5-5", |it| it.thinking(Thinking::Off), &hello()).await),
        ("create", sent("claude-opus-5-5", hour, &media()).await),
        ("create", sent("claude-opus-5-5", |it| it.strict_tools(true), &many).await),
        ("create", sent("claude-opus-5-5", same, &hosted()).await),
        ("create", sent("claude-sonnet-4-6", same, &settings_reply()).await),
        ("create", continued().await),
        ("beta", sent("claude-opus-5-5", same, &mcp).await),
        ("count", counted().await),
    ];
    let lines = bodies.map(|(kind, body)| json!({"kind": kind, "body": body}).to_string());
    assert_eq!(run(&python, "requests", &lines.join("\n")).await, "");
}

/// The request of [`settings`] with a free text, because the reply of `sent` is no JSON.
fn settings_reply() -> ChatRequest {
    ChatRequest { response_format: ResponseFormat::JsonObject, ..settings() }
}

async fn counted() -> Value {
    let server = Server::with_replies([ok_reply(&json!({"input_tokens": 42}))]).await;
    let model = server.builder("claude-sonnet-4-6").thinking(Thinking::Budget(2_000)).build().unwrap();
    assert_eq!(model.count_tokens(&settings()).await.unwrap(), 42);
    server.take_requests().remove(0).body
}

/// Replies that the SDK writes are decoded, whole and streamed.
#[tokio::test]
async fn replies_of_the_sdk_are_decoded() {
    let Some(python) = python() else { return };
    let replies = run(&python, "replies", "").await;
    let replies: Vec<Value> = replies.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 6);
    let mut decoded = Vec::new();
    for reply in &replies {
        decoded.push(decode(reply).await.unwrap().0);
    }
    let first = &decoded[0].message;
    assert_eq!((first.tool_calls.len(), first.hosted_calls.len(), first.citations.len()), (1, 1, 1));
    assert_eq!(decoded[0].usage.input_tokens, 15);
    assert_eq!(decoded[1].message.refusal.as_deref(), Some("No."));
    let reasons: Vec<_> = decoded[2..].iter().map(|reply| reply.finish_reason.clone()).collect();
    assert_eq!(reasons, [FinishReason::Stop, FinishReason::Length, FinishReason::Stop, FinishReason::Length]);
}
