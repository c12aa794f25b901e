//! [`Credentials`]: secrets for the security schemes of a document.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use futures::future::{BoxFuture, FutureExt as _};
use haft_core::{call::BoxError, tool::Principal};
use secrecy::{ExposeSecret, SecretString};

/// The credentials for the security schemes of a document, by the names of the schemes in
/// `components.securitySchemes`.
///
/// | scheme | credential |
/// |---|---|
/// | `apiKey` | the key |
/// | `http` with `bearer`, `oauth2`, `openIdConnect` | the token, without `Bearer` |
/// | `http` with `basic` | `user:password` |
///
/// The debug output contains the names of the schemes only.
///
/// # Examples
///
/// ```
/// use haft_openapi::Credentials;
///
/// let credentials = Credentials::new().with("bearerAuth", "s3cret");
/// assert_eq!(format!("{credentials:?}"), r#"Credentials(["bearerAuth"])"#);
/// ```
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, SecretString>);

impl Credentials {
    /// Creates an empty set of credentials.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the credential for the security scheme `scheme`.
    #[must_use]
    pub fn with(mut self, scheme: impl Into<String>, secret: impl Into<String>) -> Self {
        self.0.insert(scheme.into(), secret.into().into());
        self
    }

    /// Returns the names of the schemes.
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, scheme: &str) -> Option<&str> {
        self.0.get(scheme).map(ExposeSecret::expose_secret)
    }

    /// Adds `others`, which replace credentials of the same schemes.
    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.schemes().collect::<Vec<_>>()).finish()
    }
}

/// A function that returns the credentials of a principal.
#[derive(Clone)]
pub(crate) struct CredentialProvider(Arc<ProviderFn>);

type ProviderFn =
    dyn Fn(Option<Principal>) -> BoxFuture<'static, Result<Credentials, BoxError>> + Send + Sync;

impl CredentialProvider {
    pub(crate) fn new<F, Fut, E>(provide: F) -> Self
    where
        F: Fn(Option<Principal>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self(Arc::new(move |principal| {
            let credentials = provide(principal);
            async move { credentials.await.map_err(Into::into) }.boxed()
        }))
    }

    pub(crate) async fn provide(&self, principal: Option<&Principal>) -> Result<Credentials, BoxError> {
        (self.0)(principal.cloned()).await
    }
}
