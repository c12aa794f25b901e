use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use haft_core::export::schemars::{self, JsonSchema};
use haft_core::{
    Tool as _, ToolContext, ToolError, ToolExt as _, ToolSource as _, Toolset, call::FailureKind,
    tool::DynamicTool, tool_fn, toolset::ListContext,
};
use haft_mcp::{McpSource, NotConnected, ServeError, mcp_tool, serve};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    service::RunningService,
    transport::{Transport, async_rw::AsyncRwTransport},
};
use serde_json::json;
use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, duplex, split},
    task::JoinHandle,
    time::timeout,
};

#[derive(serde::Deserialize, JsonSchema)]
struct Add {
    x: i64,
    y: i64,
}

fn add() -> DynamicTool {
    tool_fn("add", "Adds.", |Add { x, y }| async move { x + y })
}

/// Serves `tools` and connects an rmcp client to the server. Returns the connection and the server
/// task.
async fn connect(tools: Toolset) -> (RunningService<RoleClient, ()>, JoinHandle<Result<(), ServeError>>) {
    let (client, server) = duplex(1 << 16);
    let (reader, writer) = split(server);
    let server = tokio::spawn(serve(tools, reader, writer));
    (().serve(client).await.unwrap(), server)
}

async fn running_service() -> RunningService<RoleClient, ()> {
    connect(Toolset::new().with_tool(add())).await.0
}

/// An existing rmcp connection can be used as a source.
#[tokio::test]
async fn existing_connection_is_a_source() {
    let source = McpSource::from_service(running_service().await).await.unwrap();
    assert_eq!(source.label(), "mcp:haft");
    let list = source.tools(&ListContext::default()).await.unwrap();
    let add = list.get("add").unwrap();
    assert_eq!(add.invoke(json!({"x": 17, "y": 25})).await.model_text(), "42");
    drop(source);
    let failure = add.invoke(json!({"x": 1, "y": 1})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "mcp:haft is closed"));
}

/// `close` must wait until the connection is closed on both sides.
#[tokio::test]
async fn close_waits_for_the_connection() {
    let (service, server) = connect(Toolset::new()).await;
    let source = McpSource::from_service(service).await.unwrap();
    timeout(Duration::from_secs(5), source.close()).await.unwrap();
    timeout(Duration::from_secs(5), server).await.unwrap().unwrap().unwrap();
}

/// After the connection is lost, calls fail immediately with an error caused by `NotConnected`.
#[tokio::test]
async fn lost_connection_fails_calls_immediately() {
    let (service, server) = connect(Toolset::new().with_tool(add())).await;
    let source = McpSource::from_service(service).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    server.abort();
    let closed = async {
        while source.tools(&ListContext::default()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), closed).await.unwrap();
    let error = source.tools(&ListContext::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "tool source mcp:haft: the connection is closed");
    let cx = ToolContext::default();
    let call = list.get("add").unwrap().call(json!({"x": 1, "y": 2}), &cx);
    match timeout(Duration::from_secs(1), call).await.unwrap().unwrap_err() {
        ToolError::Failed { message, source: Some(source) } => {
            assert_eq!(message, "mcp:haft is closed");
            assert_eq!(source.downcast_ref::<NotConnected>().unwrap().source_label, "mcp:haft");
        }
        other => panic!("{other:?}"),
    }
}

/// A transport that sends each tool call, and then returns an error as if the call had not been
/// sent.
///
/// The HTTP transport of rmcp behaves in this way if the response to a call is lost.
struct SendThenFail {
    inner: AsyncRwTransport<RoleClient, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>,
    calls: Arc<AtomicU32>,
}

impl Transport<RoleClient> for SendThenFail {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let is_call = serde_json::to_value(&message).unwrap()["method"] == "tools/call";
        self.calls.fetch_add(is_call.into(), Ordering::Relaxed);
        let sending = self.inner.send(message);
        async move {
            sending.await?;
            if is_call { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.inner.receive().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

/// A call that the server may have received is not repeated.
#[tokio::test]
async fn possibly_received_call_is_not_repeated() {
    let (client, server) = duplex(1 << 16);
    let (reader, writer) = split(server);
    tokio::spawn(serve(Toolset::new().with_tool(add()), reader, writer));
    let (reader, writer) = split(client);
    let calls = Arc::new(AtomicU32::new(0));
    let inner = AsyncRwTransport::new_client(reader, writer);
    let service = ().serve(SendThenFail { inner, calls: Arc::clone(&calls) }).await.unwrap();
    let tools = Toolset::new().with_source(McpSource::from_service(service).await.unwrap());
    let failure = tools.call("add", json!({"x": 1, "y": 2})).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unconfirmed);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// `mcp_tool` creates a single tool on an existing rmcp connection.
#[tokio::test]
async fn mcp_tool_calls_one_tool_of_a_connection() {
    let service = running_service().await;
    let listed = service.peer().list_tools(None).await.unwrap();
    let add = mcp_tool(service.peer(), &listed.tools[0]).unwrap();
    assert_eq!(add.invoke(json!({"x": 17, "y": 25})).await.model_text(), "42");
    service.cancel().await.unwrap();
    let failure = add.invoke(json!({"x": 1, "y": 1})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "mcp:haft is closed"));
}
