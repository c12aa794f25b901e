//! One life of a server: started, greeted, listed, until it ends.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rmcp::{
    ClientServiceExt as _, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter},
    service::{ClientInitializeError, ClientLifecycleMode, Peer, RunningService},
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    StdioServer,
    connection::Connection,
    process::{Group, StderrTail, Streams},
    wire::{ClientWire, Notices, Patience},
};

/// The longest time for an answer to the question that only a server of the newer era knows.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long after a server's end its last words may take.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A server that was greeted.
pub(crate) struct Session {
    pub(crate) life: Life,
    pub(crate) talk: Talk,
}

/// The server's processes.
pub(crate) struct Life {
    group: Group,
    stderr: StderrTail,
    notices: Arc<Notices>,
}

/// What is said with the server.
pub(crate) struct Talk {
    service: RunningService<RoleClient, ClientConfig>,
    notices: Arc<Notices>,
    pub(crate) connection: Connection,
}

/// How a server is greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// As one of the era of 2026-07-28 if it knows that, else as one of the era before.
    Any,
    /// As one of the era up to 2025-11-25.
    Initialize,
}

/// Why there is no session, and what is left to be ended.
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) remains: Option<Group>,
}

impl Session {
    /// Starts a server and greets it; says which greeting it knows.
    ///
    /// A server of the older era may end when it is asked something before `initialize`: it is started again.
    pub(crate) async fn open(
        server: &StdioServer,
        greeting: Greeting,
        closed: &CancellationToken,
    ) -> Result<(Self, Greeting), Failure> {
        let deadline = Instant::now() + server.handshake_timeout;
        match greet(server, greeting, deadline, closed).await {
            Err(Refusal::Ended { group, .. }) if greeting == Greeting::Any => {
                group.end().await;
                greet(server, Greeting::Initialize, deadline, closed).await.map_err(Failure::from)
            }
            outcome => outcome.map_err(Failure::from),
        }
    }

    /// Ends the talk: open calls fail now, and the server's input closes. Its processes are left to be ended.
    pub(crate) fn hang_up(self) -> Group {
        drop(self.talk);
        self.life.group
    }
}

impl Life {
    /// Waits until the server is gone, and says how it went.
    pub(crate) async fn ended(&mut self) -> String {
        let status = tokio::select! {
            status = self.group.exited() => {
                // What it wrote before is still on its way.
                let _ = timeout(LAST_WORDS, self.notices.ended.cancelled()).await;
                status.ok()
            }
            () = self.notices.ended.cancelled() => {
                timeout(LAST_WORDS, self.group.exited()).await.ok().and_then(Result::ok)
            }
        };
        ending(status, &mut self.stderr).await
    }
}

impl Talk {
    /// Waits until the list of tools changes.
    pub(crate) async fn list_changed(&self) {
        self.notices.list_changed.notified().await;
    }

    /// Whether the server says when its list of tools changes only to who asks for it: one of the newer era. One of
    /// the era before says so unasked.
    pub(crate) fn wants_subscription(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| {
            let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
            tells == Some(true) && !info.protocol_version.has_initialize()
        })
    }

    /// Asks the server to say when its list of tools changes, until that ends. Says whether the server agreed.
    pub(crate) async fn subscribe(&self, patience: Duration) -> bool {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match timeout(patience, self.service.peer().listen(filter)).await {
            Ok(Ok(mut subscription)) => {
                // It may have changed while nobody listened.
                self.notices.list_changed.notify_one();
                // The wire itself hears the notices; here they are only taken out of the way.
                while let Ok(Some(_)) = subscription.next().await {}
                return true;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the server does not say when its tools change"),
            Err(_) => tracing::debug!("the server does not answer a subscription"),
        }
        false
    }
}

/// How a greeting went wrong.
enum Refusal {
    NotStarted(io::Error),
    /// The server ended before it answered.
    Ended {
        group: Group,
        reason: String,
    },
    Failed {
        group: Group,
        reason: String,
    },
}

async fn greet(
    server: &StdioServer,
    greeting: Greeting,
    deadline: Instant,
    closed: &CancellationToken,
) -> Result<(Session, Greeting), Refusal> {
    let (mut group, Streams { stdin, stdout, mut stderr }) =
        Group::spawn(server).map_err(Refusal::NotStarted)?;
    let notices = Arc::new(Notices::default());
    let patience =
        Patience { line_bytes: server.line_bytes, probe: PROBE_TIMEOUT.min(server.handshake_timeout / 3) };
    let wire = ClientWire::new(stdout, stdin, Arc::clone(&notices), patience);
    let greeted = tokio::select! {
        biased;
        () = closed.cancelled() => return Err(Refusal::Failed { group, reason: "it was closed".to_owned() }),
        greeted = timeout_at(deadline, converse(wire, greeting, &notices)) => greeted,
    };
    let reason = match greeted {
        Ok(Ok(service)) => {
            let known = greeting.known_by(service.peer());
            let connection =
                Connection::new(service.peer().clone(), Arc::clone(&notices), server.idle_timeout);
            let talk = Talk { service, notices: Arc::clone(&notices), connection };
            return Ok((Session { life: Life { group, stderr, notices }, talk }, known));
        }
        Ok(Err(
            ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. },
        )) => {
            let status = timeout(LAST_WORDS, group.exited()).await.ok().and_then(Result::ok);
            return Err(Refusal::Ended { group, reason: ending(status, &mut stderr).await });
        }
        Ok(Err(ClientInitializeError::LegacyFallbackFailed { discover, fallback })) => {
            format!("the handshake failed in the words of either era: {discover}; {fallback}")
        }
        Ok(Err(error)) => format!("the handshake failed: {error}"),
        Err(_) => format!("it did not answer the handshake within {:?}", server.handshake_timeout),
    };
    Err(Refusal::Failed { group, reason })
}

/// Greets a server. It is greeted again in the words of its era if that shows only then: one of the newer era that
/// was slow to start has refused the words of the other, and one that knows the first question of the newer era may
/// speak only the older.
async fn converse(
    wire: ClientWire<ChildStdout, ChildStdin>,
    greeting: Greeting,
    notices: &Notices,
) -> Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError> {
    let again = wire.again();
    let mode = match config().serve_with_lifecycle(wire, greeting.mode()).await {
        Err(_) if notices.discovered.load(Ordering::Relaxed) => {
            ClientLifecycleMode::Discover { preferred_versions: newer_era() }
        }
        Err(ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. })
            if server_supported.iter().any(ProtocolVersion::has_initialize) =>
        {
            ClientLifecycleMode::Initialize
        }
        greeted => return greeted,
    };
    config().serve_with_lifecycle(again, mode).await
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotStarted(error) => {
                Self { reason: format!("it cannot be started: {error}"), remains: None }
            }
            Refusal::Ended { group, reason } | Refusal::Failed { group, reason } => {
                Self { reason, remains: Some(group) }
            }
        }
    }
}

impl Greeting {
    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Any => ClientLifecycleMode::Auto {
                preferred_versions: newer_era(),
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Initialize => ClientLifecycleMode::Initialize,
        }
    }

    fn known_by(self, peer: &Peer<RoleClient>) -> Self {
        match peer.peer_info() {
            Some(info) if info.protocol_version.has_initialize() => Self::Initialize,
            _ => self,
        }
    }
}

fn newer_era() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

fn config() -> ClientConfig {
    let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), implementation)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// How a server ended, with the last lines that it had to say.
async fn ending(status: Option<ExitStatus>, stderr: &mut StderrTail) -> String {
    let mut text = match status {
        Some(status) => format!("it ended ({status})"),
        None => "it closed its output".to_owned(),
    };
    if status.and_then(|status| status.code()) == Some(127) {
        text += "; a script that starts other programs needs PATH: name it in the server's environment";
    }
    let last_lines = stderr.last_lines(LAST_WORDS).await;
    if !last_lines.is_empty() {
        text += "; it last wrote:\n";
        text += &last_lines;
    }
    text
}
