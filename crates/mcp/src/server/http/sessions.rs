use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ::http::HeaderMap;
use haft_http::server::ClientKey;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

/// The header with the id of a session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// The clients of the sessions, and the maximum number of sessions of all clients and of each
/// client.
pub(super) struct Sessions {
    max: usize,
    max_per_client: usize,
    manager: Arc<LocalSessionManager>,
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
    sessions: &'a Sessions,
    client: ClientKey,
}

/// The reason why a session is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooManySessions {
    OfAllClients,
    OfClient,
}

impl Sessions {
    pub(super) fn new(max: usize, max_per_client: usize, manager: Arc<LocalSessionManager>) -> Self {
        Self { max, max_per_client, manager, clients: Mutex::default() }
    }

    /// Returns the permission to open a session for `client`. Clients without an address share no
    /// limit per client.
    pub(super) async fn open(&self, client: ClientKey) -> Result<OpeningSession<'_>, TooManySessions> {
        let sessions = self.manager.sessions.read().await;
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
        Ok(OpeningSession { sessions: self, client })
    }

    /// Returns `true` if a request with `headers` has no session, or one of `client`.
    pub(super) fn may_use(&self, headers: &HeaderMap, client: &ClientKey) -> bool {
        let Some(session) = headers.get(SESSION_HEADER) else { return true };
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        session.to_str().is_ok_and(|session| clients.by_session.get(session) == Some(client))
    }
}

impl OpeningSession<'_> {
    /// Records the session in `headers`, the headers of the response.
    pub(super) fn record(&self, headers: &HeaderMap) {
        let session = headers.get(SESSION_HEADER).and_then(|session| session.to_str().ok());
        if let Some(session) = session {
            let mut clients = self.sessions.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.by_session.insert(session.to_owned(), self.client.clone());
        }
    }
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        let mut clients = self.sessions.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = clients.opening.iter().position(|client| *client == self.client) {
            clients.opening.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::http::{HeaderMap, HeaderValue};
    use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

    use super::{ClientKey, SESSION_HEADER, Sessions};

    #[tokio::test]
    async fn session_belongs_to_its_client() {
        let sessions = Sessions::new(1, 1, Arc::new(LocalSessionManager::default()));
        let client = |id: &str| ClientKey::Principal(id.to_owned());
        let mut headers = HeaderMap::new();
        assert!(sessions.may_use(&headers, &client("ann")));
        headers.insert(SESSION_HEADER, HeaderValue::from_static("1"));
        assert!(!sessions.may_use(&headers, &client("ann")));
        let Ok(opening) = sessions.open(client("ann")).await else { panic!("no session is open") };
        opening.record(&headers);
        assert!(sessions.may_use(&headers, &client("ann")));
        assert!(!sessions.may_use(&headers, &client("ben")));
    }
}
