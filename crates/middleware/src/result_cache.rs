//! Results of earlier calls.

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
    ttl_lru::{Ticket, TtlLru},
};
use haft_core::{
    ToolOutput,
    call::ToolOutcome,
    limits,
    schema::canonical,
    tool::{Principal, StateIdentity},
};

/// Answers a call with the result of an earlier one: a layer for tools whose policy is [idempotent](haft_core::tool::Policy::idempotent). Calls
/// of others go through it.
///
/// **The policy counts that the tool has where the layer is put around it**, not one that is set on the tool afterwards:
/// first `with_definition`, `approval_required` or `prepared`, then the layer.
///
/// A result is found again by the same tool, arguments (the order of keys does not matter, `3` and `3.0` are two), principal with
/// its scopes, and those values of the host program's [state](haft_core::tool::State) that the tool [lists](haft_core::ToolDefinition::with_state), within its
/// time to live, which counts from when its call began. So nobody is told what somebody else was. It carries a warning that says where it comes from and how old it is, and its
/// [record](haft_core::pipeline::CallRecord::is_cached) says that the tool did not run.
///
/// Kept is the whole result, as the tool gave it, if it fits the tool's output schema: what the model reads of it is bounded
/// afterwards, and its handle is the caller's own. A failure is not kept, nor a call that waited, nor one that goes on
/// after it did, nor one that read state that its tool does not list, as an agent that is a tool may. Of calls that are made at the same time each runs. What is asked for least recently is forgotten first.
///
/// Make it with the tools, and once: each tool that it is put around has results of its own, also if another is called the same.
/// That calling twice has the effect of calling once does not mean that it may be left out: put it around tools that look
/// something up, not around those that set it.
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
/// let tools = Toolset::new().with(Rate.layer(ResultCache::new(Duration::from_secs(60))));
/// assert_eq!(tools.call("rate", json!({"currency": "USD"})).await.model_text(), "1.17");
/// let again = tools.call("rate", json!({"currency": "USD"})).await;
/// assert_eq!(again.warnings, ["from the result cache, 0 s old"]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ResultCache(TtlLru<Key, ToolOutput>);

/// What an earlier call must have had in common with this one.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    tool: u64,
    arguments: String,
    principal: Option<Principal>,
    state: StateIdentity,
}

impl ResultCache {
    /// Makes a cache whose results last this long. It keeps [`limits::CACHED_RESULTS`] in [`limits::CACHED_RESULT_BYTES`].
    pub fn new(time_to_live: Duration) -> Self {
        Self(TtlLru::new(time_to_live, limits::CACHED_RESULTS, limits::CACHED_RESULT_BYTES))
    }

    /// Sets how many results are kept.
    #[must_use]
    pub fn with_entries(self, entries: usize) -> Self {
        Self(self.0.with_max_entries(entries))
    }

    /// Sets how many bytes of results and arguments are kept. A result that is larger by itself is not.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self(self.0.with_max_bytes(bytes))
    }

    /// Forgets all results, such as when what they tell has changed, also those of calls that are under way.
    pub fn clear(&self) {
        self.0.clear();
    }

    fn get(&self, key: &Key) -> Option<ToolOutput> {
        let (output, age) = self.0.get(key)?;
        let output = Arc::unwrap_or_clone(output);
        Some(output.with_warning(format!("from the result cache, {} s old", age.as_secs())))
    }

    fn insert(&self, key: Key, output: &ToolOutput, ticket: Ticket) {
        let bytes = output.byte_len().saturating_add(key.arguments.len());
        self.0.insert(key, bytes, ticket, || output.clone());
    }
}

impl<S> Layer<S> for ResultCache {
    type Service = CachedResults<S>;

    fn layer(&self, inner: S) -> CachedResults<S> {
        CachedResults { inner, cache: self.clone(), tool: self.0.next_owner() }
    }
}

/// A service whose results are kept, as the layer [`ResultCache`] makes it.
#[derive(Clone)]
pub struct CachedResults<S> {
    inner: S,
    cache: ResultCache,
    tool: u64,
}

impl<S> CachedResults<S> {
    /// What a result is found again by, if it may be.
    fn key(&self, request: &CallRequest) -> Option<Key> {
        let CallRequest { definition, arguments, context, .. } = request;
        let state = &context.run().state;
        // What a tool reads of it is known of a call in a pipeline.
        let is_watched = context.is_in_pipeline() || state.is_empty();
        (definition.policy().idempotent && context.resumed().is_none() && is_watched).then(|| Key {
            tool: self.tool,
            arguments: canonical(arguments),
            principal: context.principal().cloned(),
            state: state.identity(definition.state()),
        })
    }
}

impl<S> Service<CallRequest> for CachedResults<S>
where
    S: Service<CallRequest, Response = ToolOutcome, Error: Send, Future: Send> + Clone + Send + 'static,
{
    type Response = ToolOutcome;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<ToolOutcome, S::Error>>;

    /// Always ready: who finds a result need not wait for those who work.
    fn poll_ready(&mut self, _task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CallRequest) -> Self::Future {
        let key = self.key(&request);
        let cache = self.cache.clone();
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        Box::pin(async move {
            if let Some(found) = key.as_ref().and_then(|key| cache.get(key)) {
                request.context.mark_cached();
                return Ok(ToolOutcome::Done(found));
            }
            let (definition, context) = (request.definition.clone(), request.context.clone());
            let ticket = cache.0.ticket();
            poll_fn(|task| inner.poll_ready(task)).await?;
            let outcome = inner.call(request).await?;
            if let (Some(key), ToolOutcome::Done(output)) = (key, &outcome) {
                let is_of_key = !context.reads_undeclared_state();
                // What will be refused as a result is a failure.
                if is_of_key && definition.check_output(output).is_ok() {
                    cache.insert(key, output, ticket);
                }
            }
            Ok(outcome)
        })
    }
}

impl<S> std::fmt::Debug for CachedResults<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedResults").finish_non_exhaustive()
    }
}
