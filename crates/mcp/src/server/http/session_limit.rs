use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ::http::HeaderMap;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::{access::SESSION_HEADER, client::ClientKey};

/// The maximum number of sessions, of all clients and of each client.
pub(super) struct SessionLimit {
    max: usize,
    max_per_client: usize,
    sessions: Arc<LocalSessionManager>,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    /// The clients by the ids of their sessions. A session that has ended is removed when the next
    /// one is opened.
    by_session: HashMap<String, ClientKey>,
    /// The clients of the requests in progress that may open a session.
    opening: Vec<ClientKey>,
}

/// The permission to open a session. It is held until the session exists.
pub(super) struct OpeningSession<'a> {
    limit: &'a SessionLimit,
    client: ClientKey,
}

/// The reason why a session is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooManySessions {
    OfAllClients,
    OfClient,
}

impl SessionLimit {
    pub(super) fn new(max: usize, max_per_client: usize, sessions: Arc<LocalSessionManager>) -> Self {
        Self { max, max_per_client, sessions, clients: Mutex::default() }
    }

    /// Returns the permission to open a session for `client`. Clients without an address share no
    /// limit per client.
    pub(super) async fn open(&self, client: ClientKey) -> Result<OpeningSession<'_>, TooManySessions> {
        let sessions = self.sessions.sessions.read().await;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.by_session.retain(|id, _| sessions.contains_key(id.as_str()));
        if sessions.len() + clients.opening.len() >= self.max {
            return Err(TooManySessions::OfAllClients);
        }
        let all = clients.by_session.values().chain(&clients.opening);
        if client != ClientKey::Unknown && all.filter(|it| **it == client).count() >= self.max_per_client {
            return Err(TooManySessions::OfClient);
        }
        // Counted before the session exists, so that concurrent requests cannot exceed the maximum.
        clients.opening.push(client.clone());
        Ok(OpeningSession { limit: self, client })
    }
}

impl OpeningSession<'_> {
    /// Records the session in `headers`, the headers of the response.
    pub(super) fn record(&self, headers: &HeaderMap) {
        let session = headers.get(SESSION_HEADER).and_then(|session| session.to_str().ok());
        if let Some(session) = session {
            let mut clients = self.limit.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.by_session.insert(session.to_owned(), self.client.clone());
        }
    }
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        let mut clients = self.limit.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = clients.opening.iter().position(|client| *client == self.client) {
            clients.opening.swap_remove(index);
        }
    }
}
