use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use tokio::sync::Mutex;

use super::{
    access_token::AccessToken,
    client_credentials::{Authentication, ClientCredentials},
    endpoint_response::normalize_token,
};
use crate::locked_file::LockedFile;

/// The version of the file format.
const VERSION: u64 = 1;

/// A file with the OAuth tokens of servers, and with the secrets and private keys of their clients.
/// Only its owner can read it (mode 0600).
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
    #[serde(deserialize_with = "read_servers")]
    servers: BTreeMap<String, Entry>,
}

/// Reads the credentials, with token responses in the forms that authorization servers send.
fn read_servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Entry>, D::Error> {
    let servers = BTreeMap::<String, Value>::deserialize(deserializer)?;
    let entries = servers.into_iter().map(|(url, mut entry)| {
        if let Some(Value::Object(token)) = entry.get_mut("token_response") {
            normalize_token(token);
        }
        serde_json::from_value(entry).map(|entry| (url, entry)).map_err(D::Error::custom)
    });
    entries.collect()
}

/// The credentials of a server.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// The client and its tokens, in the form of rmcp.
    #[serde(flatten)]
    stored: StoredCredentials,
    /// The secret of the client, if it is no public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// The private key of a client that acts for itself, in the form PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_private_key: Option<String>,
    /// `client_credentials` for a client that acts for itself. `None` for a client of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<Grant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Grant {
    ClientCredentials,
}

impl Entry {
    fn new(stored: StoredCredentials) -> Self {
        Self { stored, client_secret: None, client_private_key: None, grant: None }
    }

    /// Returns the client that acts for itself, with its token for `url`.
    fn client_credentials(self, url: &str) -> Option<ClientCredentials> {
        self.grant?;
        let client_id = &self.stored.client_id;
        let mut client = match (self.client_secret, self.client_private_key) {
            (Some(secret), _) => ClientCredentials::with_secret(client_id, secret),
            (None, Some(pem)) => ClientCredentials::with_private_key(client_id, pem).ok()?,
            (None, None) => return None,
        };
        client.token = Arc::new(Mutex::new(AccessToken::from_stored(&self.stored, url)));
        client.scopes = self.stored.granted_scopes;
        client.issuer = self.stored.issuer;
        Some(client)
    }
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
        Ok(self.entry(url).await?.map(|entry| entry.stored.granted_scopes).unwrap_or_default())
    }

    /// Returns `true` if there are tokens of a user for the server with the endpoint `url`.
    pub(super) async fn has_token(&self, url: &str) -> io::Result<bool> {
        Ok(self.entry(url).await?.is_some_and(|entry| entry.stored.token_response.is_some()))
    }

    /// Returns the issuer of the tokens for the server with the endpoint `url`.
    pub(super) async fn issuer(&self, url: &str) -> io::Result<Option<String>> {
        Ok(self.entry(url).await?.and_then(|entry| entry.stored.issuer))
    }

    /// Returns the id and the secret of the client of a user at `issuer`, for the server with the
    /// endpoint `url`. `None` if there are no credentials, or if the client has no secret.
    pub(super) async fn client_secret(
        &self,
        url: &str,
        issuer: &str,
    ) -> io::Result<Option<(String, String)>> {
        let entry = self.entry(url).await?.filter(|entry| entry.stored.issuer.as_deref() == Some(issuer));
        Ok(entry.and_then(|entry| Some((entry.stored.client_id, entry.client_secret?))))
    }

    /// Returns the client that acts for itself at the server with the endpoint `url`.
    pub(super) async fn client_credentials(&self, url: &str) -> io::Result<Option<ClientCredentials>> {
        Ok(self.entry(url).await?.and_then(|entry| entry.client_credentials(url)))
    }

    /// Stores the secret of the client `client_id` beside its tokens for the server with the
    /// endpoint `url`.
    pub(super) async fn save_client_secret(
        &self,
        url: &str,
        client_id: String,
        secret: String,
    ) -> io::Result<()> {
        let url = url.to_owned();
        self.blocking(move |file| {
            file.change(|servers| {
                if let Some(entry) = servers.get_mut(&url).filter(|it| it.stored.client_id == client_id) {
                    entry.client_secret = Some(secret);
                }
            })
        })
        .await
    }

    /// Stores `client`, which acts for itself, and its `token`.
    pub(super) async fn save_client(&self, client: &ClientCredentials, token: AccessToken) -> io::Result<()> {
        let scopes = if client.scopes.is_empty() { token.scopes.clone() } else { client.scopes.clone() };
        let mut entry = Entry::new(token.to_stored(&client.client_id, scopes));
        entry.grant = Some(Grant::ClientCredentials);
        match &client.authentication {
            Authentication::Secret(secret) => entry.client_secret = Some(secret.clone()),
            Authentication::PrivateKey { pem, .. } => entry.client_private_key = Some(pem.clone()),
        }
        self.blocking(move |file| file.change(|servers| drop(servers.insert(token.server, entry)))).await
    }

    async fn entry(&self, url: &str) -> io::Result<Option<Entry>> {
        let url = url.to_owned();
        self.blocking(move |file| Ok(file.read()?.servers.remove(&url))).await
    }

    /// Runs `work`, which reads or writes files, on a thread for blocking work.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.clone();
        let finished = tokio::task::spawn_blocking(move || work(&file)).await;
        finished.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Returns the store of rmcp for the tokens of the server with the endpoint `url`. `issuer` is
    /// the authorization server that gets their refresh token, `None` before a login.
    pub(super) fn store_of(&self, url: &str, issuer: Option<String>) -> impl CredentialStore + use<> {
        ServerStore { file: self.clone(), url: url.to_owned(), issuer }
    }

    fn read(&self) -> io::Result<Content> {
        self.file.read(VERSION)
    }

    /// Changes the credentials and replaces the file.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>)) -> io::Result<()> {
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
    /// The only authorization server that gets the refresh token.
    issuer: Option<String>,
}

impl ServerStore {
    /// Runs `work`, which reads or writes files, on a thread for blocking work.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CredentialFile, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AuthError> {
        let url = self.url.clone();
        let finished = self.file.blocking(move |file| work(file, &url)).await;
        finished.map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

#[async_trait]
impl CredentialStore for ServerStore {
    /// Reads the tokens. Another process may have logged in at another authorization server
    /// meanwhile: its refresh token is omitted.
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let stored = self.run(|file, url| Ok(file.read()?.servers.remove(url).map(|it| it.stored))).await?;
        Ok(stored.map(|mut stored| {
            if let Some(token) = stored.token_response.as_mut().filter(|_| stored.issuer != self.issuer) {
                token.set_refresh_token(None);
            }
            stored
        }))
    }

    /// Replaces the tokens. The secret of the same client at the same authorization server is kept.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.run(|file, url| {
            file.change(|servers| {
                let earlier = servers.remove(url).filter(|it| {
                    it.stored.client_id == credentials.client_id && it.stored.issuer == credentials.issuer
                });
                let mut entry = Entry::new(credentials);
                entry.client_secret = earlier.and_then(|earlier| earlier.client_secret);
                servers.insert(url.to_owned(), entry);
            })
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
