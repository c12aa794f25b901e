use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    TokenError, UnverifiedToken,
    signature::{Jwk, PublicKey},
};
use crate::oauth::{IssuerClient, fetch_metadata};

/// The age after which keys are fetched again.
const REFRESH_AGE: Duration = Duration::from_secs(10 * 60);
/// The age up to which keys are used if they cannot be fetched again.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// The minimum time between two fetches. Anyone can send tokens with unknown keys.
const REFRESH_PAUSE: Duration = Duration::from_secs(30);
/// The maximum duration of a fetch, with the discovery of the issuer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of keys of an issuer.
const MAX_KEYS: usize = 100;

/// The public keys of an issuer, which are fetched when they are needed.
pub(super) struct KeyCache {
    issuer: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Option<(Arc<Vec<PublicKey>>, Instant)>,
    /// The end of the last fetch.
    fetched: Option<Instant>,
    /// The fetch in progress. The sender is dropped at its end.
    fetching: Option<watch::Receiver<()>>,
}

/// The keys that may have signed a token.
pub(super) struct Candidates {
    keys: Arc<Vec<PublicKey>>,
    id: Option<String>,
}

impl Candidates {
    /// Returns `true` if one of the keys signed `token`. Without a key id in the token, all keys
    /// are tried.
    pub(super) fn verify(&self, token: &UnverifiedToken<'_>) -> bool {
        let mut keys = self.keys.iter().filter(|key| self.id.is_none() || key.id() == self.id.as_deref());
        keys.any(|key| key.verify(token.algorithm, token.message.as_bytes(), &token.signature))
    }
}

impl KeyCache {
    pub(super) fn new(issuer: String) -> Self {
        Self { issuer, state: Mutex::default() }
    }

    /// Sets the keys to those of the key set `text`.
    #[cfg(test)]
    pub(super) fn fill(&self, text: &[u8]) {
        let keys = Arc::new(parse_keys(text).unwrap_or_default());
        let mut state = self.lock();
        (state.keys, state.fetched) = (Some((keys, Instant::now())), Some(Instant::now()));
    }

    /// Returns the keys with `id`, or all keys if the token has no id.
    ///
    /// # Errors
    ///
    /// [`TokenError::Unavailable`] if there are no keys, and [`TokenError::Invalid`] if none has
    /// the id.
    pub(super) async fn find(self: &Arc<Self>, id: Option<&str>) -> Result<Candidates, TokenError> {
        let has_id = |keys: &[PublicKey]| id.is_none_or(|id| keys.iter().any(|key| key.id() == Some(id)));
        let (mut keys, is_fresh) = self.current();
        if !keys.as_deref().is_some_and(|keys| has_id(keys)) {
            if let Some(mut fetched) = self.start_refresh() {
                // The sender is dropped without a message.
                let _ = fetched.changed().await;
            }
            (keys, _) = self.current();
        } else if !is_fresh {
            // A request with a known key does not wait for an issuer that hangs.
            self.start_refresh();
        }
        let keys = keys.ok_or_else(|| TokenError::unavailable("the keys of the issuer are not available"))?;
        if !has_id(&keys) {
            return Err(TokenError::invalid("the key of the token is unknown"));
        }
        Ok(Candidates { keys, id: id.map(str::to_owned) })
    }

    /// Returns the keys unless they are too old, and `true` if they need no refresh.
    fn current(&self) -> (Option<Arc<Vec<PublicKey>>>, bool) {
        let state = self.lock();
        let Some((keys, since)) = &state.keys else { return (None, false) };
        let age = since.elapsed();
        ((age < MAX_AGE).then(|| Arc::clone(keys)), age < REFRESH_AGE)
    }

    /// Starts to fetch the keys, unless a fetch is in progress. Returns a receiver that ends with
    /// the fetch, or `None` if the last fetch is recent.
    ///
    /// The fetch is a task, which ends by its timeout: otherwise, a client that disconnects would
    /// cancel the fetch for the others.
    fn start_refresh(self: &Arc<Self>) -> Option<watch::Receiver<()>> {
        let mut state = self.lock();
        match &state.fetching {
            // A fetch that panicked has ended as well.
            Some(fetching) if fetching.has_changed().is_ok() => Some(fetching.clone()),
            _ if state.fetched.is_some_and(|end| end.elapsed() < REFRESH_PAUSE) => None,
            _ => {
                let (sender, fetching) = watch::channel(());
                state.fetching = Some(fetching.clone());
                let cache = Arc::clone(self);
                tokio::spawn(async move {
                    cache.fetch().await;
                    drop(sender);
                });
                Some(fetching)
            }
        }
    }

    async fn fetch(&self) {
        let fetched = timeout(FETCH_TIMEOUT, fetch_keys(&self.issuer)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(format!("no response within {FETCH_TIMEOUT:?}")));
        let mut state = self.lock();
        let now = Instant::now();
        (state.fetched, state.fetching) = (Some(now), None);
        match fetched {
            Ok(keys) => state.keys = Some((Arc::new(keys), now)),
            Err(error) => tracing::warn!(issuer = self.issuer, error, "cannot fetch the keys of an issuer"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The metadata of an authorization server (RFC 8414, section 2).
#[derive(Deserialize)]
struct Metadata {
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

async fn fetch_keys(issuer: &str) -> Result<Vec<PublicKey>, String> {
    let http = IssuerClient::new(issuer).await?;
    let Metadata { jwks_uri } = fetch_metadata(&http, issuer).await?;
    let url = Url::parse(&jwks_uri).map_err(|error| format!("invalid `jwks_uri`: {error}"))?;
    let text = http.get(&url).await.map_err(|error| format!("{url}: {error}"))?;
    parse_keys(&text).map_err(|error| format!("{url}: {error}"))
}

/// Parses a key set. Keys of unknown types are skipped (RFC 7517, section 5).
fn parse_keys(text: &[u8]) -> Result<Vec<PublicKey>, String> {
    let set: KeySet = serde_json::from_slice(text).map_err(|_| "no key set".to_owned())?;
    if set.keys.len() > MAX_KEYS {
        return Err(format!("the key set has more than {MAX_KEYS} keys"));
    }
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Ok(keys.filter_map(|jwk| PublicKey::from_jwk(&jwk)).collect())
}

#[cfg(test)]
mod tests;
