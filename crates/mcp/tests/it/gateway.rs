use haft_core::{Toolset, tool::Principal, toolset::ListContext};
use haft_mcp::{
    HttpServiceConfig, McpServer, McpSource, ToolFilter,
    gateway::{GatewayClient, GatewayConfig},
};
use serde_json::json;

use crate::{http_serving::serve, server};

async fn names(tools: &Toolset) -> Vec<String> {
    let list = tools.list(&ListContext::default()).await;
    list.tools().iter().map(|tool| tool.definition().name().to_string()).collect()
}

/// Each client of a gateway sees and calls its own tools only. A call passes through both servers.
#[tokio::test(flavor = "multi_thread")]
async fn client_of_a_gateway_has_its_own_tools() {
    let client = |pattern, token| GatewayClient::new(ToolFilter::allow([pattern])).with_token(token);
    let config = GatewayConfig::default()
        .with_client("ann", client("first_*", "token-of-ann"))
        .with_client("ben", client("second_*", "token-of-ben"));
    let first = McpSource::connect("first", server("modern")).await.unwrap();
    let second = McpSource::connect("second", server("legacy")).await.unwrap();
    let tools = config.toolset([("first", first), ("second", second)]).unwrap();
    let served = serve(tools, config.http_config(HttpServiceConfig::default())).await;

    for (token, own, foreign) in
        [("token-of-ann", "first_add", "second_add"), ("token-of-ben", "second_add", "first_add")]
    {
        let source = McpSource::connect("gateway", served.client().with_bearer_token(token)).await.unwrap();
        let tools = Toolset::new().with_source(source);
        let names = names(&tools).await;
        assert!(names.iter().any(|name| name == own) && !names.iter().any(|name| name == foreign));
        let sum = tools.call(own, json!({"x": 2, "y": 3})).await;
        assert_eq!(sum.model_text(), "5");
        // The client of this source does not know the tool, so the request is sent directly.
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": foreign, "arguments": {"x": 2, "y": 3}, "_meta": {}},
        });
        let headers = format!(
            "Host: localhost\r\nAuthorization: Bearer {token}\r\nMCP-Protocol-Version: 2025-11-25\r\n"
        );
        let response = served.post(&headers, &body.to_string()).await;
        assert!(!response.contains("\"5\""), "{response}");
    }
    assert!(McpSource::connect("gateway", served.client()).await.is_err());
    served.stop().await;
}

/// The principal of a server applies to a client over standard input and output.
#[tokio::test]
async fn principal_of_a_server_selects_the_rules() {
    let config =
        GatewayConfig::default().with_client("ann", GatewayClient::new(ToolFilter::allow(["files_add"])));
    let files = McpSource::connect("files", server("modern")).await.unwrap();
    let tools = config.toolset([("files", files)]).unwrap();
    let principal = Principal { id: "ann".to_owned(), ..Principal::default() };
    let (client, peer) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(peer);
    let serving =
        tokio::spawn(haft_mcp::serve(McpServer::new(tools).with_principal(principal), reader, writer));
    let service = rmcp::serve_client((), client).await.unwrap();
    let source = McpSource::from_service(service).await.unwrap();
    assert_eq!(names(&Toolset::new().with_source(source)).await, ["files_add"]);
    serving.abort();
}
