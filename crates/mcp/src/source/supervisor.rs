use std::{convert::Infallible, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    StdioServer,
    link::{Link, Status},
    listing::{Bounds, ListError, Listing},
    session::{Failure, Greeting, Session, Talk},
};

/// Waits between attempts: from 250 ms, doubled each time, up to 30 s, without a limit on their
/// number.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(250))
    .with_max_delay(Duration::from_secs(30))
    .without_max_times();

/// Lifetime after which the backoff of a server is reset.
const SETTLED: Duration = Duration::from_secs(10);

/// Minimum time between two list requests.
const REFRESH_GAP: Duration = Duration::from_millis(100);

/// Keeps a server running until its source is dropped.
pub(super) async fn run(
    server: StdioServer,
    link: Link,
    status: watch::Sender<Status>,
    closed: CancellationToken,
) {
    let mut supervisor = Supervisor { server, link, status, closed, greeting: Greeting::Any, listing: None };
    let mut backoff = Backoff::default();
    while !supervisor.closed.is_cancelled() {
        let started = Instant::now();
        let lived = supervisor.live().await;
        let wait = backoff.after(lived, started.elapsed());
        tokio::select! {
            () = supervisor.closed.cancelled() => {}
            () = sleep(wait) => {}
        }
    }
}

struct Supervisor {
    server: StdioServer,
    link: Link,
    status: watch::Sender<Status>,
    closed: CancellationToken,
    greeting: Greeting,
    listing: Option<Listing>,
}

/// The result of an attempt: `Yes` if the tools were available, or the subscription was active.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lived {
    Yes,
    No,
}

impl Supervisor {
    /// Runs the server once, from its start to its end.
    async fn live(&mut self) -> Lived {
        match self.open().await {
            Ok(session) => {
                self.attend(session).await;
                Lived::Yes
            }
            Err(Failure { reason, remains }) => {
                if !self.closed.is_cancelled() {
                    let source = self.link.label();
                    tracing::warn!(source, reason, "an MCP server does not start; it is tried again");
                }
                self.status.send_replace(Status::Failed { reason });
                if let Some(group) = remains {
                    group.end().await;
                }
                Lived::No
            }
        }
    }

    async fn open(&mut self) -> Result<Session, Failure> {
        let (session, greeting) = Session::open(&self.server, self.greeting, &self.closed).await?;
        self.greeting = greeting;
        let closed = self.closed.clone();
        let listed = tokio::select! {
            biased;
            () = closed.cancelled() => Err("it was closed".to_owned()),
            listed = self.list(&session.talk) => listed.map_err(|error| error.to_string()),
        };
        match listed {
            Ok(()) => Ok(session),
            Err(reason) => Err(Failure { reason, remains: Some(session.hang_up()) }),
        }
    }

    async fn list(&mut self, talk: &Talk) -> Result<(), ListError> {
        let bounds = Bounds { timeout: self.server.list_timeout, pages: self.server.list_pages };
        let listing = Listing::read(&talk.connection, &self.link, self.listing.as_ref(), bounds).await?;
        let (connection, tools) = (talk.connection.clone(), listing.tools.clone());
        self.listing = Some(listing);
        self.status.send_replace(Status::Ready { connection, tools });
        Ok(())
    }

    /// Serves a session until the server ends or the source is dropped.
    async fn attend(&mut self, mut session: Session) {
        let closed = self.closed.clone();
        let Session { life, talk } = &mut session;
        let reason = tokio::select! {
            biased;
            () = closed.cancelled() => None,
            reason = life.ended() => Some(reason),
            never = self.follow(talk) => match never {},
        };
        if let (Some(reason), Some(listing)) = (reason, &self.listing) {
            tracing::warn!(source = self.link.label(), reason, "lost an MCP server; it is started again");
            self.status.send_replace(Status::Restarting { tools: listing.tools.clone() });
        }
        session.hang_up().end().await;
    }

    /// Updates the list when the server reports a change. An error leaves the list unchanged.
    async fn follow(&mut self, talk: &Talk) -> Infallible {
        let patience = self.server.list_timeout;
        let refresh = async {
            loop {
                talk.list_changed().await;
                if let Err(error) = self.list(talk).await {
                    tracing::warn!(source = self.link.label(), %error, "a changed list of tools cannot be read");
                }
                // Notifications in the meantime count as one.
                sleep(REFRESH_GAP).await;
            }
        };
        let (_, never) = tokio::join!(listen(talk, patience), refresh);
        never
    }
}

/// Subscribes to list changes if the protocol revision requires it, and renews the subscription.
async fn listen(talk: &Talk, patience: Duration) {
    let mut backoff = Backoff::default();
    while talk.wants_subscription() {
        let asked = Instant::now();
        let lived = if talk.subscribe(patience).await { Lived::Yes } else { Lived::No };
        sleep(backoff.after(lived, asked.elapsed())).await;
    }
}

/// The wait before the next attempt.
struct Backoff {
    waits: <ExponentialBuilder as BackoffBuilder>::Backoff,
    has_failed: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { waits: BACKOFF.build(), has_failed: false }
    }
}

impl Backoff {
    fn after(&mut self, lived: Lived, age: Duration) -> Duration {
        if lived == Lived::Yes && age >= SETTLED {
            *self = Self::default();
        }
        let wait = self.waits.next().unwrap_or_default();
        // A server that worked is restarted at once.
        let is_immediate = lived == Lived::Yes && !self.has_failed;
        self.has_failed = true;
        if is_immediate { Duration::ZERO } else { wait }
    }
}

#[cfg(test)]
mod tests;
