//! [`OpenApiOptions`]: the settings of a source.

use std::{collections::BTreeMap, fmt, future::Future, time::Duration};

use haft_core::{call::BoxError, limits, tool::Principal};
use secrecy::SecretString;

use crate::{Credentials, OperationFilter, credentials::CredentialProvider};

/// The settings of an [`OpenApiSource`](crate::OpenApiSource).
///
/// The debug output contains no secrets.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use haft_openapi::{Credentials, OpenApiOptions, OperationFilter};
///
/// let options = OpenApiOptions::default()
///     .with_base_url("https://staging.example.org/v1")
///     .with_credentials(Credentials::new().with("bearerAuth", "s3cret"))
///     .with_filter(OperationFilter::default().read_only())
///     .with_timeout(Duration::from_secs(10));
/// assert!(!format!("{options:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenApiOptions {
    /// The base URL of all requests, an `http` or `https` URL without a user name. Its query and
    /// fragment are ignored. `None` uses the servers of the document. Default: `None`.
    pub base_url: Option<String>,
    /// Further origins that may be called, for example `https://uploads.example.org`. Without a
    /// base URL, requests go to the origin from which the document was fetched, or to the origin of
    /// the first server in a document from a file. Operations of these origins are called with the
    /// same credentials and headers. Ignored with a [base URL](Self::base_url). Default: none.
    pub allowed_origins: Vec<String>,
    /// The values of server variables. They replace the defaults of the document. Default: none.
    pub server_variables: BTreeMap<String, String>,
    /// The selection of operations. Default: all.
    pub filter: OperationFilter,
    /// The maximum time of a call, with redirects and repeated requests. Default: one minute
    /// ([`limits::CALL_IDLE_TIMEOUT`]).
    pub timeout: Duration,
    /// The longest wait before a request is repeated because of `Retry-After`, at most twice. After
    /// a longer wait, or without the header, the call fails. Zero disables repeated requests.
    /// Default: 10 seconds.
    pub max_retry_wait: Duration,
    /// The maximum length of a response body, in bytes. Default: 16 MiB
    /// ([`limits::SERVER_MESSAGE_BYTES`]).
    pub max_response_bytes: usize,
    /// The maximum length of the document, in bytes. Default: 32 MiB.
    pub max_document_bytes: usize,
    /// `true` if tools have output schemas, and bodies are checked against the documented schemas
    /// of their status. A body that does not match is an error then: disable it for a server that
    /// deviates from its document. Default: `true`.
    pub has_output_schemas: bool,
    pub(crate) credentials: Credentials,
    /// The credentials of the principals, by their ids.
    pub(crate) principal_credentials: BTreeMap<String, Credentials>,
    pub(crate) provider: Option<CredentialProvider>,
    pub(crate) headers: Vec<(String, SecretString)>,
    pub(crate) client: Option<reqwest::Client>,
}

impl Default for OpenApiOptions {
    fn default() -> Self {
        Self {
            base_url: None,
            allowed_origins: Vec::new(),
            server_variables: BTreeMap::new(),
            filter: OperationFilter::default(),
            timeout: limits::CALL_IDLE_TIMEOUT,
            max_retry_wait: Duration::from_secs(10),
            max_response_bytes: limits::SERVER_MESSAGE_BYTES,
            max_document_bytes: 32 << 20,
            has_output_schemas: true,
            credentials: Credentials::default(),
            principal_credentials: BTreeMap::new(),
            provider: None,
            headers: Vec::new(),
            client: None,
        }
    }
}

impl OpenApiOptions {
    /// Sets the [base URL](Self::base_url) of all requests.
    #[must_use]
    pub fn with_base_url(self, url: impl Into<String>) -> Self {
        Self { base_url: Some(url.into()), ..self }
    }

    /// Permits requests to the [origin](Self::allowed_origins) of `url`.
    #[must_use]
    pub fn with_allowed_origin(mut self, url: impl Into<String>) -> Self {
        self.allowed_origins.push(url.into());
        self
    }

    /// Sets the value of the server variable `name`.
    #[must_use]
    pub fn with_server_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.server_variables.insert(name.into(), value.into());
        self
    }

    /// Sets the [selection of operations](Self::filter).
    #[must_use]
    pub fn with_filter(self, filter: OperationFilter) -> Self {
        Self { filter, ..self }
    }

    /// Sets the [maximum time](Self::timeout) of a call.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the [longest wait](Self::max_retry_wait) before a request is repeated. Zero disables
    /// repeated requests.
    #[must_use]
    pub fn with_max_retry_wait(self, wait: Duration) -> Self {
        Self { max_retry_wait: wait, ..self }
    }

    /// Sets the [maximum length](Self::max_response_bytes) of a response body, in bytes.
    #[must_use]
    pub fn with_max_response_bytes(self, bytes: usize) -> Self {
        Self { max_response_bytes: bytes, ..self }
    }

    /// Sets the [maximum length](Self::max_document_bytes) of the document, in bytes.
    #[must_use]
    pub fn with_max_document_bytes(self, bytes: usize) -> Self {
        Self { max_document_bytes: bytes, ..self }
    }

    /// Omits [output schemas](Self::has_output_schemas) and the check of responses.
    #[must_use]
    pub fn without_output_schemas(self) -> Self {
        Self { has_output_schemas: false, ..self }
    }

    /// Sets the credentials of all calls.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Sets the credentials of the calls of the principal with `id`. They replace those of
    /// [`with_credentials`](Self::with_credentials) for the same schemes.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_openapi::{Credentials, OpenApiOptions};
    ///
    /// let options = OpenApiOptions::default()
    ///     .with_principal_credentials("ann", Credentials::new().with("bearerAuth", "token-of-ann"))
    ///     .with_principal_credentials("ben", Credentials::new().with("bearerAuth", "token-of-ben"));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn with_principal_credentials(mut self, id: impl Into<String>, credentials: Credentials) -> Self {
        self.principal_credentials.insert(id.into(), credentials);
        self
    }

    /// Sets the function that returns the credentials of a call. Its argument is the principal of
    /// the call. A gateway can therefore send each user's own credential. The returned credentials
    /// replace the other credentials of the same schemes.
    ///
    /// The function runs before each call, within the timeout of the call. If it fails, the call
    /// fails, and no request is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_openapi::{Credentials, OpenApiOptions};
    ///
    /// let options = OpenApiOptions::default().with_credential_provider(|principal| async move {
    ///     let user = principal.ok_or("the caller is unknown")?;
    ///     let token = std::env::var(format!("TOKEN_OF_{}", user.id))?;
    ///     Ok::<_, haft_core::call::BoxError>(Credentials::new().with("bearerAuth", token))
    /// });
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn with_credential_provider<F, Fut, E>(self, provide: F) -> Self
    where
        F: Fn(Option<Principal>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { provider: Some(CredentialProvider::new(provide)), ..self }
    }

    /// Adds the header `name` to each request. The value may be a secret. A parameter of this name
    /// is not an argument. A credential for the same header replaces the value.
    ///
    /// In errors, the value is redacted, and also its parts of at least 8 bytes: the token after
    /// `Bearer`, and the values of cookies.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into().into()));
        self
    }

    /// Sends all requests with `client`, for example with a client certificate or a proxy.
    ///
    /// The client must not follow redirects (`redirect::Policy::none`): the source follows them
    /// itself, within the origin of the server. A client that follows redirects may send
    /// credentials to another origin.
    #[must_use]
    pub fn with_client(self, client: reqwest::Client) -> Self {
        Self { client: Some(client), ..self }
    }
}

impl fmt::Debug for OpenApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("OpenApiOptions")
            .field("base_url", &self.base_url)
            .field("filter", &self.filter)
            .field("credentials", &self.credentials)
            .field("principal_credentials", &self.principal_credentials)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}
