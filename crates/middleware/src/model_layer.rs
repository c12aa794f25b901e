//! Layers of [tower](https://docs.rs/tower) around a model.

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
    fallback::missing_reply,
    service::{LayerError, ServiceTemplate},
};

/// One reply as it comes, owned by whoever reads it.
pub type ChatStream = BoxStream<'static, Result<ChatEvent, ModelError>>;

/// A model as a service of `tower`: what a layer is put around. It is always ready, and answers when the reply begins: an error
/// before that is the error of the service, which a layer may try again.
#[derive(Clone)]
pub struct ModelService(Arc<dyn ChatModel>);

impl ModelService {
    /// Makes a service of a model.
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
        let mut events = owned(Arc::clone(&self.0), request);
        let begun = async move {
            match events.next().await {
                Some(Err(error)) => Err(error.into()),
                first => Ok(stream::iter(first).chain(events).boxed()),
            }
        };
        begun.boxed()
    }
}

/// The reply of a model with all that it borrows. Nothing is spawned: whoever reads drives, and dropping ends the request.
fn owned(model: Arc<dyn ChatModel>, request: ChatRequest) -> ChatStream {
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

/// A service that replies: what a layer makes of a [`ModelService`]. Every such service is one by itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service of replies",
    label = "this layer makes no service that a model can be",
    note = "it must be a `Service<ChatRequest>` that answers a `ChatStream`, `Clone + Send + 'static`, with a future that is `Send`",
    note = "a service that cannot be cloned, such as `RateLimit`, goes under a `Buffer`"
)]
pub trait ChatService:
    Service<ChatRequest, Response = ChatStream, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static
{
}

#[diagnostic::do_not_recommend]
impl<S> ChatService for S where
    S: Service<ChatRequest, Response = ChatStream, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// A model with a layer around it, as [`ModelMiddleware::layer`](crate::ModelMiddleware::layer) makes it.
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
        Err(missing_reply())
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let started = self.service.call(request.clone()).map_err(|error| match error {
            LayerError::Typed(error) => error,
            LayerError::TimedOut(after) => ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after },
            LayerError::Other(error) => ModelError::failed(error),
        });
        started.try_flatten_stream().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

#[cfg(test)]
mod tests;

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
