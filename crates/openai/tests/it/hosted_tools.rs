//! Hosted tools of the Responses API.

use std::time::Duration;

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolDefinition, ToolError, ToolName, ToolOutput,
    model::{
        ChatEvent, ChatRequest, ChatResponse, FileSearch, HostedMcpServer, HostedTool, HostedToolKind,
        ModelError, ModelProfile, ToolChoice, WebSearch,
    },
    tool::DynamicTool,
    toolset::ToolList,
};
use haft_openai::{ChatCompletions, Provider, Responses};
use serde_json::{Value, json};

use crate::{
    responses::{events_of, sample_response},
    server::{Server, chunks_reply, ok_reply},
};

fn all_hosted_tools() -> Vec<HostedTool> {
    let search = WebSearch { allowed_domains: vec!["docs.rs".to_owned()], ..WebSearch::default() };
    let server = HostedMcpServer {
        name: "wiki".to_owned(),
        url: "https://wiki.example/mcp".to_owned(),
        token: Some("secret-token".to_owned()),
        allowed_tools: vec!["read".to_owned()],
    };
    vec![
        HostedTool::WebSearch(search),
        HostedTool::CodeExecution,
        HostedTool::FileSearch(FileSearch { stores: vec!["vs_1".to_owned()], max_results: Some(5) }),
        HostedTool::McpServer(server),
    ]
}

fn request(hosted_tools: Vec<HostedTool>) -> ChatRequest {
    ChatRequest { hosted_tools: hosted_tools.into(), ..ChatRequest::new([Message::user("What is new?")]) }
}

fn model(server: &Server) -> Responses {
    let builder = Responses::builder("gpt-5.4").provider(Provider::OpenAi).base_url(&server.base_url);
    builder.first_retry_wait(Duration::from_millis(1)).build().unwrap()
}

fn tools(number: usize) -> ToolList {
    let tools = (0..number).map(|number| {
        let name = ToolName::new(format!("tool_{number}")).unwrap();
        let definition = ToolDefinition::new(name, Schema::for_arguments(json!({})).unwrap());
        DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("done")) })
    });
    ToolList::new("test", tools)
}

#[tokio::test]
async fn hosted_tools_precede_the_functions() {
    let server = Server::with_replies([ok_reply(&sample_response())]).await;
    model(&server).chat(&request(all_hosted_tools()).with_tools(tools(1))).await.unwrap();
    let body = server.body(0);
    expect![[r#"
        [
          {
            "type": "web_search",
            "filters": {
              "allowed_domains": [
                "docs.rs"
              ]
            }
          },
          {
            "type": "code_interpreter",
            "container": {
              "type": "auto"
            }
          },
          {
            "type": "file_search",
            "vector_store_ids": [
              "vs_1"
            ],
            "max_num_results": 5
          },
          {
            "type": "mcp",
            "server_label": "wiki",
            "server_url": "https://wiki.example/mcp",
            "require_approval": "never",
            "authorization": "secret-token",
            "allowed_tools": [
              "read"
            ]
          },
          {
            "type": "function",
            "name": "tool_0",
            "parameters": {
              "type": "object",
              "properties": {},
              "required": [],
              "additionalProperties": false
            },
            "strict": true
          }
        ]"#]]
    .assert_eq(&format!("{:#}", body["tools"]));
    let results = [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
        "file_search_call.results",
    ];
    assert_eq!(body["include"], json!(results));
}

#[tokio::test]
async fn missing_hosted_tool_is_an_error_without_a_request() {
    let server = Server::with_replies([]).await;
    let search = || vec![HostedTool::WebSearch(WebSearch::default())];
    let chat = ChatCompletions::builder("gpt-5").base_url(&server.base_url).build().unwrap();
    let error = chat.chat(&request(search())).await.unwrap_err();
    assert_eq!(error.to_string(), "the model cannot do this: gpt-5 has no hosted tool for web search");
    let local = Responses::builder("qwen3").base_url(&server.base_url).build().unwrap();
    let error = local.stream(&request(search())).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, ModelError::Unsupported(_)), "{error}");
    let blocked = WebSearch { blocked_domains: vec!["example.com".to_owned()], ..WebSearch::default() };
    let error = model(&server).chat(&request(vec![HostedTool::WebSearch(blocked)])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model cannot do this: the web search of the Responses API does not have blocked domains"
    );
}

/// The profile of the program decides: a gateway can have hosted tools that haft does not know.
#[tokio::test]
async fn profile_permits_a_hosted_tool() {
    let server = Server::with_replies([ok_reply(&sample_response())]).await;
    let profile =
        ModelProfile { hosted_tools: vec![HostedToolKind::CodeExecution], ..ModelProfile::new("mine") };
    let model = Responses::builder("mine").base_url(&server.base_url).profile(profile).build().unwrap();
    model.chat(&request(vec![HostedTool::CodeExecution])).await.unwrap();
    assert_eq!(server.body(0)["tools"][0]["type"], "code_interpreter");
}

/// A response with a call of each hosted tool, and a text with citations. The text begins with a
/// character of four bytes, because OpenAI counts characters.
fn searched_response() -> Value {
    let mut response = sample_response();
    response["output"] = json!([
        {"id": "ws_1", "type": "web_search_call", "status": "completed",
         "action": {"type": "search", "query": "haft", "sources": [{"type": "url", "url": "https://docs.rs"}]}},
        {"id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "1+1",
         "container_id": "c_1", "outputs": [{"type": "logs", "logs": "2"}]},
        {"id": "fs_1", "type": "file_search_call", "status": "failed", "queries": ["a"], "results": null},
        {"id": "ml_1", "type": "mcp_list_tools", "server_label": "wiki", "tools": []},
        {"id": "mc_1", "type": "mcp_call", "server_label": "wiki", "name": "read", "arguments": "{\"p\":1}",
         "output": "page", "error": null},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": "😀 haft is new.", "annotations": [
                {"type": "url_citation", "start_index": 2, "end_index": 6, "url": "https://docs.rs/haft",
                 "title": "haft"},
                {"type": "file_citation", "file_id": "f_1", "filename": "a.txt", "index": 14},
            ]},
        ]},
    ]);
    response
}

async fn replies(response: &Value) -> (ChatResponse, Vec<ChatEvent>) {
    let server = Server::with_replies([ok_reply(response), chunks_reply(&events_of(response))]).await;
    let model = model(&server);
    let request = request(all_hosted_tools());
    let whole = model.chat(&request).await.unwrap();
    (whole, model.stream(&request).try_collect().await.unwrap())
}

#[tokio::test]
async fn calls_and_citations_are_part_of_the_reply() {
    let (whole, mut events) = replies(&searched_response()).await;
    let Some(ChatEvent::Finished(streamed)) = events.pop() else { panic!("{events:?}") };
    assert_eq!(whole, *streamed);
    expect![[r#"
        [
          {
            "id": "ws_1",
            "tool": "web_search",
            "input": {
              "type": "search",
              "query": "haft"
            },
            "output": [
              {
                "type": "url",
                "url": "https://docs.rs"
              }
            ]
          },
          {
            "id": "ci_1",
            "tool": "code_execution",
            "input": {
              "code": "1+1"
            },
            "output": [
              {
                "type": "logs",
                "logs": "2"
              }
            ]
          },
          {
            "id": "fs_1",
            "tool": "file_search",
            "input": {
              "queries": [
                "a"
              ]
            },
            "error": "the call failed"
          },
          {
            "id": "mc_1",
            "tool": "mcp:wiki/read",
            "input": {
              "p": 1
            },
            "output": "page"
          }
        ]"#]]
    .assert_eq(&format!("{:#}", json!(whole.message.hosted_calls)));
    let text = whole.message.text();
    let cited: Vec<_> = whole
        .message
        .citations
        .iter()
        .map(|it| (&text[it.range.clone().unwrap()], it.title.as_deref()))
        .collect();
    assert_eq!(cited, [("haft", Some("haft")), ("", Some("a.txt"))]);
    let started = |event: &ChatEvent| match event {
        ChatEvent::HostedCallStarted { tool, .. } => Some(format!("+{tool}")),
        ChatEvent::HostedCallFinished { call } => Some(format!("-{}", call.tool)),
        _ => None,
    };
    let calls: Vec<_> = events.iter().filter_map(started).collect();
    assert_eq!(
        calls.join(" "),
        "+web_search -web_search +code_execution -code_execution +file_search -file_search \
         +mcp:wiki/read -mcp:wiki/read"
    );
}

#[tokio::test]
async fn items_of_hosted_tools_are_sent_back() {
    let response = searched_response();
    let server = Server::with_replies([ok_reply(&response), ok_reply(&response)]).await;
    let model = model(&server);
    let reply = model.chat(&request(all_hosted_tools())).await.unwrap();
    let messages = [Message::user("What is new?"), Message::assistant(reply.message), Message::user("And?")];
    model
        .chat(&ChatRequest { messages: messages.into_iter().collect(), ..request(all_hosted_tools()) })
        .await
        .unwrap();
    let input = server.body(1)["input"].clone();
    let sent: Vec<_> = input.as_array().unwrap()[1..6].to_vec();
    assert_eq!(json!(sent), json!(response["output"].as_array().unwrap()[..5]));
}

#[tokio::test]
async fn large_toolset_is_searched() {
    let server = Server::with_replies([(); 3].map(|()| ok_reply(&sample_response()))).await;
    let model = model(&server);
    for (number, choice) in [
        (40, ToolChoice::Auto),
        (41, ToolChoice::Auto),
        (41, ToolChoice::Tool(ToolName::new("tool_7").unwrap())),
    ] {
        let request = ChatRequest { tool_choice: choice, ..request(Vec::new()).with_tools(tools(number)) };
        model.chat(&request).await.unwrap();
    }
    let described = |index: usize| {
        let tools = server.body(index)["tools"].as_array().unwrap().clone();
        let deferred = tools.iter().filter(|tool| tool["defer_loading"] == true).count();
        (tools.iter().filter(|tool| tool["type"] == "tool_search").count(), deferred)
    };
    assert_eq!([0, 1, 2].map(described), [(0, 0), (1, 41), (0, 0)]);
}
