use std::{collections::BTreeSet, sync::Arc};

use haft_core::text::{truncate_with_ellipsis, without_hidden_chars};
use haft_http::oauth::IssuerClient;
use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationMetadata, WWWAuthenticateParams};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::{
    CredentialFile, NO_STORED_ISSUER, Probe,
    access_token::AccessToken,
    client_credentials::{Authentication, ClientCredentials},
    endpoint_response::{EndpointError, token_response},
    issuer::trusted_metadata,
    manager, probe,
};
use crate::{HttpServer, http::challenge::BearerChallenge};

/// The type of an assertion (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The scope of a refresh token. A client without a user gets none.
const OFFLINE_ACCESS: &str = "offline_access";
/// The maximum number of scopes that a server can require in addition.
const MAX_ADDED_SCOPES: usize = 32;
/// The maximum length of the error of an authorization server, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// The access tokens of a client that acts for itself, for one server.
pub(crate) struct TokenSource {
    server: HttpServer,
    client: ClientCredentials,
    /// The file with the credentials and the token.
    file: Option<CredentialFile>,
    /// The scopes that the server has required in addition. Locked while a token with further
    /// scopes is requested.
    added_scopes: Mutex<BTreeSet<String>>,
}

impl TokenSource {
    /// Returns the source for `server`, if it has client credentials, or if they are stored.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault in the file.
    pub(crate) async fn open(server: &HttpServer) -> Result<Option<Self>, String> {
        let server = server.clone();
        if let Some(client) = server.client_credentials.clone() {
            return Ok(Some(Self { server, client, file: None, added_scopes: Mutex::default() }));
        }
        let Some(file) = server.credentials.clone() else { return Ok(None) };
        let client = file.client_credentials(&server.url).await.map_err(|error| error.to_string())?;
        if client.as_ref().is_some_and(|client| client.issuer.is_none()) {
            return Err(NO_STORED_ISSUER.to_owned());
        }
        Ok(client.map(|client| Self { server, client, file: Some(file), added_scopes: Mutex::default() }))
    }

    pub(super) fn new(server: HttpServer, client: ClientCredentials, file: CredentialFile) -> Self {
        Self { server, client: client.without_token(), file: Some(file), added_scopes: Mutex::default() }
    }

    /// Returns the current token, or requests one if there is none, or if it is about to expire.
    pub(crate) async fn token(&self) -> Result<String, AuthError> {
        let added = self.added_scopes.lock().await.clone();
        self.token_unless(|token| !token.is_usable(), &added).await
    }

    /// Returns another token than `rejected`, which the server rejected.
    pub(crate) async fn replacement(&self, rejected: &str) -> Result<String, AuthError> {
        let added = self.added_scopes.lock().await.clone();
        self.token_unless(|token| token.value == rejected || !token.is_usable(), &added).await
    }

    /// Returns another token than `rejected`, with the scopes in `required` in addition. Returns
    /// `None` if an earlier token had them, if there are too many, or if the program has set the
    /// scopes of the client.
    pub(crate) async fn with_scopes(
        &self,
        rejected: &str,
        required: Option<&str>,
    ) -> Result<Option<String>, AuthError> {
        if !self.client.scopes.is_empty() {
            return Ok(None);
        }
        let mut added = self.added_scopes.lock().await;
        let current = self.token_unless(|token| !token.is_usable(), &added).await?;
        let required = required.unwrap_or_default().split_whitespace();
        let required = required.filter(|scope| *scope != OFFLINE_ACCESS).map(str::to_owned);
        let scopes: BTreeSet<_> = added.iter().cloned().chain(required).collect();
        if scopes == *added {
            // Another call may have requested a token with these scopes meanwhile.
            return Ok(Some(current).filter(|current| current != rejected));
        }
        if scopes.len() > MAX_ADDED_SCOPES {
            return Ok(None);
        }
        let token = self.token_unless(|token| token.value == current, &scopes).await?;
        *added = scopes;
        Ok(Some(token))
    }

    async fn token_unless(
        &self,
        is_replaced: impl Fn(&AccessToken) -> bool,
        added_scopes: &BTreeSet<String>,
    ) -> Result<String, AuthError> {
        // The lock is held during the request, so that concurrent calls share one token.
        let mut current = self.client.token.lock().await;
        let usable = current.as_ref().filter(|token| token.server == self.server.url && !is_replaced(token));
        if let Some(token) = usable {
            return Ok(token.value.clone());
        }
        let issuer = current.as_ref().filter(|token| token.server == self.server.url);
        let issuer = self.client.issuer.clone().or_else(|| issuer?.issuer.clone());
        let token = self.request(issuer, added_scopes).await.map_err(AuthError::ClientCredentialsError)?;
        if let Some(file) = &self.file {
            file.save_client(&self.client, token.clone())
                .await
                .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        }
        Ok(current.insert(token).value.clone())
    }

    /// Discovers the authorization server and requests a token, with `added_scopes` in addition.
    /// `expected` is the issuer that the program has set, or that of the last token.
    async fn request(
        &self,
        expected: Option<String>,
        added_scopes: &BTreeSet<String>,
    ) -> Result<AccessToken, String> {
        let http = Arc::new(IssuerClient::new(&self.server.url).await?);
        let discovery = Discovery::of(&self.server, &http).await?;
        let Discovery { metadata, resource, scopes } = discovery;
        let metadata = trusted_metadata(&http, &metadata, expected.as_deref()).await?;
        let endpoint = Url::parse(&metadata.token_endpoint)
            .map_err(|error| format!("invalid token endpoint: {error}"))?;
        let mut scopes = if self.client.scopes.is_empty() { scopes } else { self.client.scopes.clone() };
        for scope in added_scopes {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let mut form = vec![("grant_type", "client_credentials".to_owned()), ("resource", resource)];
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let basic = self.authenticate(&metadata, &mut form)?;
        let response = http.post_form(&endpoint, basic, &form).await?;
        let response = token_response(response.status(), response.body()).map_err(|error| match error {
            EndpointError::Rejected { .. } => {
                format!("the authorization server rejected the client: {error}")
            }
            EndpointError::Invalid(_) => error.to_string(),
        })?;
        AccessToken::new(response, &self.server.url, metadata.issuer, &scopes)
    }

    /// Adds the identity of the client to `form`. Returns the id and the secret for the header
    /// `Authorization`, if the authorization server reads them there.
    fn authenticate(
        &self,
        metadata: &AuthorizationMetadata,
        form: &mut Vec<(&'static str, String)>,
    ) -> Result<Option<(String, String)>, String> {
        let client_id = self.client.client_id.clone();
        let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Value::as_array);
        let supports = |method: &str| {
            methods.is_some_and(|methods| methods.iter().any(|it| it.as_str() == Some(method)))
        };
        match &self.client.authentication {
            // The default method (RFC 8414, section 2).
            Authentication::Secret(secret) if methods.is_none() || supports("client_secret_basic") => {
                Ok(Some((client_id, secret.clone())))
            }
            Authentication::Secret(secret) if supports("client_secret_post") => {
                form.extend([("client_id", client_id), ("client_secret", secret.clone())]);
                Ok(None)
            }
            Authentication::PrivateKey { key, .. } if methods.is_none() || supports("private_key_jwt") => {
                let issuer = metadata.issuer.as_deref().unwrap_or(&metadata.token_endpoint);
                let assertion = key.assertion(&client_id, issuer).ok_or("the assertion cannot be signed")?;
                form.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
                form.push(("client_assertion", assertion));
                Ok(None)
            }
            _ => {
                let methods: Vec<_> = methods.into_iter().flatten().filter_map(Value::as_str).collect();
                let methods = without_hidden_chars(&methods.join(", ")).into_owned();
                let methods = truncate_with_ellipsis(&methods, MAX_ERROR_BYTES);
                Err(format!("the authorization server accepts only other clients: {methods}"))
            }
        }
    }
}

/// The authorization server of a server.
struct Discovery {
    metadata: AuthorizationMetadata,
    /// The identifier of the server for the parameter `resource` (RFC 8707).
    resource: String,
    /// The scopes in the challenge or in the metadata of the server.
    scopes: Vec<String>,
}

impl Discovery {
    async fn of(server: &HttpServer, http: &Arc<IssuerClient>) -> Result<Self, String> {
        let mut manager = manager(server, http).await?;
        // A server may accept the first message without a token, and require one for calls.
        let probe = probe(server).await.ok();
        let challenge = probe.as_ref().and_then(Probe::challenge);
        let found =
            manager.resolve_metadata_from_challenge(challenge.map(ToString::to_string).as_deref()).await;
        let found = found.map_err(|error| error.to_string())?;
        if !found.source.is_discovered() {
            return Err("the server names no authorization server".to_owned());
        }
        manager.set_metadata(found.metadata.clone());
        let mut scopes = manager.select_initial_scopes(&[]).await;
        scopes.retain(|scope| scope != OFFLINE_ACCESS);
        let resource = resource(http, challenge, &server.url).await?;
        Ok(Self { metadata: found.metadata, resource, scopes })
    }
}

/// Returns the identifier in the metadata that `challenge` names, or else the URL of the server.
///
/// # Errors
///
/// Fails if the identifier is not that of the server: its token could be used at another server.
async fn resource(
    http: &IssuerClient,
    challenge: Option<&BearerChallenge>,
    server: &str,
) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Metadata {
        resource: String,
    }
    let server = Url::parse(server).map_err(|error| format!("invalid URL: {error}"))?;
    let challenge = challenge.map(ToString::to_string);
    let url = challenge.and_then(|it| WWWAuthenticateParams::parse(&it, &server).resource_metadata_url);
    let Some(url) = url else { return Ok(server.into()) };
    let text = http.get(&url).await.map_err(|error| format!("{url}: {error}"))?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|_| format!("{url}: no metadata of a resource"))?;
    let resource = Url::parse(&metadata.resource).map_err(|error| format!("{url}: {error}"))?;
    let path = resource.path().trim_end_matches('/');
    let is_parent =
        server.path().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if resource.origin() != server.origin() || !is_parent {
        return Err(format!("{url}: the metadata is of another resource"));
    }
    Ok(metadata.resource)
}
