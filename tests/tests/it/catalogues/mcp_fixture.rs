//! Loads the catalogues in `tests/catalogues` and sends their tools over MCP.

use std::{fs, path::Path};

use haft_core::{
    ToolSource as _, Toolset,
    toolset::{ListContext, ToolList},
};
use haft_mcp::{McpSource, serve};
use rmcp::ServiceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

/// The recorded tools of one MCP server.
#[derive(Deserialize)]
pub(crate) struct Catalogue {
    pub(super) package: String,
    pub(crate) tools: Vec<Value>,
}

impl Catalogue {
    /// Loads all catalogues, in the order of their file names.
    pub(super) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogues");
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        paths.sort();
        paths.iter().map(|path| Self::read_path(path)).collect()
    }

    /// Loads the catalogue with the file name `name`.
    pub(crate) fn read(name: &str) -> Self {
        Self::read_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogues").join(name))
    }

    fn read_path(path: &Path) -> Self {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

/// The client side or the server side of an MCP connection. Messages are JSON lines.
struct Peer {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }
}

/// Serves `tools` over MCP without changes, and connects haft to this server. Returns the tool
/// source, which owns the connection, and its list of tools.
pub(crate) async fn list_over_mcp(tools: Vec<Value>) -> (McpSource, ToolList) {
    let (client, server) = duplex(1 << 20);
    tokio::spawn(serve_tools(Peer::new(server), tools));
    let source = McpSource::from_service(().serve(client).await.unwrap()).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    (source, list)
}

/// Responds to `client` as a minimal MCP server with the unchanged `tools`.
async fn serve_tools(mut client: Peer, tools: Vec<Value>) {
    let info = json!({"name": "catalogue", "version": "1"});
    let greeting =
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info});
    while let Some(request) = client.receive().await {
        let result = match request["method"].as_str() {
            Some("initialize") => greeting.clone(),
            Some("tools/list") => json!({"tools": tools}),
            _ => continue,
        };
        client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }
}

/// Serves `tools` over MCP with haft. Returns the tool definitions received by a client.
pub(super) async fn serve_over_mcp(tools: Toolset) -> Vec<Value> {
    let (client, server) = duplex(1 << 20);
    let (reader, writer) = split(server);
    let serving = tokio::spawn(serve(tools, reader, writer));
    let mut server = Peer::new(client);
    let info = json!({"name": "catalogue", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    server.receive().await.unwrap();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    let mut reply = server.receive().await.unwrap();
    drop(server);
    serving.await.unwrap().unwrap();
    serde_json::from_value(reply["result"]["tools"].take()).unwrap()
}
