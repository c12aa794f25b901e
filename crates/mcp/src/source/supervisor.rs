use std::{convert::Infallible, time::Duration};

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

/// The first wait before another attempt; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A server that lived for so long did not die of being started.
const SETTLED: Duration = Duration::from_secs(10);

/// How long after a list was read the next one is asked for at the earliest.
const REFRESH_GAP: Duration = Duration::from_millis(100);

/// Keeps a server running until its source is gone.
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

/// Whether an attempt came so far that the tools could be called, or a subscription so far that there was one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lived {
    Yes,
    No,
}

impl Supervisor {
    /// One life of the server, from its start to its end.
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

    /// Stays with a server until it ends or its source is gone.
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

    /// Reads the list again whenever the server says that it changed. What cannot be read leaves it as it was.
    async fn follow(&mut self, talk: &Talk) -> Infallible {
        let patience = self.server.list_timeout;
        let refresh = async {
            loop {
                talk.list_changed().await;
                if let Err(error) = self.list(talk).await {
                    tracing::warn!(source = self.link.label(), %error, "a changed list of tools cannot be read");
                }
                // What is said meanwhile is said once.
                sleep(REFRESH_GAP).await;
            }
        };
        let (_, never) = tokio::join!(listen(talk, patience), refresh);
        never
    }
}

/// Sees to it that the server says when its list changes, where it has to be asked.
async fn listen(talk: &Talk, patience: Duration) {
    let mut backoff = Backoff::default();
    while talk.wants_subscription() {
        let asked = Instant::now();
        let lived = if talk.subscribe(patience).await { Lived::Yes } else { Lived::No };
        sleep(backoff.after(lived, asked.elapsed())).await;
    }
}

/// How long is waited before the next attempt.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn after(&mut self, lived: Lived, age: Duration) -> Duration {
        if lived == Lived::Yes && age >= SETTLED {
            self.failures = 0;
        }
        // A server that worked is wanted back at once.
        let wait = match (lived, self.failures) {
            (Lived::Yes, 0) => Duration::ZERO,
            (_, failures) => FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_WAIT),
        };
        self.failures += 1;
        wait
    }
}

#[cfg(test)]
mod tests;
