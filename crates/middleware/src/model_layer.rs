//! [`tower`](https://docs.rs/tower) layers around a model.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::{
    FutureExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _},
};
use tokio::sync::mpsc;
use tower_service::Service;

use haft_core::{
    ChatModel,
    call::BoxError,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile, TimeoutPhase},
};

use crate::{
    fallback::missing_reply_error,
    service::{IntoLayerError, LayerError, ServiceTemplate},
};

/// An owned stream of the events of one model reply.
pub type ChatStream = BoxStream<'static, Result<ChatEvent, ModelError>>;

/// A `tower` service that sends requests to a model. Layers wrap this service. It is always ready.
///
/// The future of the service completes at the first event of the reply. If an error occurs before
/// the first event, the service returns it, so that a layer can retry the request.
#[derive(Clone)]
pub struct ModelService(Arc<dyn ChatModel>);

impl ModelService {
    /// Creates a service that sends requests to `model`.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self(model)
    }
}

impl Service<ChatRequest> for ModelService {
    type Response = ChatStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ChatStream, BoxError>>;

    fn poll_ready(&mut self, _task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ChatRequest) -> Self::Future {
        let mut events = owned_stream(Arc::clone(&self.0), request);
        let started = async move {
            match events.next().await {
                Some(Err(error)) => Err(error.into()),
                first => Ok(stream::iter(first).chain(events).boxed()),
            }
        };
        started.boxed()
    }
}

/// Returns the reply to `request` as a stream that owns the model and the request. No task is
/// spawned: polling the stream drives the request, and dropping the stream cancels the request.
fn owned_stream(model: Arc<dyn ChatModel>, request: ChatRequest) -> ChatStream {
    let (sender, mut events) = mpsc::channel(1);
    let work = async move {
        let mut reply = model.stream(&request);
        while let Some(event) = reply.next().await {
            if sender.send(event).await.is_err() {
                break;
            }
        }
    };
    let mut work = Some(work.boxed());
    let next = move |task: &mut Context<'_>| {
        if work.as_mut().is_some_and(|work| work.poll_unpin(task).is_ready()) {
            work = None;
        }
        events.poll_recv(task)
    };
    stream::poll_fn(next).boxed()
}

/// A trait alias for `tower` services that can be used as a model, such as a [`ModelService`]
/// wrapped in layers.
///
/// Implemented for all services that satisfy the bounds of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a model",
    label = "the service of this layer is not a `ChatService`",
    note = "it must be a `Service<ChatRequest>` with the response `ChatStream`, `Clone + Send + 'static`, with a `Send` future",
    note = "wrap a service without `Clone`, such as `RateLimit`, in a `Buffer`"
)]
pub trait ChatService:
    Service<ChatRequest, Response = ChatStream, Error: IntoLayerError, Future: Send> + Clone + Send + 'static
{
}

// Without `do_not_recommend`, so that the compiler names the missing bound, such as `Clone`.
impl<S> ChatService for S where
    S: Service<ChatRequest, Response = ChatStream, Error: IntoLayerError, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// A model wrapped in a `tower` layer, created by
/// [`ModelMiddleware::layer`](crate::ModelMiddleware::layer).
pub struct LayeredModel<S> {
    profile: ModelProfile,
    service: ServiceTemplate<S>,
}

impl<S: ChatService> LayeredModel<S> {
    pub(super) fn new(profile: ModelProfile, service: S) -> Self {
        Self { profile, service: ServiceTemplate::new(service) }
    }
}

#[async_trait]
impl<S: ChatService> ChatModel for LayeredModel<S> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut events = self.stream(request);
        while let Some(event) = events.next().await {
            if let ChatEvent::Finished(response) = event? {
                return Ok(*response);
            }
        }
        Err(missing_reply_error())
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let started = self.service.call(request.clone()).map_err(|error| match error {
            LayerError::Expected(error) => error,
            LayerError::TimedOut(after) => ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after },
            LayerError::Other(error) => ModelError::failed(error),
        });
        started.try_flatten_stream().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl std::fmt::Debug for ModelService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelService").finish_non_exhaustive()
    }
}

impl<S> std::fmt::Debug for LayeredModel<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayeredModel").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
