#[cfg(test)]
mod tests;

use std::{env, fmt};

use haft_core::call::BoxError;
use percent_encoding::percent_decode_str;
use reqwest::{
    Proxy, Request, Response, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tower::{Layer, Service};

use super::{
    BuildError, Connection, HttpService, RetryPolicy, Timeouts,
    endpoint::Endpoint,
    transport::{Middleware, Transport},
};
use crate::{client, tls::RootCertificates};

/// The HTTP settings of a model client. The builders of the models have a setter for each of them:
/// see [`http_option_setters`](crate::http_option_setters).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The base URL. `None` selects the server of the provider.
    pub base_url: Option<String>,
    /// The API key. An empty key is not sent.
    pub api_key: Option<SecretString>,
    /// Additional headers, which replace headers of the same name.
    pub headers: Vec<(String, SecretString)>,
    /// The URL of a proxy.
    pub proxy: Option<SecretString>,
    /// The HTTP client of the program.
    pub http_client: Option<reqwest::Client>,
    /// The timeouts of each request.
    pub timeouts: Timeouts,
    /// The retries of each request.
    pub retry: RetryPolicy,
    /// Additional fields of the request body.
    pub extra_fields: Map<String, Value>,
    middleware: Middleware,
}

/// The header that contains the API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The key alone, in the header with this name, in lower case.
    Named(&'static str),
}

impl HttpOptions {
    /// Adds a `tower` layer around each HTTP request. The last added layer is the outermost.
    pub fn add_layer<L, S>(&mut self, layer: L)
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request, Response = Response> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
    {
        self.middleware.add(layer);
    }

    /// Checks that the extra fields are none of `fields`, which the client sends itself.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError::ReservedField`].
    pub fn check_extra_fields(&self, fields: &[&str]) -> Result<(), BuildError> {
        let reserved = self.extra_fields.keys().find(|name| fields.contains(&name.as_str()));
        reserved.map_or(Ok(()), |name| Err(BuildError::ReservedField { name: name.clone() }))
    }

    /// Creates the connection to the server at `base_url`. `key` is sent in `key_header`, unless it
    /// is empty. `headers` are sent with each request, unless the options have others.
    /// `not_found_hint` returns the end of the message of a 404 error for a URL, such as a question
    /// about the base URL.
    ///
    /// # Errors
    ///
    /// Fails if a setting is invalid.
    pub fn connect(
        &self,
        base_url: &Url,
        (key_header, key): (KeyHeader, &SecretString),
        headers: &[(&'static str, &'static str)],
        not_found_hint: fn(&str) -> &'static str,
    ) -> Result<Connection, BuildError> {
        let mut all_headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        all_headers.extend(self.build_headers(key_header, key.expose_secret())?);
        let http = match &self.http_client {
            Some(client) => client.clone(),
            None => self.build_http_client(base_url)?,
        };
        let proxy = self.proxy.as_ref().and_then(|proxy| Url::parse(proxy.expose_secret()).ok());
        let hidden: Vec<_> =
            [Some(base_url), proxy.as_ref()].into_iter().flatten().flat_map(url_secrets).collect();
        let endpoint = Endpoint::new(base_url, all_headers, &hidden, &http)
            .map_err(|error| BuildError::HttpClient(error.without_url().into()))?;
        let transport = Transport::new(endpoint, http, &self.middleware, not_found_hint);
        Ok(Connection::new(transport, self.retry.clone(), self.timeouts.clone()))
    }

    /// Returns the header with `key` and the program's own headers.
    fn build_headers(&self, key_header: KeyHeader, key: &str) -> Result<HeaderMap, BuildError> {
        let mut headers = HeaderMap::new();
        if !key.is_empty() {
            let (name, value) = match key_header {
                KeyHeader::Bearer => (AUTHORIZATION, sensitive_header_value(&format!("Bearer {key}"))),
                KeyHeader::Named(name) => (HeaderName::from_static(name), sensitive_header_value(key)),
            };
            headers.insert(name, value.ok_or(BuildError::InvalidApiKey)?);
        }
        for (name, value) in &self.headers {
            let header = HeaderName::try_from(name).ok().zip(sensitive_header_value(value.expose_secret()));
            let (key, value) = header.ok_or_else(|| BuildError::InvalidHeader { name: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(headers)
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

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("timeouts", &self.timeouts)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// Creates a header value that is marked as sensitive. Returns `None` if `text` has invalid
/// characters.
fn sensitive_header_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns `true` if a client for `url` may open TLS connections, either to the server or to an
/// HTTPS proxy from the environment. `variable` returns the value of an environment variable.
fn may_use_tls(url: &Url, variable: impl Fn(&str) -> Option<String>) -> bool {
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

/// Writes the setters of the [`HttpOptions`] in an `impl` block of a builder with a field
/// `http: HttpOptions`.
#[doc(hidden)]
#[macro_export]
macro_rules! http_option_setters {
    () => {
        /// Adds an HTTP header to each request. A header of the same name is replaced. A value of
        /// at least 8 bytes is redacted in errors and logs.
        #[must_use]
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.http.headers.push((name.into(), $crate::model::SecretString::from(value.into())));
            self
        }

        /// Sets the timeouts of each request.
        #[must_use]
        pub fn timeouts(mut self, timeouts: $crate::model::Timeouts) -> Self {
            self.http.timeouts = timeouts;
            self
        }

        /// Sets the maximum number of retries after a transient error. Default: 3. The section
        /// [limits](crate#limits) lists the transient errors.
        #[must_use]
        pub fn max_retries(mut self, retries: u32) -> Self {
            self.http.retry.max_retries = retries;
            self
        }

        /// Sets the wait before the first retry. Default: 0.5 s. The wait doubles with each further
        /// retry, up to 20 s, and is never shorter than the server's `Retry-After`. A random time
        /// of up to 50 % is added to each wait.
        #[must_use]
        pub fn first_retry_wait(mut self, wait: ::std::time::Duration) -> Self {
            self.http.retry.first_wait = wait;
            self
        }

        /// Adds a field to the body of each request. `build` returns an
        /// [error](haft_http::model::BuildError::ReservedField) for a field that haft sends itself, because the field
        /// would appear twice.
        #[must_use]
        pub fn extra_field(
            mut self,
            name: impl Into<String>,
            value: impl Into<$crate::model::JsonValue>,
        ) -> Self {
            self.http.extra_fields.insert(name.into(), value.into());
            self
        }

        /// Adds a `tower` layer around each HTTP request, for example to count, log, limit or
        /// change requests. The last added layer is the outermost.
        ///
        /// - Each HTTP request passes through the layer, including each retry. The time that the
        ///   layer takes counts towards the timeouts.
        /// - The inner service returns the response head. The body is read after the layer has
        ///   returned.
        /// - The service is cloned for each request. The clones must share their state, like those
        ///   of `ConcurrencyLimit`. Wrap a service without shared state, such as `RateLimit`, in a
        ///   `Buffer`.
        /// - A `ModelError` from a layer is handled like an error from the server. Any other error,
        ///   except those from `reqwest`, becomes `ModelError::Failed`.
        /// - The API key is in a request header that is marked as sensitive.
        #[must_use]
        pub fn layer<L, S>(mut self, layer: L) -> Self
        where
            L: $crate::model::Layer<$crate::model::HttpService, Service = S> + Send + Sync + 'static,
            S: $crate::model::Service<$crate::model::Request, Response = $crate::model::Response>
                + Clone
                + Send
                + 'static,
            S::Future: Send + 'static,
            S::Error: Into<$crate::model::BoxError> + 'static,
        {
            self.http.add_layer(layer);
            self
        }

        /// Sets the HTTP client. Its settings for connections, redirects and proxies replace those
        /// of this builder. Disable redirects in the client, because a redirect may send the API
        /// key to another host.
        #[must_use]
        pub fn http_client(mut self, client: $crate::model::HttpClient) -> Self {
            self.http.http_client = Some(client);
            self
        }

        /// Sets an HTTP proxy, such as `http://user:password@localhost:3128`. A password of at
        /// least 8 bytes is redacted in errors, and so is a user name without a password. By
        /// default, the environment variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
        /// `NO_PROXY` apply.
        #[must_use]
        pub fn proxy(mut self, url: impl Into<String>) -> Self {
            self.http.proxy = Some($crate::model::SecretString::from(url.into()));
            self
        }
    };
}
