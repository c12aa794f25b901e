//! Models that stand in for one another.

use std::{fmt, iter, sync::Arc};

use async_trait::async_trait;
use futures::{
    FutureExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _, TryStreamExt as _},
};

use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelFailure, ModelProfile},
};

/// A model that asks another one where the first fails, as [`ModelMiddleware::with_fallback`](crate::ModelMiddleware::with_fallback) makes it.
///
/// Each request begins with the first model. Which errors go on to the next is decided by
/// [`ModelError::may_succeed_elsewhere`], or by a [function](Self::fallback_on) of yours: a server that is down or busy does, a request that is
/// wrong does not. Each time it is told in the log, at the level `warn`. What a model tries again by itself it has tried by then.
///
/// A stream goes on to the next model only before its first event: what a watcher was told is not told twice. What breaks
/// later is an error with the partial text, as it is with one model.
///
/// [`ChatResponse::model`] says who replied, and the usage is that of this reply. Where nobody did, the error names each model that was asked, with
/// its reason ([`ModelError::NoneReplied`]); that of a single model is given as it is.
///
/// The [profile](ChatModel::profile) is what all of them can do, so that an agent speaks to each in a way that it understands: beside a
/// model without native tools, one that has them is asked in JSON or text, too. The name is made of all names. So where prices are by the
/// name that was asked for, give them to [each model](haft_core::model::ChatModelExt::priced).
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::{ChatModelExt, ChatRequest, ModelError}};
/// use haft_middleware::ModelMiddleware;
/// # use haft_core::{export::async_trait, model::{ChatResponse, ModelProfile}, usage::Usage};
/// # struct Example(ModelProfile, Result<&'static str, u16>);
/// # #[async_trait]
/// # impl ChatModel for Example {
/// #     async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
/// #         let failed = |status| ModelError::Server { status: Some(status), body: "overloaded".to_owned(), retry_after: None };
/// #         let text = self.1.map_err(failed)?;
/// #         Ok(ChatResponse { usage: Usage::of_request(1_000, 100), ..ChatResponse::new(text) })
/// #     }
/// #     fn profile(&self) -> &ModelProfile {
/// #         &self.0
/// #     }
/// # }
/// # let (hosted, local) = (Example(ModelProfile::new("hosted"), Err(503)), Example(ModelProfile::new("local"), Ok("Hello.")));
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // `hosted` is down.
/// let model = hosted.with_fallback(local);
/// let reply = model.chat(&ChatRequest::new([Message::user("Hi")])).await?;
/// assert_eq!(reply.message.text(), "Hello.");
/// assert_eq!(reply.model.as_deref(), Some("local"));
/// # Ok::<(), ModelError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FallbackModel {
    models: Vec<Arc<dyn ChatModel>>,
    goes_on: Arc<dyn Fn(&ModelError) -> bool + Send + Sync>,
    profile: ModelProfile,
}

impl FallbackModel {
    /// Makes one of a model that nothing stands in for yet.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        let profile = model.profile().clone();
        Self { models: vec![Arc::new(model)], goes_on: Arc::new(ModelError::may_succeed_elsewhere), profile }
    }

    /// Adds a model that is asked where all before it fail.
    #[must_use]
    pub fn with_fallback(mut self, model: impl ChatModel + 'static) -> Self {
        self.profile = shared(self.profile, model.profile());
        self.models.push(Arc::new(model));
        self
    }

    /// Sets which errors go on to the next model, in place of those that [may succeed elsewhere](ModelError::may_succeed_elsewhere).
    ///
    /// # Examples
    ///
    /// A model that reads more, for conversations that have become too long for the first:
    ///
    /// ```
    /// use haft_core::{ChatModel, model::ModelError};
    /// use haft_middleware::ModelMiddleware;
    /// use haft_middleware::FallbackModel;
    /// # fn example(small: impl ChatModel + 'static, large: impl ChatModel + 'static) -> FallbackModel {
    ///
    /// FallbackModel::new(small).with_fallback(large).fallback_on(|error| {
    ///     error.may_succeed_elsewhere() || matches!(error, ModelError::ContextTooLong(_))
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn fallback_on(mut self, goes_on: impl Fn(&ModelError) -> bool + Send + Sync + 'static) -> Self {
        self.goes_on = Arc::new(goes_on);
        self
    }

    /// Asks one model after the other.
    async fn ask<'a, T>(
        &'a self,
        mut ask: impl FnMut(&'a dyn ChatModel) -> BoxFuture<'a, Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        let mut failures = Vec::new();
        let nexts = self.models.iter().skip(1).map(Some).chain(iter::once(None));
        for (model, next) in self.models.iter().zip(nexts) {
            let error = match ask(&**model).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let next = next.filter(|_| (self.goes_on)(&error));
            let name = &model.profile().name;
            if let Some(next) = next {
                tracing::warn!(model = name, next = next.profile().name, error = %error, "a model failed; asking the next");
            }
            failures.push(ModelFailure { model: name.clone(), error });
            if next.is_none() {
                break;
            }
        }
        Err(of_failures(failures))
    }
}

/// What both can do.
fn shared(one: ModelProfile, other: &ModelProfile) -> ModelProfile {
    ModelProfile {
        name: format!("{} or {}", one.name, other.name),
        native_tools: one.native_tools && other.native_tools,
        json_schema: one.json_schema && other.json_schema,
        images: one.images && other.images,
        audio: one.audio && other.audio,
        files: one.files && other.files,
        context_window: one.context_window.into_iter().chain(other.context_window).min(),
    }
}

/// Says who replied, where the reply does not.
fn sign(response: &mut ChatResponse, model: &dyn ChatModel) {
    response.model.get_or_insert_with(|| model.profile().name.clone());
}

/// A reply that has begun: an error in place of its beginning is one of the whole.
async fn begun<'a>(
    model: &'a dyn ChatModel,
    request: &'a ChatRequest,
) -> Result<BoxStream<'a, Result<ChatEvent, ModelError>>, ModelError> {
    let mut events = model.stream(request);
    let first = events.next().await.ok_or_else(without_end)??;
    let events = stream::iter([Ok(first)]).chain(events).map_ok(|mut event| {
        if let ChatEvent::Finished(response) = &mut event {
            sign(response, model);
        }
        event
    });
    Ok(events.boxed())
}

#[async_trait]
impl ChatModel for FallbackModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let whole = |model| async move {
            let mut response = ChatModel::chat(model, request).await?;
            sign(&mut response, model);
            Ok(response)
        };
        self.ask(|model| whole(model).boxed()).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.ask(|model| begun(model, request).boxed()).try_flatten_stream().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FallbackModel({})", self.profile.name)
    }
}

#[cfg(test)]
mod tests;

/// Returns the error of a single model as it is, otherwise the errors of all models.
fn of_failures(mut failures: Vec<ModelFailure>) -> ModelError {
    match failures.pop() {
        Some(only) if failures.is_empty() => only.error,
        last => ModelError::NoneReplied { failures: failures.into_iter().chain(last).collect() },
    }
}

/// The error of a stream that ended without a reply and without an error.
pub(crate) fn without_end() -> ModelError {
    let reason = "the stream ended before the reply".to_owned();
    ModelError::Truncated { reason, partial: Box::default() }
}
