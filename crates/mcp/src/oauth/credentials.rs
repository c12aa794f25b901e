use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use crate::locked_file::LockedFile;

/// The version of the file format.
const VERSION: u64 = 1;

/// A file with the OAuth tokens of servers. Only its owner can read it (mode 0600).
///
/// Several processes can use the file: changes are atomic, and a lock file prevents that two of
/// them refresh the same token. The tokens of a server are discarded if its authorization server
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFile {
    file: LockedFile,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
struct Content {
    /// The credentials by the URL of the server.
    servers: BTreeMap<String, StoredCredentials>,
}

impl CredentialFile {
    /// Creates a handle to the file at `path`. The first login creates the file and its folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: LockedFile::new(path.into()) }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Removes the tokens of the server with the endpoint `url`. Returns `false` if there are none.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or if it is invalid.
    pub fn remove(&self, url: &str) -> io::Result<bool> {
        let mut removed = false;
        self.change(|servers| removed = servers.remove(url).is_some())?;
        Ok(removed)
    }

    /// Returns `true` if the file has tokens of the server with the endpoint `url`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if it is invalid.
    pub fn contains(&self, url: &str) -> io::Result<bool> {
        Ok(self.read()?.servers.contains_key(url))
    }

    /// Returns the scopes of the stored token of the server with the endpoint `url`.
    pub(super) async fn granted_scopes(&self, url: &str) -> io::Result<Vec<String>> {
        let (file, url) = (self.clone(), url.to_owned());
        let reading = tokio::task::spawn_blocking(move || file.read());
        let content = reading.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        Ok(content.servers.get(&url).map(|stored| stored.granted_scopes.clone()).unwrap_or_default())
    }

    pub(super) fn store_of(&self, url: &str) -> impl CredentialStore + use<> {
        ServerStore { file: self.clone(), url: url.to_owned() }
    }

    fn read(&self) -> io::Result<Content> {
        self.file.read(VERSION)
    }

    /// Changes the credentials and replaces the file.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, StoredCredentials>)) -> io::Result<()> {
        self.file.change(VERSION, |content: &mut Content| {
            change(&mut content.servers);
            true
        })
    }
}

/// The credentials of one server.
struct ServerStore {
    file: CredentialFile,
    url: String,
}

impl ServerStore {
    /// Runs `work`, which reads or writes files, on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CredentialFile, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (file, url) = (self.file.clone(), self.url.clone());
        let finished = tokio::task::spawn_blocking(move || work(&file, &url)).await;
        let finished = finished.unwrap_or_else(|error| Err(io::Error::other(error)));
        finished.map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

#[async_trait]
impl CredentialStore for ServerStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.run(|file, url| Ok(file.read()?.servers.remove(url))).await
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.run(|file, url| {
            let url = url.to_owned();
            file.change(|servers| drop(servers.insert(url, credentials)))
        })
        .await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.run(|file, url| file.remove(url).map(drop)).await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        self.run(|file, _| file.file.lock("refresh"))
            .await
            .map(|lock| Some(CredentialRefreshGuard::new(lock)))
    }
}
