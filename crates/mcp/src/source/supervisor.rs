use std::{convert::Infallible, future, ops::RangeInclusive, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::FutureExt as _;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    ServerConfig,
    connection_handle::{ConnectionHandle, SourceStatus},
    listing::{ListError, ListLimits, Listing},
    session::{HandshakeMode, ServerClient, Session, StartError},
};

/// The delays between attempts to run the server or to subscribe. They begin with 250 ms and double
/// up to 30 s. The number of attempts is unlimited.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(250))
    .with_max_delay(Duration::from_secs(30))
    .without_max_times();

/// The minimum duration of a successful attempt that resets the backoff.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(10);

/// The minimum time between two refreshes of the tool list.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// The minimum time between two checks of an expired tool list whose subscription is open.
const SUBSCRIPTION_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum and the maximum of the time to live of a tool list. A server may send 0, or many
/// years.
const LIST_TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// Starts `server` and restarts it whenever it exits, until the source is dropped.
pub(super) async fn supervise(
    server: ServerConfig,
    handle: ConnectionHandle,
    status: watch::Sender<SourceStatus>,
    closed: CancellationToken,
    listed: Arc<Notify>,
) {
    let handshake = HandshakeMode::Auto;
    let mut supervisor = Supervisor { server, handle, status, closed, listed, handshake, listing: None };
    supervisor.wait_until_needed().await;
    let mut backoff = Backoff::default();
    while !supervisor.closed.is_cancelled() {
        let started = Instant::now();
        let attempt = supervisor.run_once().await;
        let delay = backoff.next_delay(attempt, started.elapsed());
        tokio::select! {
            () = supervisor.closed.cancelled() => {}
            () = sleep(delay) => {}
        }
    }
    supervisor.status.send_replace(SourceStatus::closed());
}

struct Supervisor {
    server: ServerConfig,
    handle: ConnectionHandle,
    status: watch::Sender<SourceStatus>,
    closed: CancellationToken,
    /// Notified at each listing of the source.
    listed: Arc<Notify>,
    handshake: HandshakeMode,
    listing: Option<Listing>,
}

/// The result of an attempt to run the server, or to subscribe to changes of its tool list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The server listed its tools, or accepted the subscription.
    Succeeded,
    Failed,
}

impl Supervisor {
    /// Offers the accepted definitions of the tools, and waits until a call needs the server.
    /// Returns immediately if the start is not lazy, or if no definitions are accepted.
    async fn wait_until_needed(&self) {
        let options = self.server.options();
        let pins = options.pins.clone().filter(|_| options.lazy_start);
        let Some(pins) = pins else { return };
        let tools = match Listing::accepted(&self.handle, pins, &options.into()).await {
            Ok(Some(tools)) => tools,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(source = self.handle.label(), %error, "cannot read the accepted definitions");
                return;
            }
        };
        self.status.send_replace(SourceStatus::Idle { tools: tools.clone() });
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = self.handle.wait_until_needed() => {}
        }
        self.status.send_replace(SourceStatus::Restarting { tools });
    }

    /// Starts the server and runs it until it exits or the source is dropped. Returns
    /// [`Attempt::Failed`] if the server did not start or did not list its tools.
    async fn run_once(&mut self) -> Attempt {
        match self.open().await {
            Ok(session) => {
                self.serve(session).await;
                Attempt::Succeeded
            }
            Err(StartError { reason, group, .. }) => {
                self.handshake = HandshakeMode::Auto;
                if !self.closed.is_cancelled() {
                    let source = self.handle.label();
                    tracing::warn!(source, reason, "an MCP server failed to start; retrying");
                }
                self.status.send_replace(SourceStatus::Failed { reason });
                if let Some(group) = group {
                    group.terminate().await;
                }
                Attempt::Failed
            }
        }
    }

    async fn open(&mut self) -> Result<Session, StartError> {
        let (session, handshake) = Session::open(&self.server, self.handshake, &self.closed).await?;
        self.handshake = handshake;
        let closed = self.closed.clone();
        let listed = tokio::select! {
            biased;
            () = closed.cancelled() => Err("the source was closed".to_owned()),
            listed = self.update_list(&session.client) => listed.map_err(|error| error.to_string()),
        };
        match listed {
            Ok(()) => Ok(session),
            Err(reason) => {
                let group = session.disconnect().await;
                Err(StartError { group, ..StartError::without_process(reason) })
            }
        }
    }

    async fn update_list(&mut self, client: &ServerClient) -> Result<(), ListError> {
        let limits = ListLimits::from(self.server.options());
        let previous = self.listing.as_ref();
        let listing = Listing::fetch(&client.connection, &self.handle, previous, limits).await?;
        let (connection, tools) = (Arc::clone(&client.connection), listing.tools.clone());
        self.listing = Some(listing);
        self.status.send_replace(SourceStatus::Ready { connection, tools });
        Ok(())
    }

    /// Keeps `session` open until the server exits or the source is dropped, and then terminates
    /// the server.
    async fn serve(&mut self, mut session: Session) {
        let closed = self.closed.clone();
        let (end, client) = session.parts();
        let reason = tokio::select! {
            biased;
            () = closed.cancelled() => None,
            reason = end.wait() => Some(reason),
            reason = check_health(client, self.server.options().ping_interval) => Some(reason),
            never = self.keep_refreshed(client) => match never {},
        };
        if let (Some(reason), Some(listing)) = (reason, &self.listing) {
            tracing::warn!(source = self.handle.label(), reason, "lost an MCP server; restarting it");
            self.status.send_replace(SourceStatus::Restarting { tools: listing.tools.clone() });
        }
        session.close().await;
    }

    /// Fetches the tool list after each change notification, and when an expired or partial list is
    /// used. The previous list is kept if the request fails.
    async fn keep_refreshed(&mut self, client: &ServerClient) -> Infallible {
        let ack_timeout = self.server.options().list_timeout;
        let refresh = async {
            let mut partial_delays = Backoff::default();
            loop {
                let listing = self.listing.as_ref();
                let stale_use = async {
                    match listing.is_some_and(|listing| listing.is_partial) {
                        true => {
                            sleep(partial_delays.next_delay(Attempt::Failed, Duration::ZERO)).await;
                            self.listed.notified().await;
                        }
                        false => {
                            partial_delays = Backoff::default();
                            wait_for_expired_use(client, listing.and_then(|it| it.ttl), &self.listed).await;
                        }
                    }
                };
                tokio::select! {
                    () = client.wait_for_list_change() => {}
                    () = stale_use => {}
                }
                if let Err(error) = self.update_list(client).await {
                    tracing::warn!(source = self.handle.label(), %error, "cannot refresh the tool list");
                }
                // All notifications during this pause cause a single refresh.
                sleep(MIN_REFRESH_INTERVAL).await;
            }
        };
        let (_, never) = tokio::join!(keep_subscribed(client, ack_timeout), refresh);
        never
    }
}

/// Pings the server at each `interval`. Returns an error message when the server does not respond.
async fn check_health(client: &ServerClient, interval: Option<Duration>) -> String {
    match interval {
        Some(interval) => client.connection.check_health(interval).await,
        None => future::pending().await,
    }
}

/// Waits until the tool list is used, that is until `listed` is notified, after its time to live
/// `ttl` has elapsed. A subscription replaces the time to live.
async fn wait_for_expired_use(client: &ServerClient, ttl: Option<Duration>, listed: &Notify) {
    let Some(ttl) = ttl.filter(|_| client.has_list_ttl()) else { return future::pending().await };
    sleep_until(Instant::now() + ttl.clamp(*LIST_TTL.start(), *LIST_TTL.end())).await;
    // Removes the notification of a listing before the expiry.
    let _ = listed.notified().now_or_never();
    loop {
        listed.notified().await;
        if !client.is_subscribed() {
            return;
        }
        // Each call of a tool lists the tools. It must not wake this task each time.
        sleep(SUBSCRIPTION_CHECK_INTERVAL).await;
    }
}

/// Subscribes to changes of the tool list if the server
/// [requires](ServerClient::needs_subscription) a subscription. Renews the subscription whenever it
/// ends.
async fn keep_subscribed(client: &ServerClient, ack_timeout: Duration) {
    let mut backoff = Backoff::default();
    while client.needs_subscription() {
        let started = Instant::now();
        let is_acknowledged = client.hold_subscription(ack_timeout).await;
        let attempt = if is_acknowledged { Attempt::Succeeded } else { Attempt::Failed };
        sleep(backoff.next_delay(attempt, started.elapsed())).await;
    }
}

/// The backoff between two runs of the server, or between two subscriptions.
struct Backoff {
    delays: <ExponentialBuilder as BackoffBuilder>::Backoff,
    has_retried: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { delays: BACKOFF.build(), has_retried: false }
    }
}

impl Backoff {
    fn next_delay(&mut self, attempt: Attempt, duration: Duration) -> Duration {
        if attempt == Attempt::Succeeded && duration >= BACKOFF_RESET_AFTER {
            *self = Self::default();
        }
        let delay = self.delays.next().unwrap_or_default();
        // The first retry is immediate if `attempt` succeeded.
        let is_immediate = attempt == Attempt::Succeeded && !self.has_retried;
        self.has_retried = true;
        if is_immediate { Duration::ZERO } else { delay }
    }
}

#[cfg(test)]
mod tests;
