//! Hosted tools in requests.

use expect_test::expect;
use haft_core::{
    ChatModel as _, Message,
    model::{ChatRequest, FileSearch, HostedMcpServer, HostedTool, ModelError, ToolChoice, WebSearch},
};
use serde_json::json;

use crate::server::{Server, decode, header, hello, message, ok_reply, pretty, sent};

fn with_tools(tools: Vec<HostedTool>) -> ChatRequest {
    ChatRequest { hosted_tools: tools.into(), ..hello() }
}

fn mcp_server() -> HostedMcpServer {
    HostedMcpServer {
        name: "files".to_owned(),
        url: "https://mcp.example.com".to_owned(),
        token: Some("t".to_owned()),
        allowed_tools: vec!["read".to_owned()],
    }
}

#[tokio::test]
async fn hosted_tools_are_sent() {
    let search =
        WebSearch { allowed_domains: vec!["docs.rs".to_owned()], max_uses: Some(3), ..WebSearch::default() };
    let request = with_tools(vec![
        HostedTool::WebSearch(search),
        HostedTool::CodeExecution,
        HostedTool::McpServer(mcp_server()),
    ]);
    let server =
        Server::with_replies([ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"))]).await;
    let model = server.builder("claude-opus-5-5").header("anthropic-beta", "own-beta").build().unwrap();
    model.chat(&request).await.unwrap();
    let request = server.take_requests().remove(0);
    assert_eq!(header(&request.head, "anthropic-beta"), Some("own-beta,mcp-client-2025-11-20"));
    expect![[r#"
        [
          [
            {
              "type": "web_search_20250305",
              "name": "web_search",
              "allowed_domains": [
                "docs.rs"
              ],
              "max_uses": 3
            },
            {
              "type": "code_execution_20250825",
              "name": "code_execution"
            },
            {
              "type": "mcp_toolset",
              "mcp_server_name": "files",
              "default_config": {
                "enabled": false
              },
              "configs": {
                "read": {
                  "enabled": true
                }
              },
              "cache_control": {
                "type": "ephemeral"
              }
            }
          ],
          [
            {
              "type": "url",
              "name": "files",
              "url": "https://mcp.example.com",
              "authorization_token": "t"
            }
          ]
        ]"#]]
    .assert_eq(&pretty(&json!([request.body["tools"], request.body["mcp_servers"]])));
    let forced =
        ChatRequest { tool_choice: ToolChoice::Required, ..with_tools(vec![HostedTool::CodeExecution]) };
    assert!(sent("claude-opus-5-5", |it| it, &forced).await.get("tool_choice").is_none());
}

#[tokio::test]
async fn other_hosted_tools_are_unsupported() {
    let both = WebSearch {
        allowed_domains: vec!["a.example".to_owned()],
        blocked_domains: vec!["b.example".to_owned()],
        ..WebSearch::default()
    };
    let server = Server::with_replies([]).await;
    for tool in [HostedTool::FileSearch(FileSearch::default()), HostedTool::WebSearch(both)] {
        let error = server.model().chat(&with_tools(vec![tool.clone()])).await.unwrap_err();
        assert!(matches!(error, ModelError::Unsupported(_)), "{error:?}");
        let error = server.model().count_tokens(&with_tools(vec![tool])).await.unwrap_err();
        assert!(matches!(error, ModelError::Unsupported(_)), "{error:?}");
    }
    let old = server.builder("claude-3-opus-20240229").build().unwrap();
    assert!(old.chat(&with_tools(vec![HostedTool::CodeExecution])).await.is_err());
}

/// The blocks of hosted tools go back unchanged, with the text between them. A call without a result
/// is omitted, because the API rejects it.
#[tokio::test]
async fn hosted_blocks_are_sent_back() {
    let blocks = json!([
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
            {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x", "page_age": null},
        ]},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "A.", "citations": [
            {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "encrypted_index": "e", "cited_text": "A"},
        ]},
    ]);
    let mut cut = blocks.clone();
    cut.as_array_mut()
        .unwrap()
        .push(json!({"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}}));
    for given in [&blocks, &cut] {
        let reply = ok_reply(&message(given.clone(), "end_turn"));
        let server = Server::with_replies([reply.clone(), reply]).await;
        let model = server.builder("claude-opus-5-5").prompt_cache(false).build().unwrap();
        let own = model.chat(&hello()).await.unwrap().message;
        let request =
            ChatRequest::new([Message::user("Hello"), Message::assistant(own), Message::user("Sure?")]);
        model.chat(&request).await.unwrap();
        assert_eq!(server.take_requests()[1].body["messages"][1]["content"], blocks);
    }
    // A changed text is sent without its citations.
    let mut changed = decode(&message(blocks, "end_turn")).await.unwrap().0.message;
    changed.content = vec!["Something else.".into()];
    let request =
        ChatRequest::new([Message::user("Hello"), Message::assistant(changed), Message::user("Sure?")]);
    let body = sent("claude-opus-5-5", |it| it.prompt_cache(false), &request).await;
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Something else."}]));
}
