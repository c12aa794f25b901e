//! The server and its routes.

use std::{
    collections::BTreeSet, convert::Infallible, io, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, FromRequestParts, MatchedPath, Path, Request, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::FutureExt as _;
use haft_core::tool::{HostState, Principal, RunContext};
use haft_http::server::{AccessConfig, AccessLayer, ListenerConfig, serve};
use haft_mcp::{HttpServiceConfig, McpServer, McpService};
use haft_react::{AgentBuildError, Extension, ReactAgent, ReactAgentBuilder, hook::EarlierTurns};
use haft_session::{RequestKey, Retention, SessionKey, SessionStore};
use opentelemetry_sdk::metrics::{MeterProviderBuilder, SdkMeterProvider};
use serde::{Deserialize as _, Deserializer, de::Error as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    error::{ApiError, with_json_error},
    metrics::Metrics,
    openapi,
    stored::{LEASE, MAX_RUNS, RunSlots, StoredAgent},
};

/// The HTTP server: tools, chat, stored conversations and runs.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool};
/// use haft_react::ReactAgent;
/// use haft_server::Server;
/// use haft_testing::ScriptedModel;
///
/// /// Adds two integers.
/// #[tool]
/// fn add(x: i64, y: i64) -> i64 {
///     x + y
/// }
///
/// let tools = Toolset::new().with_tool(Add);
/// let agent = ReactAgent::builder(ScriptedModel::new()).tools(tools);
/// let server = Server::builder(agent).build()?;
/// // The routes of the server under a prefix of another router:
/// let router: axum::Router = axum::Router::new().nest("/ai", server.router());
/// # Ok::<(), haft_react::AgentBuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
    access: AccessLayer,
    requires_token: bool,
    mcp: McpService,
    listener: ListenerConfig,
    retention: Retention,
}

/// What the handlers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) agent: ReactAgent,
    pub(crate) stored: Option<StoredAgent>,
    pub(crate) metrics: Metrics,
    slots: RunSlots,
}

/// A builder for a [`Server`].
#[must_use]
pub struct ServerBuilder {
    agent: ReactAgentBuilder,
    store: Option<Arc<dyn SessionStore>>,
    retention: Retention,
    access: AccessConfig,
    listener: ListenerConfig,
    max_runs: usize,
    earlier_turns: Option<EarlierTurns>,
    meter_provider: MeterProviderBuilder,
}

/// The tools that a run offers to the model. `None` offers all.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfferedTools(pub(crate) Option<BTreeSet<String>>);

/// The time for which events are kept.
const EVENTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The time between two deletions of old data.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The path of the MCP service.
const MCP: &str = "/mcp";

/// The name of the extension that hides tools.
const EXTENSION: &str = "haft-server";

/// The caller of a request. Without authentication, all callers are one tenant.
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
}

impl Caller {
    pub(crate) fn tenant(&self) -> &str {
        self.principal.as_ref().map_or("", |principal| principal.id.as_str())
    }

    /// Returns the context of a run of this caller.
    pub(crate) fn context(&self, tools: OfferedTools) -> RunContext {
        let context = RunContext { principal: self.principal.clone(), ..RunContext::default() };
        RunContext { state: self.state().with_value(tools), ..context }
    }

    /// Returns the state of the caller, which sources can use to select tools.
    pub(crate) fn state(&self) -> HostState {
        match &self.principal {
            Some(principal) => HostState::new().with_value(principal.clone()),
            None => HostState::new(),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self { principal: parts.extensions.get::<Principal>().cloned() })
    }
}

/// The session of a path with its id.
pub(crate) struct PathSession {
    pub(crate) stored: StoredAgent,
    pub(crate) key: SessionKey,
}

impl FromRequestParts<Arc<Shared>> for PathSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let id = Path::<String>::from_request_parts(parts, shared).await;
        let Path(id) = id.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        let Ok(caller) = Caller::from_request_parts(parts, shared).await;
        let stored = shared.stored()?.clone();
        Ok(Self { stored, key: SessionKey::of_tenant(caller.tenant(), id)? })
    }
}

impl ServerBuilder {
    /// Sets the store of conversations and runs. Without one, the routes of sessions and runs
    /// return 404.
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Deletes the stored conversations without a write for `time`, except those with a run that is
    /// not over. This is done once an hour while the server [serves](Server::serve), as for events
    /// older than 30 days. Default: conversations are kept.
    pub fn delete_sessions_after(mut self, time: Duration) -> Self {
        self.retention = self.retention.with_sessions(time);
        self
    }

    /// Sets the access rules: hosts, origins, tokens, rates and the size of bodies. The default
    /// admits requests from this machine without a token.
    pub fn access(mut self, access: AccessConfig) -> Self {
        self.access = access;
        self
    }

    /// Sets the limits of connections.
    pub fn listener(mut self, listener: ListenerConfig) -> Self {
        self.listener = listener;
        self
    }

    /// Sets how a request contains the earlier turns of its conversation. `None` sends their calls and
    /// results as messages. Default: [`EarlierTurns::new`], with a section "Tool Execution Results".
    pub fn earlier_turns(mut self, hook: impl Into<Option<EarlierTurns>>) -> Self {
        self.earlier_turns = hook.into();
        self
    }

    /// Sets the maximum number of runs and direct calls in progress. Further ones are rejected with
    /// status 503 and `Retry-After`. Default: 512.
    pub fn max_runs(mut self, runs: usize) -> Self {
        self.max_runs = runs;
        self
    }

    /// Sets the builder of the OpenTelemetry meter provider, for example with a reader that exports
    /// the metrics. Default: no further reader. `GET /metrics` is a reader in any case.
    ///
    /// The model requests of the agent are measured. Those of a model that a hook selects, of a
    /// separate compactor, and of other agents that are tools, are not.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::ReactAgent;
    /// use haft_server::Server;
    /// use haft_testing::ScriptedModel;
    /// use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider};
    ///
    /// let resource = Resource::builder().with_service_name("assistant").build();
    /// let metrics = SdkMeterProvider::builder().with_resource(resource);
    /// let agent = ReactAgent::builder(ScriptedModel::new());
    /// let server = Server::builder(agent).meter_provider(metrics).build()?;
    /// # Ok::<(), haft_react::AgentBuildError>(())
    /// ```
    pub fn meter_provider(mut self, builder: MeterProviderBuilder) -> Self {
        self.meter_provider = builder;
        self
    }

    /// Builds the server. Needs a tokio runtime if there is a store.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`ReactAgentBuilder::build`].
    pub fn build(self) -> Result<Server, AgentBuildError> {
        // Another writer can append to a conversation between a call and its result.
        let agent = self.agent.repair_history().extension(offered_tools());
        let agent = match self.earlier_turns {
            Some(hook) => agent.hook(hook),
            None => agent,
        };
        let metrics = Metrics::new(self.meter_provider);
        let agent = metrics.measure(agent).build()?;
        let slots = Arc::new(Semaphore::new(self.max_runs.min(Semaphore::MAX_PERMITS)));
        let slots = RunSlots { slots, active: Some(metrics.active_runs()) };
        let new = |store| StoredAgent::with_slots(agent.clone(), store, LEASE, slots.clone());
        let stored = self.store.map(new);
        let shared = Arc::new(Shared { agent, stored, metrics, slots });
        let config = HttpServiceConfig::default().with_access(self.access.clone());
        let mcp = McpService::new(McpServer::new(shared.agent.tools().clone()), config);
        let (listener, retention) = (self.listener, self.retention);
        let requires_token = self.access.requires_authentication();
        let access = AccessLayer::new(self.access);
        Ok(Server { shared, access, requires_token, mcp, listener, retention })
    }
}

/// Returns the extension that hides the tools that a request does not offer. The choice is saved
/// with the run.
fn offered_tools() -> Extension {
    Extension::new(EXTENSION).prepare(|mut request, cx| async move {
        let saved = cx.entries.get::<BTreeSet<String>>("tools")?;
        let offered = match cx.run.state.get::<OfferedTools>() {
            Some(OfferedTools(offered)) if saved.is_none() => {
                if let Some(offered) = offered {
                    cx.entries.set("tools", offered)?;
                }
                offered.clone()
            }
            _ => saved,
        };
        if let Some(offered) = offered {
            request.retain_tools(|tool| offered.contains(tool.name().as_str()));
        }
        Ok(request)
    })
}

impl Server {
    /// Creates a builder for a server of an agent. The tools of the agent are the tools of the
    /// server.
    pub fn builder(agent: ReactAgentBuilder) -> ServerBuilder {
        let (access, listener) = (AccessConfig::default(), ListenerConfig::default());
        let retention = Retention::default().with_events(EVENTS);
        let earlier_turns = Some(EarlierTurns::new());
        let meter_provider = SdkMeterProvider::builder();
        let (store, max_runs) = (None, MAX_RUNS);
        ServerBuilder { agent, store, retention, access, listener, max_runs, earlier_turns, meter_provider }
    }

    /// Returns the stored runs. `None` without a store. A program that serves the
    /// [`router`](Self::router) itself continues the runs of earlier processes with
    /// [`StoredAgent::keep_abandoned_running`], and ends with [`StoredAgent::shut_down`].
    pub fn stored(&self) -> Option<&StoredAgent> {
        self.shared.stored.as_ref()
    }

    /// Returns the meter provider of the metrics. A program flushes it before it ends, and can add
    /// instruments of its own to `GET /metrics`.
    pub fn meter_provider(&self) -> &SdkMeterProvider {
        self.shared.metrics.provider()
    }

    /// Returns the routes of the server, with its access rules, to be served or nested in another
    /// router.
    pub fn router(&self) -> Router {
        let (routes, description) = openapi::routes(self.requires_token);
        // The access layer limits bodies.
        let routes = routes.with_state(Arc::clone(&self.shared)).layer(DefaultBodyLimit::disable());
        let public = openapi::page(description).layer(self.access.without_authentication());
        Router::new()
            .merge(routes.layer(self.access.clone()))
            .merge(public)
            .route("/health", get(async || Json(json!({"status": "ok"}))))
            // The MCP service has its own access layer, with the same rules.
            .route_service(MCP, self.mcp.clone())
            // Unknown paths are not measured.
            .route_layer(from_fn_with_state(self.shared.metrics.clone(), respond))
            .fallback(async || ApiError::not_found("there is no such route"))
    }

    /// Serves the routes until `shutdown` is ready. Then requests in progress end within the grace
    /// period of the listener, and the drivers of stored runs stop: their runs continue when a
    /// server starts with the same store.
    ///
    /// # Errors
    ///
    /// Fails if the listener fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let mcp = self.mcp.clone();
        let stored = self.shared.stored.clone();
        let shutdown = async {
            shutdown.await;
            // Their readers continue at the next server.
            if let Some(stored) = &self.shared.stored {
                stored.live().close();
            }
        };
        let close = move || {
            mcp.close();
            if let Some(stored) = stored {
                stored.stopping().cancel();
            }
        };
        let served = serve(self.router(), listener, &self.listener, shutdown, close);
        let sweep = async {
            match &self.shared.stored {
                Some(stored) => {
                    let running = stored.keep_abandoned_running(context_of_tenant);
                    tokio::join!(running, prune(&**stored.store(), &self.retention));
                }
                None => std::future::pending().await,
            }
        };
        let served = tokio::select! {
            served = served => served,
            () = sweep => Ok(()),
        };
        if let Some(stored) = &self.shared.stored {
            stored.shut_down().await;
        }
        served
    }
}

/// Deletes what `retention` does not keep, once an hour.
async fn prune(store: &dyn SessionStore, retention: &Retention) {
    loop {
        if let Err(error) = store.prune(retention).await {
            tracing::warn!(%error, "old data cannot be deleted");
        }
        tokio::time::sleep(PRUNE_INTERVAL).await;
    }
}

/// Measures a request, also one whose handler panics, and converts a plain-text error to JSON.
async fn respond(
    State(metrics): State<Metrics>,
    route: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let measured = metrics.measure_request(&route, request.method());
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let response = response.unwrap_or_else(|_panic| {
        tracing::error!("the handler of a request panicked");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed").into_response()
    });
    let is_mcp = route.as_str().ends_with(MCP);
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let response = if is_error && !is_mcp { with_json_error(response).await } else { response };
    measured.respond(response)
}

/// Returns the context of a run that continues without a request of its caller.
fn context_of_tenant(tenant: &str) -> RunContext {
    let principal = Principal { id: tenant.to_owned(), ..Principal::default() };
    RunContext { principal: Some(principal).filter(|_| !tenant.is_empty()), ..RunContext::default() }
}

impl Shared {
    pub(crate) fn stored(&self) -> Result<&StoredAgent, ApiError> {
        self.stored.as_ref().ok_or_else(|| ApiError::not_found("this server stores no conversations"))
    }

    /// Returns the permit of a run or a call that is not stored.
    pub(crate) fn take_slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.slots.take().ok_or_else(ApiError::overloaded)
    }
}

/// The header with the key of a request that its client may repeat
/// (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The maximum length of the key of a request, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Returns the identity of a request to `path`, if it has a key.
pub(crate) fn request_key(
    headers: &HeaderMap,
    path: &str,
    body: &[u8],
) -> Result<Option<RequestKey>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    // The draft has a quoted string, and many clients send none.
    let text = value.to_str().unwrap_or_default();
    let id = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let is_valid = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if id.is_empty() || id.len() > MAX_KEY_BYTES || !id.bytes().all(is_valid) {
        let detail = format!(
            "the header Idempotency-Key must have 1 to {MAX_KEY_BYTES} ASCII characters without spaces"
        );
        return Err(ApiError::new(StatusCode::BAD_REQUEST, detail));
    }
    let hash = Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize();
    let fingerprint = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(RequestKey { id: id.to_owned(), fingerprint }))
}

/// Rejects a key where a repeated request would not be recognized.
pub(crate) fn reject_request_key(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.contains_key(IDEMPOTENCY_KEY) {
        true => Err(ApiError::invalid(
            "the header Idempotency-Key needs a stored conversation: repeated, this request would act again",
        )),
        false => Ok(()),
    }
}

/// The largest integer that all JSON parsers read exactly (RFC 8259, section 6).
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Reads an integer of a query.
pub(crate) fn query_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text.parse().ok().filter(|number| *number <= MAX_INTEGER);
    let number =
        number.ok_or_else(|| D::Error::custom(format!("{text:?} is no integer from 0 to {MAX_INTEGER}")));
    number.map(Some)
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("access", &self.access).finish_non_exhaustive()
    }
}
