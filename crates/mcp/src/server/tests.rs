use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Json, Pipeline, Schema, ToolDefinition, ToolName, ToolOutput, Toolset,
    content::{Content, ResourceBody},
    export::schemars::{self, JsonSchema},
    pipeline::{CallRecord, Recorder},
    tool::{DynamicTool, Progress},
    tool_fn,
};
use rmcp::{
    Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
        GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListToolsResult,
        PaginatedRequestParams, Prompt, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
        duplex, split,
    },
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{McpServer, ServeError, serve};

/// A test client without `rmcp`, so that each test controls the JSON-RPC messages.
struct Client {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<(), ServeError>>,
}

impl Client {
    fn connect<H: ServerHandler>(server: impl Into<McpServer<H>>) -> Self {
        let (ours, theirs) = duplex(1 << 20);
        let (reader, writer) = split(theirs);
        let server = tokio::spawn(serve(server.into(), reader, writer));
        let (input, output) = split(ours);
        Self { output, input: BufReader::new(input).lines(), server }
    }

    async fn initialized<H: ServerHandler>(server: impl Into<McpServer<H>>) -> Self {
        let mut client = Self::connect(server);
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        client.send(json!({"id": 0, "method": "initialize", "params": params})).await;
        assert_eq!(client.receive().await["result"]["protocolVersion"], "2025-11-25");
        client.send(json!({"method": "notifications/initialized"})).await;
        client
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = timeout(Duration::from_secs(10), self.input.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
        self.receive().await
    }
}

#[derive(serde::Deserialize, JsonSchema)]
struct Add {
    x: i64,
    y: i64,
}

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

fn add() -> DynamicTool {
    tool_fn("add", "Adds two integers.", |Add { x, y }| async move { Json(x + y) })
}

/// Creates a tool that never finishes.
///
/// The tool notifies `started` when it is called, and `ended` when its call is dropped.
fn forever(started: &Arc<Notify>, ended: &Arc<Notify>) -> DynamicTool {
    struct NotifyOnDrop(Arc<Notify>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (started, ended) = (Arc::clone(started), Arc::clone(ended));
    tool_fn("forever", "", move |Nothing {}| {
        let (started, end) = (Arc::clone(&started), NotifyOnDrop(Arc::clone(&ended)));
        async move {
            let _end = end;
            started.notify_one();
            std::future::pending::<()>().await;
        }
    })
}

/// Returns the `_meta` object that revision 2026-07-28 requires in every request.
fn request_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let mut client = Client::initialized(Toolset::new().with_tool(add())).await;
    client.send(json!({"id": 1, "method": "tools/list"})).await;
    let listed = client.receive().await;
    expect![[r#"
        {
          "tools": [
            {
              "name": "add",
              "description": "Adds two integers.",
              "inputSchema": {
                "type": "object",
                "properties": {
                  "x": {
                    "type": "integer"
                  },
                  "y": {
                    "type": "integer"
                  }
                },
                "required": [
                  "x",
                  "y"
                ]
              },
              "outputSchema": {
                "type": "object",
                "properties": {
                  "result": {
                    "type": "integer"
                  }
                },
                "required": [
                  "result"
                ]
              }
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&listed["result"]).unwrap());
    let sum = client.call("add", json!({"x": "17", "y": 25})).await;
    expect![[
        r#"{"content":[{"type":"text","text":"42"}],"structuredContent":{"result":42},"isError":false}"#
    ]]
    .assert_eq(&sum["result"].to_string());
}

/// A client of revision 2026-07-28 is served without `initialize`.
#[tokio::test]
async fn client_without_initialize_is_served() {
    let mut client = Client::connect(Toolset::new().with_tool(add()));
    let meta = request_meta();
    client.send(json!({"id": 1, "method": "server/discover", "params": {"_meta": meta}})).await;
    let versions = client.receive().await["result"]["supportedVersions"].clone();
    assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")), "{versions}");
    let params = json!({"name": "add", "arguments": {"x": 1, "y": 2}, "_meta": meta});
    client.send(json!({"id": 2, "method": "tools/call", "params": params})).await;
    let sum = client.receive().await;
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 3}));
    assert_eq!(sum["result"]["resultType"], "complete");
}

/// If a tool panics or the arguments of a call are invalid, the server returns a result with
/// `isError`. For a call to an unknown tool, the server returns a JSON-RPC error.
#[tokio::test]
async fn failures_are_results_or_protocol_errors() {
    let panics = tool_fn("panics", "", |Nothing {}| async move {
        if true {
            panic!("at the disco");
        }
    });
    let mut client = Client::initialized(Toolset::new().with_tool(add()).with_tool(panics)).await;
    let panicked = client.call("panics", json!({})).await;
    assert_eq!(panicked["result"]["isError"], json!(true));
    let invalid = client.call("add", json!({"x": "abc"})).await;
    assert_eq!(invalid["result"]["isError"], json!(true));
    let reason = invalid["result"]["content"][0]["text"].as_str().unwrap();
    assert!(reason.contains(r#"/x: expected integer, received string "abc""#), "{reason}");
    let unknown = client.call("sub", json!({})).await;
    assert_eq!(
        unknown["error"],
        json!({"code": -32602, "message": r#"unknown tool "sub"; available: add, panics"#})
    );
    assert_eq!(client.call("add", json!({"x": 1, "y": 1})).await["result"]["isError"], json!(false));
}

/// If the arguments of a call are not an object and cannot be repaired, the server returns a result
/// with `isError`, in all protocol revisions.
#[tokio::test]
async fn arguments_other_than_an_object_fail_the_call() {
    let mut client = Client::initialized(Toolset::new().with_tool(add())).await;
    let invalid = client.call("add", json!([1])).await;
    assert_eq!(invalid["result"]["isError"], json!(true), "{invalid}");
    assert_eq!(invalid["result"]["content"][0]["type"], json!("text"));
    assert!(invalid["result"].get("resultType").is_none(), "{invalid}");
    let repaired = client.call("add", json!(r#"{"x": 17, "y": 25}"#)).await;
    assert_eq!(repaired["result"]["structuredContent"], json!({"result": 42}), "{repaired}");
    assert_eq!(
        client.call("sub", json!([1])).await["error"]["message"],
        r#"unknown tool "sub"; available: add"#
    );
    client.send(json!({"id": 1, "method": "tools/call", "params": {"arguments": {}}})).await;
    assert_eq!(client.receive().await["error"]["code"], json!(-32602));
    client.send(json!({"id": 1, "method": "tools/cell", "params": {}})).await;
    assert_eq!(client.receive().await["error"]["code"], json!(-32601));

    let mut client = Client::connect(Toolset::new().with_tool(add()));
    let params = json!({"name": "add", "arguments": [1], "_meta": request_meta()});
    client.send(json!({"id": 2, "method": "tools/call", "params": params})).await;
    let invalid = client.receive().await;
    assert_eq!(
        (&invalid["result"]["isError"], &invalid["result"]["resultType"]),
        (&json!(true), &json!("complete"))
    );
}

/// Calls in progress are cancelled one second after the client closes the input.
#[tokio::test(start_paused = true)]
async fn end_of_input_cancels_calls_after_one_second() {
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut client = Client::initialized(Toolset::new().with_tool(forever(&started, &ended))).await;
    client
        .send(json!({"id": 7, "method": "tools/call", "params": {"name": "forever", "arguments": {}}}))
        .await;
    started.notified().await;
    let closed = Instant::now();
    client.output.shutdown().await.unwrap();
    ended.notified().await;
    assert_eq!(closed.elapsed().as_secs(), 1);
    client.server.await.unwrap().unwrap();
    assert_eq!(closed.elapsed().as_secs(), 1);
}

/// The response must arrive even if the client closes its side of the connection after it has sent
/// the request.
#[tokio::test(start_paused = true)]
async fn short_call_finishes_after_the_end_of_input() {
    let definition = ToolDefinition::new(ToolName::new("steps").unwrap(), Schema::object());
    let steps = DynamicTool::new(definition, |_arguments, cx| async move {
        sleep(Duration::from_millis(500)).await;
        cx.report_progress(Progress { progress: 1.0, total: None, message: None });
        sleep(Duration::from_millis(100)).await;
        "done"
    });
    let mut client = Client::initialized(Toolset::new().with_tool(steps)).await;
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "p"}});
    client.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
    client.output.shutdown().await.unwrap();
    assert_eq!(client.receive().await["result"]["content"][0]["text"], "done");
}

/// A call is dropped when the client cancels it, and no response is sent.
#[tokio::test]
async fn cancelled_call_is_dropped_without_a_response() {
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tools = Toolset::new().with_tool(forever(&started, &ended)).with_tool(add());
    let mut client = Client::initialized(tools).await;
    let call = json!({"id": 7, "method": "tools/call", "params": {"name": "forever", "arguments": {}}});
    client.send(call.clone()).await;
    started.notified().await;
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    timeout(Duration::from_secs(5), ended.notified()).await.unwrap();
    assert_eq!(
        client.call("add", json!({"x": 1, "y": 1})).await["id"],
        json!(1),
        "no response to the cancelled call"
    );
}

/// The server must stop at the end of its input, even before the handshake.
#[tokio::test]
async fn end_of_input_ends_the_server() {
    let mut client = Client::initialized(Toolset::new().with_tool(add())).await;
    client.output.shutdown().await.unwrap();
    timeout(Duration::from_secs(5), client.server).await.unwrap().unwrap().unwrap();
    let mut uninitialized = Client::connect(Toolset::new());
    uninitialized.output.shutdown().await.unwrap();
    timeout(Duration::from_secs(5), uninitialized.server).await.unwrap().unwrap().unwrap();
}

/// All progress notifications of a call must precede its response.
#[tokio::test]
async fn progress_is_sent_before_the_response() {
    let definition = ToolDefinition::new(ToolName::new("steps").unwrap(), Schema::object());
    let steps = DynamicTool::new(definition, |_arguments, cx| async move {
        for step in 1..=2 {
            cx.report_progress(Progress { progress: step.into(), total: Some(2.0), message: None });
        }
        "done"
    });
    let mut client = Client::initialized(Toolset::new().with_tool(steps)).await;
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "p"}});
    client.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
    for step in [1.0, 2.0] {
        let report = client.receive().await;
        assert_eq!(report["params"], json!({"progressToken": "p", "progress": step, "total": 2.0}));
    }
    assert_eq!(client.receive().await["result"]["content"][0]["text"], "done");
}

/// The result must contain all types of content, the warnings and the metadata of the tool output.
#[tokio::test]
async fn content_and_metadata_are_encoded() {
    let content = vec![
        Content::text("a"),
        Content::from_bytes(*b"\x89PN", "image/png"),
        Content::from_bytes(*b"RIF", "audio/wav"),
        Content::from_bytes([0, 1], "application/pdf"),
        Content::Resource { uri: "file:///a".into(), media_type: None, body: ResourceBody::Text("A".into()) },
        Content::ResourceLink {
            uri: "file:///c".into(),
            name: "c".into(),
            description: None,
            media_type: None,
        },
        Content::json(json!({"k": null})),
    ];
    let metadata = json!({"_meta": {"cost": 3}, "content": [
        {"index": 0, "annotations": {"audience": ["user"]}, "text": "not this"},
        {"index": 4, "resource": {"_meta": {"etag": "x"}}},
        {"index": 5, "title": "C", "size": 3},
        {"index": 99, "title": "no such block"},
    ]});
    let metadata = serde_json::from_value(metadata).unwrap();
    let output = ToolOutput { content, metadata, ..ToolOutput::default() }.with_warning("rounded");
    let definition = ToolDefinition::new(ToolName::new("all").unwrap(), Schema::object());
    let all = DynamicTool::new(definition, move |_arguments, _cx| {
        let output = output.clone();
        async move { output }
    });
    let mut client = Client::initialized(Toolset::new().with_tool(all)).await;
    let response = client.call("all", json!({})).await;
    assert_eq!(response["result"]["_meta"], json!({"cost": 3}));
    let blocks: Vec<_> =
        response["result"]["content"].as_array().unwrap().iter().map(Value::to_string).collect();
    expect![[r#"
        {"type":"text","text":"a","annotations":{"audience":["user"]}}
        {"type":"image","data":"iVBO","mimeType":"image/png"}
        {"type":"audio","data":"UklG","mimeType":"audio/wav"}
        {"type":"resource","resource":{"uri":"result://content/3","mimeType":"application/pdf","blob":"AAE="}}
        {"type":"resource","resource":{"uri":"file:///a","text":"A","_meta":{"etag":"x"}}}
        {"type":"resource_link","uri":"file:///c","name":"c","title":"C","size":3}
        {"type":"text","text":"{\"k\":null}"}
        {"type":"text","text":"Warning: rounded"}"#]]
    .assert_eq(&blocks.join("\n"));
}

/// MCP requires structured content to be an object. An output schema of another type must therefore
/// be wrapped in an object schema, with adjusted `$ref`s.
#[tokio::test]
async fn output_schema_is_wrapped_in_an_object() {
    let node = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"leaf": {"type": "integer"}},
        "anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "array", "items": {"$ref": "#"}, "default": {"$ref": "#"}}],
    });
    let definition = ToolDefinition::new(ToolName::new("tree").unwrap(), Schema::object())
        .with_output_schema(Schema::new(node).unwrap());
    let tree =
        DynamicTool::new(definition, |_arguments, _cx| async { ToolOutput::structured(json!([1, [2]])) });
    let mut client = Client::initialized(Toolset::new().with_tool(tree)).await;
    client.send(json!({"id": 1, "method": "tools/list"})).await;
    let schema = client.receive().await["result"]["tools"][0]["outputSchema"].clone();
    expect![[r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"result":{"$defs":{"leaf":{"type":"integer"}},"anyOf":[{"$ref":"#/properties/result/$defs/leaf"},{"type":"array","items":{"$ref":"#/properties/result"},"default":{"$ref":"#"}}]}},"required":["result"]}"##]]
    .assert_eq(&schema.to_string());
    let structured = client.call("tree", json!({})).await["result"]["structuredContent"].clone();
    assert_eq!(structured, json!({"result": [1, [2]]}));
    assert!(Schema::new(schema).unwrap().is_valid(&structured));
}

/// Deletes a file.
#[haft_core::tool(requires_approval)]
fn delete(path: String) -> String {
    format!("deleted {path}")
}

/// The state of a suspended call is accepted only unchanged, and only for the same call. A changed
/// state is rejected.
#[tokio::test]
async fn changed_request_state_is_rejected() {
    let mut client = Client::connect(Toolset::new().with_tool(Delete));
    let mut meta = request_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    let mut call = async |path: &str, state: Option<&str>| {
        let mut params = json!({"name": "delete", "arguments": {"path": path}, "_meta": meta});
        if let Some(state) = state {
            params["requestState"] = json!(state);
            params["inputResponses"] = json!({"input": {"action": "accept", "content": {}}});
        }
        client.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
        client.receive().await
    };
    let asked = call("a.txt", None).await["result"].take();
    assert_eq!(asked["resultType"], "input_required");
    let question = &asked["inputRequests"]["input"]["params"];
    assert_eq!(question["message"], r#"Permit the call delete({"path":"a.txt"})?"#);
    let state = asked["requestState"].as_str().unwrap();
    let (head, last) = state.split_at(state.len() - 1);
    let changed = format!("{head}{}", if last == "A" { "B" } else { "A" });
    for (path, state) in [("a.txt", &*changed), ("b.txt", state), ("a.txt", "")] {
        let response = call(path, Some(state)).await;
        let message = response["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("invalid `requestState`"), "{response}");
    }
    let result = call("a.txt", Some(state)).await["result"].take();
    assert_eq!(result["content"][0]["text"], "deleted a.txt");
}

/// A request for an approval shows all arguments. A call with more arguments than it can show is
/// denied without a question.
#[tokio::test]
async fn approval_shows_all_arguments_or_is_denied() {
    let mut client = Client::connect(Toolset::new().with_tool(Delete));
    let mut meta = request_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    for (path, is_asked) in [
        (format!("{}; rm -rf b", "a".repeat(20_000)), true),
        ("\u{202e}".repeat(7_000), true),
        ("\u{202e}".repeat(9_000), false),
        ("a".repeat(70_000), false),
    ] {
        let params = json!({"name": "delete", "arguments": {"path": path}, "_meta": meta});
        client.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
        let result = client.receive().await["result"].take();
        if is_asked {
            let message = result["inputRequests"]["input"]["params"]["message"].as_str().unwrap();
            let shown = crate::hidden_chars::escape_hidden(&json!({"path": path}).to_string());
            assert_eq!(message, format!("Permit the call delete({shown})?"));
        } else {
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("can show 65536 bytes of arguments"), "{text}");
        }
    }
}

/// Asks for a seat.
#[haft_core::tool]
fn seat(#[tool(context)] cx: &haft_core::ToolContext) -> haft_core::call::ToolResponse {
    use haft_core::call::{Decision, Pending, PendingKind, ToolResponse};
    match cx.decision() {
        Some(Decision::Input { value }) => format!("seat {value}").into(),
        _ => ToolResponse::Pending(Pending::new(PendingKind::input("Which seat?"))),
    }
}

/// An invalid or missing answer neither runs the tool again nor ends the server.
#[tokio::test]
async fn invalid_answer_is_handled() {
    let mut client = Client::connect(Toolset::new().with_tool(Seat));
    let mut meta = request_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    let mut call = async |answer: Value, state: &Value| {
        let params = json!({"name": "seat", "arguments": {}, "_meta": meta, "requestState": state,
            "inputResponses": answer});
        client.send(json!({"id": 1, "method": "tools/call", "params": params})).await;
        client.receive().await
    };
    let state = call(Value::Null, &Value::Null).await["result"]["requestState"].take();
    for answer in [json!({"other": {}}), json!({"input": {"action": "Accept"}}), json!({})] {
        let repeated = call(answer, &state).await["result"].take();
        assert_eq!((&repeated["resultType"], &repeated["requestState"]), (&json!("input_required"), &state));
    }
    let wrong = call(json!({"input": {"action": "accept", "content": "12A"}}), &state).await;
    assert_eq!(wrong["result"]["content"][0]["text"], "seat null", "{wrong}");
    let right = call(json!({"input": {"action": "accept", "content": {"value": "12A"}}}), &state).await;
    assert_eq!(right["result"]["content"][0]["text"], "seat \"12A\"", "{right}");
}

/// A client without elicitation gets a denial for a call that needs an approval.
#[tokio::test]
async fn client_without_elicitation_cannot_approve() {
    let mut client = Client::initialized(Toolset::new().with_tool(Delete)).await;
    let result = client.call("delete", json!({"path": "a.txt"})).await["result"].take();
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("it needs an approval"), "{result}");
}

fn numbered_tools(count: usize) -> Toolset {
    let tool = |number| tool_fn(&format!("tool_{number}"), "", |Nothing {}| async move { "own" });
    (0..count).fold(Toolset::new(), |tools, number| tools.with_tool(tool(number)))
}

/// Lists all tools, and returns the names in each page.
async fn pages(client: &mut Client) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        client.send(json!({"id": 2, "method": "tools/list", "params": params})).await;
        let mut result = client.receive().await["result"].take();
        let tools = result["tools"].as_array().unwrap();
        pages.push(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
        cursor = result["nextCursor"].take();
        if cursor.is_null() {
            return pages;
        }
    }
}

/// The list is divided into pages, and an unknown cursor is an error.
#[tokio::test]
async fn tool_list_has_pages() {
    let server = McpServer::new(numbered_tools(5)).with_page_size(2);
    let mut client = Client::initialized(server).await;
    let names = [vec!["tool_0", "tool_1"], vec!["tool_2", "tool_3"], vec!["tool_4"]];
    assert_eq!(pages(&mut client).await, names);
    client.send(json!({"id": 3, "method": "tools/list", "params": {"cursor": "haft-after:gone"}})).await;
    assert_eq!(client.receive().await["error"]["code"], -32602);
}

/// A client of revision 2026-07-28 gets the time during which it may reuse the list.
#[tokio::test]
async fn tool_list_has_a_lifetime() {
    let server = McpServer::new(numbered_tools(1)).with_list_ttl(Duration::from_secs(5));
    let mut client = Client::connect(server);
    client.send(json!({"id": 1, "method": "tools/list", "params": {"_meta": request_meta()}})).await;
    assert_eq!(client.receive().await["result"]["ttlMs"], 5000);
}

/// A handler with a prompt and a tool.
struct Extra;

impl ServerHandler for Extra {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_prompts().build())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_second = page.and_then(|page| page.cursor).is_some();
        let (name, cursor) = if is_second { ("second", None) } else { ("first", Some("more")) };
        let tool = json!({"name": name, "inputSchema": {"type": "object"}});
        Ok(serde_json::from_value(json!({"tools": [tool], "nextCursor": cursor})).unwrap())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        assert_ne!(request.name, "broken");
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("called {}", request.name))]).into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        panic!("no prompt {}", request.name)
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("greeting", Some("Greets."), None)]))
    }
}

/// A handler of `rmcp` adds prompts and tools to a served toolset.
#[tokio::test]
async fn handler_adds_features() {
    let server = McpServer::new(numbered_tools(3)).with_page_size(2).with_handler(Extra);
    let mut client = Client::initialized(server).await;
    let names = [vec!["tool_0", "tool_1"], vec!["tool_2", "first"], vec!["second"]];
    assert_eq!(pages(&mut client).await, names);
    client.send(json!({"id": 3, "method": "prompts/list"})).await;
    assert_eq!(client.receive().await["result"]["prompts"][0]["name"], "greeting");
    let mut text =
        async |name: &str| client.call(name, json!({})).await["result"]["content"][0]["text"].take();
    assert_eq!(text("tool_1").await, "own");
    assert_eq!(text("second").await, "called second");
}

/// A request whose handler panics gets an error response.
#[tokio::test]
async fn panic_of_a_handler_is_an_error_response() {
    let server = McpServer::new(numbered_tools(1)).with_handler(Extra);
    let mut client = Client::initialized(server).await;
    client.send(json!({"id": 3, "method": "prompts/get", "params": {"name": "greeting"}})).await;
    assert_eq!(client.receive().await["error"]["code"], -32603);
    assert_eq!(client.call("broken", json!({})).await["error"]["code"], -32603);
    assert_eq!(client.call("tool_0", json!({})).await["result"]["content"][0]["text"], "own");
}

/// A tool can use the connection to the client.
#[tokio::test]
async fn tool_can_notify_the_client() {
    /// Sends a notification.
    #[haft_core::tool]
    async fn notify(
        #[tool(context)] cx: &haft_core::ToolContext,
    ) -> Result<&'static str, haft_core::ToolError> {
        let peer = cx.state::<Peer<RoleServer>>()?;
        let message =
            json!({"method": "notifications/message", "params": {"level": "info", "data": "hello"}});
        let message = serde_json::from_value(message).map_err(haft_core::ToolError::failed)?;
        peer.send_notification(message).await.map_err(haft_core::ToolError::failed)?;
        Ok("sent")
    }
    let mut client = Client::initialized(Toolset::new().with_tool(Notify)).await;
    assert_eq!(client.call("notify", json!({})).await["params"]["data"], "hello");
    assert_eq!(client.receive().await["result"]["content"][0]["text"], "sent");
}

/// A call to an unknown tool is a protocol error, and the pipeline of the toolset records it.
#[tokio::test]
async fn call_to_an_unknown_tool_is_recorded() {
    struct Names(Arc<Mutex<Vec<String>>>);
    impl Recorder for Names {
        fn record(&self, record: &CallRecord<'_>) {
            self.0.lock().unwrap().push(record.call.name.clone());
        }
    }
    let names = Arc::default();
    let pipeline = Pipeline::new().with_recorder(Names(Arc::clone(&names)));
    let mut client = Client::initialized(Toolset::new().with_pipeline(pipeline)).await;
    assert_eq!(client.call("secret", json!({})).await["error"]["code"], -32602);
    assert_eq!(*names.lock().unwrap(), ["secret"]);
}
