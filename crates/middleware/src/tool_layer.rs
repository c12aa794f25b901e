//! Layers of [tower](https://docs.rs/tower) around a tool.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;
use tower_service::Service;

use haft_core::{
    Tool, ToolContext, ToolDefinition, ToolError,
    call::{BoxError, ToolOutcome},
};

use crate::service::{LayerError, ServiceTemplate};

/// One call on its way through the layers of a tool. It is owned, so that a layer can keep it, clone it or send it elsewhere.
///
/// Who prints it for debugging does not see the arguments: they may hold secrets of the caller.
#[derive(Clone)]
#[non_exhaustive]
pub struct CallRequest {
    /// What the tool is, and how the host runs it.
    pub definition: ToolDefinition,
    /// The arguments, which fit the tool's input schema. A layer that changes them vouches for what it makes of them.
    pub arguments: Value,
    /// For whom the call is made, until when, and with which answer if it waited.
    pub context: ToolContext,
    /// The tool that is called, where its layers are shared.
    tool: Option<Arc<dyn Tool>>,
    /// How many calls of the tool began and did not end.
    in_flight: Arc<AtomicUsize>,
}

impl CallRequest {
    /// Makes the request of a call. A layer sends on the one that it was given: around a source, a tool is found by that alone.
    pub fn new(definition: ToolDefinition, arguments: Value, context: ToolContext) -> Self {
        Self { definition, arguments, context, tool: None, in_flight: Arc::default() }
    }
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest")
            .field("tool", self.definition.name())
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// A tool as a service of `tower`: what a layer is put around. It is always ready.
#[derive(Clone)]
pub struct ToolService(Option<Arc<dyn Tool>>);

impl ToolService {
    /// Makes a service of a tool.
    pub fn new(tool: Arc<dyn Tool>) -> Self {
        Self(Some(tool))
    }

    /// Makes a service that calls the tool of each request.
    pub(crate) fn shared() -> Self {
        Self(None)
    }
}

impl Service<CallRequest> for ToolService {
    type Response = ToolOutcome;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ToolOutcome, BoxError>>;

    fn poll_ready(&mut self, _task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CallRequest) -> Self::Future {
        let CallRequest { arguments, context, tool, in_flight, .. } = request;
        let tool = self.0.clone().or(tool);
        Box::pin(async move {
            let Some(tool) = tool else {
                return Err(
                    "a layer made a request of its own: it must send on the one that it was given".into()
                );
            };
            in_flight.fetch_add(1, Ordering::Relaxed);
            let outcome = tool.call(arguments, &context).await;
            in_flight.fetch_sub(1, Ordering::Relaxed);
            outcome.map_err(Into::into)
        })
    }
}

/// A service that makes calls: what a layer makes of a [`ToolService`]. Every such service is one by itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service of calls",
    label = "this layer makes no service that a tool can be",
    note = "it must be a `Service<CallRequest>` that answers `ToolOutcome`, `Clone + Send + 'static`, with a future that is `Send`",
    note = "a service that cannot be cloned, such as `RateLimit`, goes under a `Buffer`"
)]
pub trait CallService:
    Service<CallRequest, Response = ToolOutcome, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static
{
}

#[diagnostic::do_not_recommend]
impl<S> CallService for S where
    S: Service<CallRequest, Response = ToolOutcome, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// A tool with a layer around it, as [`ToolMiddleware::layer`](crate::ToolMiddleware::layer) makes it.
pub struct LayeredTool<S> {
    definition: ToolDefinition,
    service: Arc<ServiceTemplate<S>>,
    /// The tool, where the service is shared.
    tool: Option<Arc<dyn Tool>>,
}

impl<S: CallService> LayeredTool<S> {
    pub(crate) fn new(definition: ToolDefinition, service: S) -> Self {
        Self { definition, service: Arc::new(ServiceTemplate::new(service)), tool: None }
    }

    /// Puts layers around a tool that are around others too: a [shared](ToolService::shared) service in them.
    pub(crate) fn sharing(tool: Arc<dyn Tool>, service: Arc<ServiceTemplate<S>>) -> Self {
        Self { definition: tool.definition().clone(), service, tool: Some(tool) }
    }
}

#[async_trait]
impl<S: CallService> Tool for LayeredTool<S> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let request = CallRequest::new(self.definition.clone(), arguments, cx.clone());
        let request = CallRequest { tool: self.tool.clone(), ..request };
        let in_flight = Arc::clone(&request.in_flight);
        self.service.call(request).await.map_err(|error| match error {
            LayerError::Typed(error) => error,
            LayerError::TimedOut(after) => {
                let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                ToolError::TimedOut { after: Duration::from_millis(millis) }
            }
            LayerError::Other(error) => {
                // The layer dropped a call that had started, so its side effects are unknown.
                let is_dropped = in_flight.load(Ordering::Relaxed) > 0;
                if is_dropped && !self.definition.policy().idempotent {
                    ToolError::Unconfirmed(error.to_string())
                } else {
                    ToolError::failed(error)
                }
            }
        })
    }
}

impl fmt::Debug for ToolService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolService").finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for LayeredTool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayeredTool").field("tool", self.definition.name()).finish_non_exhaustive()
    }
}
