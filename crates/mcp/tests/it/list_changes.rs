use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use haft_core::{
    ToolSource, Toolset, tool_fn,
    toolset::{ListContext, SourceError, ToolList},
};
use haft_mcp::{HttpServiceConfig, McpServer, McpSource};
use rmcp::{ClientHandler, RoleClient, service::NotificationContext};
use serde_json::{Map, Value};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::http_serving::serve;

/// A source whose tools change.
#[derive(Clone)]
struct Changing(Arc<Mutex<ToolList>>);

impl Changing {
    fn new(names: &[&str]) -> Self {
        Self(Arc::new(Mutex::new(list(names))))
    }

    fn set(&self, names: &[&str]) {
        *self.0.lock().unwrap() = list(names);
    }
}

fn list(names: &[&str]) -> ToolList {
    let tool = |name: &&str| tool_fn(name, "A tool.", |_: Map<String, Value>| async { "done" });
    ToolList::new("changing", names.iter().map(tool))
}

#[async_trait]
impl ToolSource for Changing {
    fn label(&self) -> &str {
        "changing"
    }

    async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

/// A client of revision 2026-07-28 subscribes to the changes of a served toolset.
#[tokio::test(flavor = "multi_thread")]
async fn subscriber_sees_changes_of_a_served_toolset() {
    let changing = Changing::new(&["first"]);
    let served = serve(Toolset::new().with_source(changing.clone()), HttpServiceConfig::default()).await;
    let source = McpSource::connect("served", served.client()).await.unwrap();
    let tools = Toolset::new().with_source(source);
    assert_eq!(tools.names().await, ["first"]);
    changing.set(&["first", "second"]);
    timeout(Duration::from_secs(20), async {
        while tools.names().await.len() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    drop(tools);
    served.stop().await;
}

struct Listener(Arc<Notify>);

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _cx: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

/// A client of an earlier revision receives `notifications/tools/list_changed`.
#[tokio::test]
async fn session_is_notified_of_changes_of_a_served_toolset() {
    tokio::time::pause();
    let changing = Changing::new(&["first"]);
    let server = McpServer::new(Toolset::new().with_source(changing.clone()));
    let (client, peer) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(peer);
    let serving = tokio::spawn(haft_mcp::serve(server, reader, writer));
    let changed = Arc::new(Notify::new());
    let client = rmcp::serve_client(Listener(Arc::clone(&changed)), client).await.unwrap();
    let capabilities = client.peer_info().unwrap().capabilities.clone();
    assert_eq!(capabilities.tools.unwrap().list_changed, Some(true));
    // The first comparison has no earlier list.
    sleep(Duration::from_secs(2)).await;
    changing.set(&["second"]);
    timeout(Duration::from_secs(20), changed.notified()).await.unwrap();
    client.cancel().await.unwrap();
    serving.await.unwrap().unwrap();
}
