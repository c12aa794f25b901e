//! A file with the handshakes of servers whose protocol revision is slow to detect.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::{HttpServer, ServerConfig, StdioServer, locked_file::LockedFile, session::HandshakeMode};

/// The version of the file format.
const VERSION: u64 = 1;
/// The maximum number of servers in the file. The oldest entry is removed first.
const MAX_ENTRIES: usize = 256;
/// The maximum age of an entry. The revision is then detected again, because the server may have
/// been updated to revision 2026-07-28.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The entry of a server in the file.
///
/// The file has no names, commands or URLs: the key is a hash of the command line and the working
/// directory, or of the origin and the path of the URL.
#[derive(Clone)]
pub(crate) struct CachedRevision {
    file: LockedFile,
    key: String,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
struct Content {
    #[serde(default)]
    servers: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    handshake: Handshake,
    /// The time of the detection, in seconds since 1970.
    detected_at: u64,
}

/// A handshake that the client does not try first.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Handshake {
    Initialize,
    Sse,
}

impl CachedRevision {
    /// Returns the entry of `server`. Returns `None` if its options name no file, and for a server
    /// in this process.
    pub(crate) fn of(server: &ServerConfig) -> Option<Self> {
        let path = server.options().revision_cache.clone()?;
        Self::new(path, server)
    }

    fn new(path: PathBuf, server: &ServerConfig) -> Option<Self> {
        let key = match server {
            // The displayed command line has variables instead of the secrets of a configuration
            // file.
            ServerConfig::Stdio(server @ StdioServer { cwd, .. }) => format!("stdio\n{server}\n{cwd:?}"),
            ServerConfig::Http(server) => format!("http\n{}\n{}", server.origin(), path_of(server)),
            ServerConfig::InProcess(_) => return None,
        };
        let hash = Sha256::digest(key.as_bytes());
        let key = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some(Self { file: LockedFile::new(path), key })
    }

    /// Returns the handshake of the server. Returns `None` if it is unknown or too old, or if the
    /// file cannot be read.
    pub(crate) async fn read(&self) -> Option<HandshakeMode> {
        let entry = self.clone();
        let content = spawn_blocking(move || entry.file.read::<Content>(VERSION)).await.ok()?;
        let content = content
            .inspect_err(|error| tracing::warn!(%error, "cannot read the cache of protocol revisions"))
            .ok()?;
        content.find(&self.key, SystemTime::now())
    }

    /// Stores the handshake of the server.
    pub(crate) async fn write(&self, mode: HandshakeMode) {
        let handshake = match mode {
            HandshakeMode::Auto => return,
            HandshakeMode::Initialize => Handshake::Initialize,
            HandshakeMode::Sse => Handshake::Sse,
        };
        let entry = self.clone();
        let change = move |content: &mut Content| {
            content.insert(entry.key, handshake, SystemTime::now());
            true
        };
        self.change(change).await;
    }

    /// Removes the entry of the server.
    pub(crate) async fn remove(&self) {
        let key = self.key.clone();
        self.change(move |content: &mut Content| content.servers.remove(&key).is_some()).await;
    }

    /// Changes the file. A fault is logged, because servers also start without the file.
    async fn change(&self, change: impl FnOnce(&mut Content) -> bool + Send + 'static) {
        let file = self.file.clone();
        let changing = spawn_blocking(move || file.change(VERSION, change));
        if let Err(error) = changing.await.map_err(io::Error::other).flatten() {
            tracing::warn!(%error, "cannot write the cache of protocol revisions");
        }
    }
}

impl Content {
    fn find(&self, key: &str, now: SystemTime) -> Option<HandshakeMode> {
        let Entry { handshake, detected_at } = self.servers.get(key)?;
        // An entry from the future is from a wrong clock.
        let age = seconds(now).checked_sub(*detected_at)?;
        (age < MAX_AGE.as_secs()).then_some(match handshake {
            Handshake::Initialize => HandshakeMode::Initialize,
            Handshake::Sse => HandshakeMode::Sse,
        })
    }

    fn insert(&mut self, key: String, handshake: Handshake, now: SystemTime) {
        self.servers.insert(key, Entry { handshake, detected_at: seconds(now) });
        while self.servers.len() > MAX_ENTRIES {
            let oldest = self.servers.iter().min_by_key(|(_, entry)| entry.detected_at);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.servers.remove(&key);
        }
    }
}

/// Returns the path of the URL of `server`. The query may contain a secret.
fn path_of(server: &HttpServer) -> &str {
    let rest = server.url.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').and_then(|start| rest.get(start..)).unwrap_or_default();
    path.split(['?', '#']).next().unwrap_or_default()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
