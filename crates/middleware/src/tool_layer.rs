//! [`tower`](https://docs.rs/tower) layers around a tool.

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
    call::{BoxError, ToolResponse},
};

use crate::service::{IntoLayerError, LayerError, ServiceTemplate};

/// A tool call, as a request to a `tower` service. It owns all its data, so that layers can store
/// and clone it.
///
/// The `Debug` output omits the arguments, since they may contain secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct CallRequest {
    /// The definition of the tool, including its policy.
    pub definition: ToolDefinition,
    /// The arguments of the call, already validated against the input schema. If a layer changes
    /// them, they are not validated again.
    pub arguments: Value,
    /// The context of the call: principal, state, deadline, and the decision of a resumed call.
    pub context: ToolContext,
    /// The tool to call. `None` if the [`ToolService`] itself contains the tool, as with
    /// [`ToolService::new`].
    tool: Option<Arc<dyn Tool>>,
    /// The number of tool executions for this request that have started and not returned. Used to
    /// detect executions dropped by a layer. Clones of the request share the counter.
    in_flight: Arc<AtomicUsize>,
}

impl CallRequest {
    /// Creates the request for a call. Inside a layer, pass on the received request instead of
    /// creating a new request: with
    /// [`ToolsetMiddleware::layered`](crate::ToolsetMiddleware::layered), only the original request
    /// contains the tool to call.
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

/// A `tower` service that calls a tool. Layers wrap this service. It is always ready.
#[derive(Clone)]
pub struct ToolService(Option<Arc<dyn Tool>>);

impl ToolService {
    /// Creates a service that calls `tool`.
    pub fn new(tool: Arc<dyn Tool>) -> Self {
        Self(Some(tool))
    }

    /// Creates a service without a tool. Each request contains the tool to call, so several tools
    /// can share the service.
    pub(crate) fn without_tool() -> Self {
        Self(None)
    }
}

impl Service<CallRequest> for ToolService {
    type Response = ToolResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ToolResponse, BoxError>>;

    fn poll_ready(&mut self, _task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CallRequest) -> Self::Future {
        let CallRequest { arguments, context, tool, in_flight, .. } = request;
        let tool = self.0.clone().or(tool);
        Box::pin(async move {
            let Some(tool) = tool else {
                return Err(
                    "a layer created its own request: it must pass on the request that it received".into()
                );
            };
            in_flight.fetch_add(1, Ordering::Relaxed);
            let outcome = tool.call(arguments, &context).await;
            in_flight.fetch_sub(1, Ordering::Relaxed);
            outcome.map_err(Into::into)
        })
    }
}

/// A trait alias for `tower` services that can call a tool, such as a [`ToolService`] wrapped in
/// layers.
///
/// Implemented for all services that satisfy the bounds of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot call a tool",
    label = "the service of this layer is not a `CallService`",
    note = "it must be a `Service<CallRequest>` with the response `ToolResponse`, `Clone + Send + 'static`, with a `Send` future",
    note = "wrap a service without `Clone`, such as `RateLimit`, in a `Buffer`"
)]
pub trait CallService:
    Service<CallRequest, Response = ToolResponse, Error: IntoLayerError, Future: Send> + Clone + Send + 'static
{
}

// Without `do_not_recommend`, so that the compiler names the missing bound, such as `Clone`.
impl<S> CallService for S where
    S: Service<CallRequest, Response = ToolResponse, Error: IntoLayerError, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// A tool wrapped in a `tower` layer, created by
/// [`ToolMiddleware::layer`](crate::ToolMiddleware::layer).
pub struct LayeredTool<S> {
    definition: ToolDefinition,
    service: Arc<ServiceTemplate<S>>,
    /// The tool that is passed in each [`CallRequest`]. `None` if the service itself contains the
    /// tool.
    tool: Option<Arc<dyn Tool>>,
}

impl<S: CallService> LayeredTool<S> {
    pub(crate) fn new(definition: ToolDefinition, service: S) -> Self {
        Self { definition, service: Arc::new(ServiceTemplate::new(service)), tool: None }
    }

    /// Creates a tool that calls `tool` through `service`, which other tools
    /// [share](ToolService::without_tool).
    pub(crate) fn with_shared_service(tool: Arc<dyn Tool>, service: Arc<ServiceTemplate<S>>) -> Self {
        Self { definition: tool.definition().clone(), service, tool: Some(tool) }
    }
}

#[async_trait]
impl<S: CallService> Tool for LayeredTool<S> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let request = CallRequest::new(self.definition.clone(), arguments, cx.clone());
        let request = CallRequest { tool: self.tool.clone(), ..request };
        let in_flight = Arc::clone(&request.in_flight);
        self.service.call(request).await.map_err(|error| match error {
            LayerError::Expected(error) => error,
            LayerError::TimedOut(after) => {
                let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                ToolError::TimedOut { after: Duration::from_millis(millis) }
            }
            LayerError::Other(error) => {
                // If the counter is above 0, a layer dropped the future of a running call, and it
                // is unknown which side effects the call had.
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
