//! Integration tests of `haft-server`, over HTTP on the loopback interface.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "notes for the reader of a test run")]

mod chat;
mod clients;
mod description;
mod kills;
mod load;
mod metrics;
// The server of the tests of `haft-session`.
#[path = "../../../session/tests/it/server.rs"]
mod postgres;
mod runs;
mod tools;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{ToolContext, ToolError, Toolset, tool};
use haft_http::{
    server::AccessConfig,
    tls::{RootCertificates, client_config},
};
use haft_react::ReactAgent;
use haft_server::{Server, ServerBuilder};
use haft_session::SqlStore;
use haft_testing::ScriptedModel;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Pays an amount.
#[tool(requires_approval)]
fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

/// Waits until the run is cancelled.
#[tool]
async fn hang(#[tool(context)] cx: &ToolContext) -> Result<String, ToolError> {
    cx.cancellation().cancelled().await;
    Err(ToolError::Cancelled)
}

fn toolset() -> Toolset {
    Toolset::new().with_tool(Add).with_tool(Pay).with_tool(Hang)
}

/// Returns the path for the file of a store, in a folder that is deleted when it is dropped.
fn store_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haft.db");
    (folder, path)
}

/// A server on a port of its own.
struct TestServer {
    base: String,
    client: Client,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server with the store at `path`, or without a store.
    async fn start(model: &ScriptedModel, path: Option<&Path>) -> Self {
        Self::with_access(model, path, AccessConfig::default()).await
    }

    async fn with_access(model: &ScriptedModel, path: Option<&Path>, access: AccessConfig) -> Self {
        Self::build(model, path, |builder| builder.access(access)).await
    }

    async fn build(
        model: &ScriptedModel,
        path: Option<&Path>,
        configure: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let builder = configure(Server::builder(ReactAgent::builder(model.clone()).tools(toolset())));
        let builder = match path {
            Some(path) => builder.store(Arc::new(SqlStore::open_file(path).await.unwrap())),
            None => builder,
        };
        Self::serve(builder.build().unwrap()).await
    }

    async fn serve(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (shutdown, ended) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            server.serve(listener, async move { drop(ended.await) }).await.unwrap();
        });
        let tls = client_config(RootCertificates::None).unwrap();
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        Self { base, client, shutdown: Some(shutdown), task }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.base))
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.base));
        request.header("content-type", "application/json").body(body.to_string())
    }

    /// Stops the server in order.
    async fn stop(mut self) {
        drop(self.shutdown.take());
        self.task.await.unwrap();
    }
}

/// Sends a request, and returns the status and the JSON body.
async fn send(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Reads the events of a response until its end: the ids and the data.
async fn events(response: Response) -> Vec<(u64, Value)> {
    let text = response.text().await.unwrap();
    let mut events = Vec::new();
    let mut id = 0;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("id: ") {
            id = number.parse().unwrap();
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((id, serde_json::from_str(data).unwrap()));
        }
    }
    events
}
