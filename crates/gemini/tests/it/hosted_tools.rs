//! Hosted tools: their requests, their calls and the citations.

use expect_test::expect;
use haft_core::{
    ChatModel,
    message::{Citation, HostedCall},
    model::{ChatRequest, FileSearch, HostedMcpServer, HostedTool, ModelError, ModelProfile, WebSearch},
};
use haft_gemini::Api;
use serde_json::{Value, json};

use crate::server::{body_of, chat_with, content, finished, hello, stream_with, tools};

fn hosted() -> Vec<HostedTool> {
    vec![
        HostedTool::WebSearch(WebSearch::default()),
        HostedTool::CodeExecution,
        HostedTool::FileSearch(FileSearch {
            stores: vec!["fileSearchStores/a".to_owned()],
            max_results: Some(3),
        }),
        HostedTool::McpServer(HostedMcpServer {
            name: "docs".to_owned(),
            url: "https://mcp.example.org".to_owned(),
            token: Some("secret-token".to_owned()),
            ..HostedMcpServer::default()
        }),
    ]
}

#[tokio::test]
async fn hosted_tools_are_sent() {
    let request = ChatRequest { hosted_tools: hosted().into(), ..hello() };
    let body = body_of(Api::GenerateContent, &request, |it| it).await;
    expect![[r#"[{"googleSearch":{}},{"codeExecution":{}},{"fileSearch":{"fileSearchStoreNames":["fileSearchStores/a"],"topK":3}},{"mcpServers":[{"name":"docs","streamableHttpTransport":{"url":"https://mcp.example.org","headers":{"Authorization":"Bearer secret-token"}}}]}]"#]].assert_eq(&body["tools"].to_string());
    assert!(body.get("toolConfig").is_none());
    let body = body_of(Api::Interactions, &request, |it| it).await;
    expect![[r#"[{"type":"google_search"},{"type":"code_execution"},{"type":"file_search","file_search_store_names":["fileSearchStores/a"],"top_k":3},{"type":"mcp_server","name":"docs","url":"https://mcp.example.org","headers":{"Authorization":"Bearer secret-token"}}]"#]].assert_eq(&body["tools"].to_string());
    let beside_functions = ChatRequest { hosted_tools: hosted().into(), ..hello().with_tools(tools()) };
    let body = body_of(Api::GenerateContent, &beside_functions, |it| it).await;
    assert_eq!(body["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn settings_without_a_field_are_unsupported() {
    let model = haft_gemini::Gemini::builder("gemini-3-flash").build().unwrap();
    let error = async |tool: HostedTool| {
        let request = ChatRequest { hosted_tools: [tool].into(), ..hello() };
        model.chat(&request).await.unwrap_err()
    };
    let search = WebSearch { max_uses: Some(1), ..WebSearch::default() };
    assert!(matches!(error(HostedTool::WebSearch(search)).await, ModelError::Unsupported(_)));
    let server = HostedMcpServer { allowed_tools: vec!["a".to_owned()], ..HostedMcpServer::default() };
    assert!(matches!(error(HostedTool::McpServer(server.clone())).await, ModelError::Unsupported(_)));
    let request = ChatRequest { hosted_tools: [HostedTool::McpServer(server)].into(), ..hello() };
    let body = body_of(Api::Interactions, &request, |it| it).await;
    assert_eq!(body["tools"][0]["allowed_tools"], json!([{"tools": ["a"]}]));
    let without = haft_gemini::Gemini::builder("m").profile(ModelProfile::new("m")).build().unwrap();
    let request = ChatRequest { hosted_tools: [HostedTool::CodeExecution].into(), ..hello() };
    assert!(matches!(without.chat(&request).await, Err(ModelError::Unsupported(_))));
}

fn grounded(parts: Value, metadata: Value) -> Value {
    let mut reply = content(parts);
    reply["candidates"][0]["groundingMetadata"] = metadata;
    reply
}

/// The indexes of a segment are bytes of its part.
#[tokio::test]
async fn grounding_becomes_citations_and_a_search() {
    let metadata = json!({
        "webSearchQueries": ["haft", "rust"],
        "groundingChunks": [
            {"web": {"uri": "https://a.org", "title": "a"}},
            {"retrievedContext": {"title": "b", "text": "Quoted.", "mediaId": "m1"}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 9, "text": "Grüße."}, "groundingChunkIndices": [0, 1]},
            {"segment": {"partIndex": 2, "startIndex": 1, "endIndex": 4, "text": "Bye"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 500, "endIndex": 503, "text": "Bye"}, "groundingChunkIndices": [1, 7]},
            {"segment": {"startIndex": 500, "endIndex": 503, "text": "Other"}, "groundingChunkIndices": [0]},
        ],
    });
    let parts = json!([{"text": "Grüße."}, {"text": "Hm", "thought": true}, {"text": " Bye"}]);
    let response = chat_with(Api::GenerateContent, &grounded(parts, metadata)).await.unwrap();
    assert_eq!(response.message.text(), "Grüße. Bye");
    let citation = |range, source: usize| match source {
        0 => Citation {
            range,
            title: Some("a".into()),
            url: Some("https://a.org".into()),
            ..Citation::default()
        },
        _ => Citation {
            range,
            title: Some("b".into()),
            file_id: Some("m1".into()),
            quote: Some("Quoted.".into()),
            ..Citation::default()
        },
    };
    // `endIndex` 9 is wrong, so the text of the segment is found.
    let expected = [
        citation(Some(0..8), 0),
        citation(Some(0..8), 1),
        citation(Some(9..12), 0),
        citation(Some(9..12), 1),
        citation(None, 0),
    ];
    assert_eq!(response.message.citations, expected);
    let search =
        HostedCall { input: json!({"queries": ["haft", "rust"]}), ..HostedCall::new("", "web_search") };
    assert_eq!(response.message.hosted_calls, [search, HostedCall::new("", "file_search")]);
    assert_eq!(response.usage.hosted_tool_requests, 2);
}

/// In a stream, the metadata arrive at the end, with indexes into the joined text.
#[tokio::test]
async fn segments_of_a_stream_refer_to_the_joined_text() {
    let metadata = json!({
        "webSearchQueries": ["haft"],
        "groundingChunks": [{"web": {"uri": "https://a.org", "title": "a"}}],
        "groundingSupports": [{"segment": {"startIndex": 6, "endIndex": 10}, "groundingChunkIndices": [0]}],
    });
    let chunk =
        |text: &str| json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]});
    let events = [chunk("It is "), chunk("h"), chunk("aft."), grounded(json!([]), metadata)];
    let events = stream_with(Api::GenerateContent, &events).await;
    let message = &finished(&events).message;
    assert_eq!(message.citations[0].range, Some(6..10));
    assert_eq!(message.hosted_calls[0].tool, "web_search");
}

#[tokio::test]
async fn calls_of_hosted_tools_are_recorded() {
    let parts = json!([
        {"executableCode": {"language": "PYTHON", "code": "1+2"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3\n"}},
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["haft"]}}},
        {"toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"ok": true}}},
        {"text": "Done."},
    ]);
    let mut reply = grounded(parts, json!({"webSearchQueries": ["haft"]}));
    reply["candidates"][0]["urlContextMetadata"] = json!({"urlMetadata": [{"retrievedUrl": "https://a.org", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]});
    reply["candidates"][0]["citationMetadata"] =
        json!({"citationSources": [{"startIndex": 0, "endIndex": 4, "uri": "https://c.org"}]});
    let message = chat_with(Api::GenerateContent, &reply).await.unwrap().message;
    expect![[r#"
        {"id":"","tool":"code_execution","input":{"language":"PYTHON","code":"1+2"},"output":{"outcome":"OUTCOME_OK","output":"3\n"}}
        {"id":"","tool":"code_execution","input":{"language":"PYTHON","code":"1/0"},"output":{"outcome":"OUTCOME_FAILED","output":"ZeroDivisionError"},"error":"ZeroDivisionError"}
        {"id":"t1","tool":"web_search","input":{"queries":["haft"]},"output":{"ok":true}}
        {"id":"","tool":"url_context","input":{"urls":["https://a.org"]},"output":[{"retrievedUrl":"https://a.org","urlRetrievalStatus":"URL_RETRIEVAL_STATUS_SUCCESS"}]}
    "#]].assert_eq(&message.hosted_calls.iter().map(|call| serde_json::to_string(call).unwrap() + "\n").collect::<String>());
    let citation =
        Citation { range: Some(0..4), url: Some("https://c.org".to_owned()), ..Citation::default() };
    assert_eq!(message.citations, [citation]);
}
