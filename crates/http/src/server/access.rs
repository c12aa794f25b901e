use std::{
    fmt, mem,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use haft_core::{call::BoxError, tool::Principal};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE},
};
use http_body::Body;
use http_body_util::BodyExt as _;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    AccessConfig, BodyError, ClientAddress, ClientKey, LimitedBody, RejectedRequest, Rejection, ResponseBody,
    authentication::Authenticator,
    authorization::ProtectedResource,
    config::RejectionHook,
    origin::{Origins, check_singular_headers},
    rate_limit::RequestLimit,
    rejection::{full_body, text_response},
};

/// A `tower` layer that checks each request before the service gets it: see [`AccessConfig`].
///
/// # Checks
///
/// In this order; the first failure is the response:
///
/// | check | failure |
/// |---|---|
/// | rate of the client's requests | 429 with `Retry-After` |
/// | `Host`, `Origin` and `Authorization` occur once, and `Host` is that of the target | 400 |
/// | `Host` and `Origin` are permitted | 403, without a valid `Host` 400 |
/// | bearer token | 401 with `WWW-Authenticate`, 403 without a required scope |
/// | length and duration of the body, when the service reads it | 413, 408 |
///
/// The token is verified first, because a client is counted by its principal. `GET` requests for
/// the metadata of a [protected resource](ProtectedResource) are answered by the layer.
///
/// # Extensions
///
/// The service finds in the extensions of a request:
///
/// - [`Principal`]: the principal of the token, and nothing if no authentication is required. The
///   header `Authorization` is removed.
/// - [`ClientAddress`]: the address of the client, if [`serve`](super::serve) or the program has
///   inserted it.
/// - [`ClientKey`]: the identity of the client, for further limits.
///
/// # Sharing
///
/// Clones, and the services of one layer, share the counters.
#[derive(Clone)]
pub struct AccessLayer {
    shared: Arc<Shared>,
    requires_token: bool,
}

/// The service of an [`AccessLayer`]. The body of a request for the inner service is a
/// [`LimitedBody`].
#[derive(Clone, Debug)]
pub struct Access<S> {
    inner: S,
    layer: AccessLayer,
}

struct Shared {
    authenticator: Authenticator,
    origins: Origins,
    requests: Option<RequestLimit>,
    config: AccessConfig,
}

/// An admitted request, with the failure of its body.
type Admitted<B> = (Request<LimitedBody<B>>, Arc<OnceLock<BodyError>>);

impl AccessLayer {
    /// Creates a layer with the checks of `config`.
    pub fn new(config: AccessConfig) -> Self {
        let shared = Shared {
            authenticator: Authenticator::new(config.tokens.clone(), config.resource.clone()),
            origins: Origins::new(&config.allowed_hosts, &config.allowed_origins),
            requests: config.max_requests_per_minute.map(RequestLimit::per_minute),
            config,
        };
        Self { shared: Arc::new(shared), requires_token: true }
    }

    /// Returns a layer with the same checks and counters that requires no token, for public paths
    /// such as a health check. Its requests have no principal, and count for the address of the
    /// client. A header `Authorization` is removed.
    #[must_use]
    pub fn without_authentication(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), requires_token: false }
    }

    /// Returns the protected resource of the configuration.
    pub fn resource(&self) -> Option<&ProtectedResource> {
        self.shared.config.resource.as_ref()
    }

    /// Answers a request for metadata, or checks `request`. Sets `caller` to the principal of the
    /// request before the checks that may fail after its authentication.
    async fn admit<B: Body>(
        &self,
        mut request: Request<B>,
        caller: &mut Option<Principal>,
    ) -> Result<Admitted<B>, Box<Response<ResponseBody>>> {
        let shared = &*self.shared;
        let rejected = |rejection: Rejection| Box::new(rejection.into_response());
        let address = request.extensions().get::<ClientAddress>().copied();
        let metadata = self.resource().filter(|it| it.is_metadata_path(request.uri().path()));
        if let Some(resource) = metadata {
            shared.count(&ClientKey::new(None, address)).map_err(rejected)?;
            return Err(Box::new(metadata_response(request.method(), resource)));
        }
        let authenticated = match self.requires_token {
            true => shared.authenticator.authenticate(request.headers()).await,
            false => Ok(None),
        };
        let principal = authenticated.as_ref().ok().and_then(Option::as_ref);
        *caller = principal.cloned();
        let client = ClientKey::new(principal, address);
        shared.count(&client).map_err(rejected)?;
        check_singular_headers(&request).map_err(rejected)?;
        shared.origins.check(&request).map_err(rejected)?;
        let principal = authenticated.map_err(rejected)?;
        if principal.is_some() || !self.requires_token {
            request.headers_mut().remove(AUTHORIZATION);
        }
        let extensions = request.extensions_mut();
        extensions.insert(client);
        extensions.remove::<Principal>();
        if let Some(principal) = principal {
            extensions.insert(principal);
        }
        let failure = Arc::default();
        let (max_bytes, max_time) = (shared.config.max_body_bytes, shared.config.body_timeout);
        let limit = |body| LimitedBody::new(body, max_bytes, max_time, Arc::clone(&failure));
        let request = request.map(limit);
        Ok((request, failure))
    }
}

impl Shared {
    fn count(&self, client: &ClientKey) -> Result<(), Rejection> {
        let Some(limit) = &self.requests else { return Ok(()) };
        limit.count(client).map_err(Rejection::TooManyRequests)
    }

    /// Passes a request to the hook if `response` rejects it.
    fn report(
        &self,
        response: &Response<ResponseBody>,
        address: Option<ClientAddress>,
        principal: Option<Principal>,
    ) {
        let hook: Option<&RejectionHook> = self.config.rejection_hook.as_ref();
        if let (Some(hook), status @ (401 | 403 | 429)) = (hook, response.status().as_u16()) {
            let principal = principal.map(|principal| principal.id);
            hook(&RejectedRequest { status, address: address.map(|it| it.0), principal });
        }
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Access<S>;

    fn layer(&self, inner: S) -> Access<S> {
        Access { inner, layer: self.clone() }
    }
}

impl<S> Access<S> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the layer of the service.
    pub fn access_layer(&self) -> &AccessLayer {
        &self.layer
    }
}

impl<S, B, R> Service<Request<B>> for Access<S>
where
    S: Service<Request<LimitedBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that is ready serves the request. Its clone may not be ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let address = request.extensions().get::<ClientAddress>().copied();
            let mut principal = None;
            let response = match layer.admit(request, &mut principal).await {
                Ok((request, failure)) => {
                    let response = inner.call(request).await?;
                    match failure.get() {
                        Some(error) => Rejection::Body(*error).into_response(),
                        None => response.map(|body| body.map_err(Into::into).boxed_unsync()),
                    }
                }
                Err(response) => *response,
            };
            layer.shared.report(&response, address, principal);
            Ok(response)
        })
    }
}

impl fmt::Debug for AccessLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLayer")
            .field("config", &self.shared.config)
            .field("requires_token", &self.requires_token)
            .finish()
    }
}

/// Returns the metadata of `resource` (RFC 9728, section 3.2). Web pages of other origins can read
/// it.
fn metadata_response(method: &Method, resource: &ProtectedResource) -> Response<ResponseBody> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text_response(StatusCode::METHOD_NOT_ALLOWED, "the method must be GET\n");
    }
    let mut response = Response::new(full_body(resource.metadata().to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}

#[cfg(test)]
mod tests;
