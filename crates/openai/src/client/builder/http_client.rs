use std::env;

use haft_core::call::BoxError;
use haft_http::{client, tls::RootCertificates};
use percent_encoding::percent_decode_str;
use reqwest::{Proxy, Request, Response, Url};
use secrecy::{ExposeSecret as _, SecretString};
use tower::{Layer, Service};

use super::{BuildError, ModelBuilder, server::Server};
use crate::client::{endpoint::Endpoint, transport::HttpService};

impl<M> ModelBuilder<M> {
    /// Adds a `tower` layer around each HTTP request, for example to count, log, limit or change
    /// requests. The last added layer is the outermost.
    ///
    /// - Each HTTP request passes through the layer, including each retry. The time that the layer
    ///   takes counts towards the timeouts.
    /// - The inner service returns the response head. The body is read after the layer has
    ///   returned.
    /// - The service is cloned for each request. The clones must share their state, like those of
    ///   `ConcurrencyLimit`. Wrap a service without shared state, such as `RateLimit`, in a
    ///   `Buffer`.
    /// - A [`ModelError`](haft_core::model::ModelError) from a layer is handled like an error from
    ///   the server. Any other error, except those from `reqwest`, becomes
    ///   [`ModelError::Failed`](haft_core::model::ModelError::Failed).
    /// - The API key is in a request header that is marked as sensitive.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_openai::ChatCompletions;
    /// use tower::limit::ConcurrencyLimitLayer;
    ///
    /// let model = ChatCompletions::builder("m").base_url("http://localhost:8080/v1").layer(ConcurrencyLimitLayer::new(2));
    /// # model.build()?;
    /// # Ok::<(), haft_openai::BuildError>(())
    /// ```
    #[must_use]
    pub fn layer<L, S>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request, Response = Response> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
    {
        self.middleware.add(layer);
        self
    }

    /// Sets the HTTP client. Its settings for connections, redirects and proxies replace those of
    /// this builder. Disable redirects in the client, because a redirect may send the API key to
    /// another host.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http_client = Some(client);
        self
    }

    /// Sets an HTTP proxy, such as `http://user:password@localhost:3128`. A password of at least 8
    /// bytes is redacted in errors, and so is a user name without a password. By default, the
    /// environment variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` apply.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(SecretString::from(url.into()));
        self
    }

    pub(super) fn build_endpoint(
        &self,
        target: &Server,
        path: &str,
    ) -> Result<(Endpoint, reqwest::Client), BuildError> {
        let headers = self.build_headers(target)?;
        let http = match &self.http_client {
            Some(client) => client.clone(),
            None => self.build_http_client(&target.url)?,
        };
        let proxy = self.proxy.as_ref().and_then(|proxy| Url::parse(proxy.expose_secret()).ok());
        let hidden: Vec<_> =
            [Some(&target.url), proxy.as_ref()].into_iter().flatten().flat_map(url_secrets).collect();
        let endpoint = Endpoint::new(&target.url, path, headers, &hidden, &http);
        Ok((endpoint.map_err(|error| BuildError::HttpClient(error.without_url().into()))?, http))
    }

    fn build_http_client(&self, url: &Url) -> Result<reqwest::Client, BuildError> {
        let proxy = self.proxy.as_ref().map(|proxy| {
            let url = Url::parse(proxy.expose_secret()).ok().filter(Url::has_host);
            let proxy = url.and_then(|url| Proxy::all(url).ok());
            proxy.ok_or(BuildError::InvalidProxy)
        });
        // Small containers have no system certificates. A client for plain HTTP does not need them.
        let uses_tls = proxy.is_some() || may_use_tls(url, |name| env::var(name).ok());
        let roots = if uses_tls { RootCertificates::System } else { RootCertificates::None };
        // Without redirects: one could change the method or send the API key to another host.
        let builder = client::builder(roots).map_err(|error| BuildError::HttpClient(error.into()))?;
        let builder = builder.connect_timeout(self.timeouts.connect);
        let builder = match proxy {
            Some(proxy) => builder.proxy(proxy?),
            None => builder,
        };
        builder.build().map_err(|error| BuildError::HttpClient(error.without_url().into()))
    }
}

/// Returns `true` if a client for `url` may open TLS connections, either to the server or to an
/// HTTPS proxy from the environment. `variable` returns the value of an environment variable.
pub(super) fn may_use_tls(url: &Url, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_https = |proxy: String| proxy.trim_start().to_ascii_lowercase().starts_with("https:");
    let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    url.scheme() != "http" || proxies.into_iter().filter_map(variable).any(is_https)
}

/// Returns the password of `url`, or the user name if there is no password. The secret is returned
/// twice, percent-encoded and decoded, because errors may contain either form.
fn url_secrets(url: &Url) -> Vec<SecretString> {
    let encoded = url.password().unwrap_or(url.username());
    let decoded = percent_decode_str(encoded).decode_utf8_lossy();
    vec![SecretString::from(encoded), SecretString::from(decoded.as_ref())]
}
