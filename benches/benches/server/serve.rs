//! The server processes of the bench.

use std::{
    fmt,
    io::{self, Read as _},
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use haft_core::{
    ChatModel, ToolCall, Toolset,
    message::{AssistantMessage, MessageBody},
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool,
};
use haft_http::server::ListenerConfig;
use haft_react::ReactAgent;
use haft_server::Server;
use haft_session::{SessionStore, SqlStore};
use tokio::{net::TcpListener, sync::oneshot, time::sleep};

use crate::{Failure, bare, postgres, process::allow_many_files};

/// The answer of the model: 100 bytes.
pub(crate) const ANSWER: &str = "The order was packed on Monday, left the warehouse on Tuesday, and arrives at \
                                 your door on a Friday.";

/// A question of 100 bytes.
pub(crate) const QUESTION: &str =
    "Where is the order that I placed last week? It should have been delivered by now, and I wait for it.";

/// The output of the tool `look_up`: 200 bytes, with the number of the order.
pub(crate) const RECORD: &str = "order 17: packed Monday 09:12, left the warehouse Tuesday 06:30, customs cleared \
                      Wednesday 14:05, expected Friday before noon; one parcel of 2.4 kg, insured, \
                      a signature is required at delivery; no ";

/// The maximum number of connections of a server. All clients of the bench have one address.
const MAX_CONNECTIONS: usize = 4096;

/// The line that a server prints instead of its address if its store is not installed.
pub(crate) const MISSING: &str = "missing";

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// axum handlers without haft.
    Bare,
    /// haft without a store.
    NoStore,
    Sqlite,
    Postgres,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Bare, Self::NoStore, Self::Sqlite, Self::Postgres];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare axum",
            Self::NoStore => "haft, no store",
            Self::Sqlite => "haft, SQLite",
            Self::Postgres => "haft, PostgreSQL",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mode = Self::ALL.into_iter().find(|mode| mode.name() == name);
        mode.ok_or_else(|| format!("there is no server {name:?}"))
    }
}

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Returns the record of an order.
#[tool]
fn look_up(order: u64) -> String {
    format!("{RECORD}{order}")
}

/// A model that gives the same answer to each question. If tools are offered, it calls `look_up`
/// first. It stores no requests, unlike `ScriptedModel`.
struct Orders {
    profile: ModelProfile,
    latency: Duration,
    requests: Arc<AtomicU64>,
}

#[async_trait]
impl ChatModel for Orders {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if !self.latency.is_zero() {
            sleep(self.latency).await;
        }
        let last = request.messages.iter().last();
        let is_question = last.is_some_and(|message| matches!(message.body(), MessageBody::User { .. }));
        if !is_question || request.tools.tools().is_empty() {
            return Ok(ChatResponse::new(ANSWER));
        }
        let call = ToolCall::new(format!("call_{number}"), "look_up", r#"{"order": 17}"#);
        Ok(ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() }))
    }
}

/// Serves until standard input closes. Prints the address, or [`MISSING`], and at the end the number
/// of requests that reached the model. The file of SQLite is in `folder`.
pub(crate) async fn serve(mode: Mode, folder: &Path, latency: Duration) -> Result<(), Failure> {
    allow_many_files()?;
    let store: Option<Arc<dyn SessionStore>> = match mode {
        Mode::Bare | Mode::NoStore => None,
        Mode::Sqlite => Some(Arc::new(SqlStore::open_file(folder.join("haft.db")).await?)),
        Mode::Postgres => match postgres::create_database().await {
            Some(url) => Some(Arc::new(SqlStore::open(&url).await?)),
            None => {
                println!("{MISSING}");
                return Ok(());
            }
        },
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (sender, closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        drop(sender);
    });
    let shutdown = async move { drop(closed.await) };
    let requests = Arc::new(AtomicU64::new(0));
    if mode == Mode::Bare {
        axum::serve(listener, bare::router()).with_graceful_shutdown(shutdown).await?;
    } else {
        let profile = ModelProfile::new("orders");
        let model = Orders { profile, latency, requests: Arc::clone(&requests) };
        let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(Add).with_tool(LookUp));
        let limits = ListenerConfig::default()
            .with_max_connections(MAX_CONNECTIONS)
            .with_max_connections_per_address(MAX_CONNECTIONS);
        let mut builder = Server::builder(agent).listener(limits);
        if let Some(store) = store {
            builder = builder.store(store);
        }
        builder.build()?.serve(listener, shutdown).await?;
    }
    println!("{}", requests.load(Ordering::Relaxed));
    Ok(())
}
