//! An LRU cache of tool results.

use std::{
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    tool_layer::CallRequest,
    ttl_lru::{InsertTicket, TtlLru},
};
use haft_core::{
    ToolOutput,
    call::ToolResponse,
    limits,
    schema::canonical_json,
    tool::{Principal, StateIdentity},
};

/// An LRU cache of tool results, as a `tower` layer. Clones share the cached results.
///
/// Only results of [cacheable](haft_core::tool::ToolPolicy::cacheable) tools are cached: of idempotent
/// tools, unless their policy says otherwise. Calls to other tools are not affected.
///
/// A cached result has a warning with its age, and the
/// [record](haft_core::pipeline::CallRecord::is_cached) of the call is marked as cached. Concurrent
/// identical calls are not coalesced: each one runs.
///
/// # Cache key
///
/// - the tool instance: two tools with the same name do not share results, but clones of a layered
///   tool do
/// - the arguments: the order of object keys is ignored, and `3` and `3.0` differ
/// - the principal, with its scopes
/// - the values of the [state](haft_core::tool::HostState) that the tool
///   [declares](haft_core::ToolDefinition::with_state_type)
///
/// Since the principal is part of the key, results are never shared between principals. Cached
/// results expire after the time to live, counted from the start of the call.
///
/// # Not cached
///
/// - failed, suspended and resumed calls
/// - results that violate the output schema
///
/// Results are cached in full, before they are truncated. Each caller then gets its own handle to
/// read the rest of a long result.
///
/// # Placement
///
/// The layer reads the tool's policy when it is applied, so apply `with_definition`,
/// `approval_required` and `prepared` before the layer. Create the cache once, together with the
/// tools, and not for each request.
///
/// A call with a cached result does not run at all. An idempotent write such as `set_price` must run
/// each time, so its policy must have `cacheable: Some(false)`. So must the policy of a
/// [`DynamicTool`](haft_core::tool::DynamicTool) that reads host state which it does not declare.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use haft_middleware::ResultCache;
/// use haft_core::{tool, ToolExt, Toolset};
/// use haft_middleware::ToolMiddleware;
/// use serde_json::json;
///
/// /// Looks up the rate of a currency.
/// #[tool(idempotent)]
/// async fn rate(currency: String) -> f64 {
///     1.17
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tools = Toolset::new().with_tool(Rate.layer(ResultCache::new(Duration::from_secs(60))));
/// assert_eq!(tools.call("rate", json!({"currency": "USD"})).await.model_text(), "1.17");
/// let again = tools.call("rate", json!({"currency": "USD"})).await;
/// assert_eq!(again.warnings, ["from the result cache, 0 s old"]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ResultCache(TtlLru<Key, ToolOutput>);

/// The cache key of a result, with everything that may affect the result.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// A number that identifies the tool instance in the cache.
    tool_id: u64,
    arguments: String,
    principal: Option<Principal>,
    state: StateIdentity,
}

impl ResultCache {
    /// Creates a cache in which results expire after `time_to_live`. By default, it holds at most
    /// [`limits::RESULT_CACHE_ENTRIES`] results with a total size of [`limits::RESULT_CACHE_BYTES`]
    /// bytes.
    pub fn new(time_to_live: Duration) -> Self {
        Self(TtlLru::new(time_to_live, limits::RESULT_CACHE_ENTRIES, limits::RESULT_CACHE_BYTES))
    }

    /// Sets the maximum number of cached results.
    #[must_use]
    pub fn with_max_entries(self, entries: usize) -> Self {
        Self(self.0.with_max_entries(entries))
    }

    /// Sets the maximum total size of the cached results and their arguments, in bytes. A single
    /// result above this size is not cached.
    #[must_use]
    pub fn with_max_bytes(self, bytes: usize) -> Self {
        Self(self.0.with_max_bytes(bytes))
    }

    /// Removes all cached results, for example after a change of the underlying data. Results of
    /// calls in progress will not be cached either.
    pub fn clear(&self) {
        self.0.clear();
    }

    fn get(&self, key: &Key) -> Option<ToolOutput> {
        let (output, age) = self.0.get(key)?;
        let output = Arc::unwrap_or_clone(output);
        Some(output.with_warning(format!("from the result cache, {} s old", age.as_secs())))
    }

    fn insert(&self, key: Key, output: &ToolOutput, ticket: InsertTicket) {
        let bytes = output.byte_len().saturating_add(key.arguments.len());
        self.0.insert_if_current(key, bytes, ticket, || output.clone());
    }
}

impl<S> Layer<S> for ResultCache {
    type Service = CachedService<S>;

    fn layer(&self, inner: S) -> CachedService<S> {
        CachedService { inner, cache: self.clone(), tool: self.0.next_owner() }
    }
}

/// A `tower` service that returns cached results, created by the layer [`ResultCache`].
#[derive(Clone)]
pub struct CachedService<S> {
    inner: S,
    cache: ResultCache,
    tool: u64,
}

impl<S> CachedService<S> {
    /// Returns the cache key of the call `request`. `None` if its result must not be cached: the
    /// tool is not cacheable, or the call is resumed.
    fn cache_key(&self, request: &CallRequest) -> Option<Key> {
        let CallRequest { definition, arguments, context, .. } = request;
        (definition.policy().is_cacheable() && context.resumed().is_none()).then(|| Key {
            tool_id: self.tool,
            arguments: canonical_json(arguments),
            principal: context.principal().cloned(),
            state: context.host_state().identity(definition.state_types()),
        })
    }
}

impl<S> Service<CallRequest> for CachedService<S>
where
    S: Service<CallRequest, Response = ToolResponse, Error: Send, Future: Send> + Clone + Send + 'static,
{
    type Response = ToolResponse;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<ToolResponse, S::Error>>;

    /// Returns `Ready` without polling the inner service, so that a call with a cached result does
    /// not wait for a rate or concurrency limit.
    fn poll_ready(&mut self, _task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CallRequest) -> Self::Future {
        let key = self.cache_key(&request);
        let cache = self.cache.clone();
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        Box::pin(async move {
            if let Some(found) = key.as_ref().and_then(|key| cache.get(key)) {
                request.context.mark_cached();
                return Ok(ToolResponse::Done(found));
            }
            let definition = request.definition.clone();
            let ticket = cache.0.issue_ticket();
            poll_fn(|task| inner.poll_ready(task)).await?;
            let outcome = inner.call(request).await?;
            if let (Some(key), ToolResponse::Done(output)) = (key, &outcome) {
                // A result that violates the output schema is not cached, because the pipeline
                // replaces it with a failure.
                if definition.check_output(output).is_ok() {
                    cache.insert(key, output, ticket);
                }
            }
            Ok(outcome)
        })
    }
}

impl<S> std::fmt::Debug for CachedService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedService").finish_non_exhaustive()
    }
}
