//! Fallback to another model after a failed request.

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

/// A model that tries several models in order, created by [`new`](Self::new) or
/// [`ModelMiddleware::with_fallback`](crate::ModelMiddleware::with_fallback).
///
/// Each request is sent to the first model. If it fails with an error that [allows a
/// fallback](ModelError::allows_fallback), it is sent to the next model. An unavailable or
/// overloaded server allows a fallback, but an invalid request does not.
/// [`fallback_on`](Self::fallback_on) sets another condition. Each fallback is logged at the level
/// `warn`. A model completes its own retries before the next model is tried.
///
/// # Streams
///
/// A streamed request can fall back only before its first event, so no event is repeated. A later
/// error is passed on unchanged and ends the stream.
///
/// # Replies and errors
///
/// [`ChatResponse::model`] names the model that replied. The usage covers only this reply, not the
/// failed requests. If several models fail, the error is [`ModelError::AllFailed`], which contains
/// the error of each model. If only one model was tried, its error is returned unchanged.
///
/// # Profile
///
/// The [profile](ChatModel::profile) contains the features supported by all models, and the
/// smallest context window. If one of the models does not support native tool calls, an agent uses
/// calls in JSON or text with all of them. The name in the profile combines the names of all
/// models, so a price list usually has no entry for it. If the price list has no entry for the
/// model names in the replies either, set the prices on [each
/// model](haft_core::model::ChatModelExt::priced) separately.
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
/// #         Ok(ChatResponse { usage: Usage::one_request(1_000, 100), ..ChatResponse::new(text) })
/// #     }
/// #     fn profile(&self) -> &ModelProfile {
/// #         &self.0
/// #     }
/// # }
/// # let (hosted, local) = (Example(ModelProfile::new("hosted"), Err(503)), Example(ModelProfile::new("local"), Ok("Hello.")));
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // The server of `hosted` is overloaded.
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
    should_fall_back: Arc<dyn Fn(&ModelError) -> bool + Send + Sync>,
    profile: ModelProfile,
}

impl FallbackModel {
    /// Creates a model without a fallback. Add fallbacks with
    /// [`with_fallback`](Self::with_fallback).
    pub fn new(model: impl ChatModel + 'static) -> Self {
        let profile = model.profile().clone();
        Self {
            models: vec![Arc::new(model)],
            should_fall_back: Arc::new(ModelError::allows_fallback),
            profile,
        }
    }

    /// Adds `model` as the last model. A request is sent to it only if all models added earlier
    /// have failed.
    #[must_use]
    pub fn with_fallback(mut self, model: impl ChatModel + 'static) -> Self {
        self.profile = common_profile(self.profile, model.profile());
        self.models.push(Arc::new(model));
        self
    }

    /// Sets the condition for a fallback. The next model is tried if `should_fall_back` returns
    /// `true` for the error of the current model. The default is [`ModelError::allows_fallback`].
    ///
    /// # Examples
    ///
    /// Also falls back if a conversation exceeds the context window of the first model:
    ///
    /// ```
    /// use haft_core::{ChatModel, model::ModelError};
    /// use haft_middleware::ModelMiddleware;
    /// use haft_middleware::FallbackModel;
    /// # fn example(small: impl ChatModel + 'static, large: impl ChatModel + 'static) -> FallbackModel {
    ///
    /// FallbackModel::new(small).with_fallback(large).fallback_on(|error| {
    ///     error.allows_fallback() || matches!(error, ModelError::ContextTooLong(_))
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn fallback_on(
        mut self,
        should_fall_back: impl Fn(&ModelError) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.should_fall_back = Arc::new(should_fall_back);
        self
    }

    /// Calls `attempt` with each model in order, until a request succeeds or its error does not
    /// allow a fallback. Returns the first success, or the [combined](combine_errors) errors of all
    /// tried models.
    async fn try_each<'a, T>(
        &'a self,
        mut attempt: impl FnMut(&'a dyn ChatModel) -> BoxFuture<'a, Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        let mut failures = Vec::new();
        let nexts = self.models.iter().skip(1).map(Some).chain(iter::once(None));
        for (model, next) in self.models.iter().zip(nexts) {
            let error = match ModelError::catch_panic(async { attempt(&**model).await }).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let next = next.filter(|_| (self.should_fall_back)(&error));
            let name = name_of(&**model).await;
            if let Some(next) = next {
                let next = name_of(&**next).await;
                tracing::warn!(model = name, next, error = %error, "a model failed; trying the next");
            }
            failures.push(ModelFailure { model: name, error });
            if next.is_none() {
                break;
            }
        }
        Err(combine_errors(failures))
    }
}

/// Returns the name of `model`, or an empty string if its code panics.
async fn name_of(model: &dyn ChatModel) -> String {
    let name = async { Ok(model.profile().name.clone()) };
    ModelError::catch_panic(name).await.unwrap_or_default()
}

/// Returns a profile with the features supported by both `one` and `other`, and the smaller context
/// window.
fn common_profile(one: ModelProfile, other: &ModelProfile) -> ModelProfile {
    ModelProfile {
        name: format!("{} or {}", one.name, other.name),
        supports_native_tools: one.supports_native_tools && other.supports_native_tools,
        supports_json_schema: one.supports_json_schema && other.supports_json_schema,
        supports_images: one.supports_images && other.supports_images,
        supports_audio: one.supports_audio && other.supports_audio,
        supports_files: one.supports_files && other.supports_files,
        context_window: one.context_window.into_iter().chain(other.context_window).min(),
        hosted_tools: one.hosted_tools.into_iter().filter(|tool| other.hosted_tools.contains(tool)).collect(),
    }
}

/// Sets the model name in `response` to the name of `model`, unless the provider has already set
/// it.
fn fill_in_model_name(response: &mut ChatResponse, model: &dyn ChatModel) {
    response.model.get_or_insert_with(|| model.profile().name.clone());
}

/// Sends `request`, waits for the first event of the streamed reply, and returns a stream that
/// includes this event. Fails if the stream fails or ends before the first event.
async fn start_stream<'a>(
    model: &'a dyn ChatModel,
    request: &'a ChatRequest,
) -> Result<BoxStream<'a, Result<ChatEvent, ModelError>>, ModelError> {
    let mut events = model.stream(request);
    let first = events.next().await.ok_or_else(missing_reply_error)??;
    let events = stream::iter([Ok(first)]).chain(events).map_ok(|mut event| {
        if let ChatEvent::Finished(response) = &mut event {
            fill_in_model_name(response, model);
        }
        event
    });
    Ok(events.boxed())
}

#[async_trait]
impl ChatModel for FallbackModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let chat = |model| async move {
            let mut response = ChatModel::chat(model, request).await?;
            fill_in_model_name(&mut response, model);
            Ok(response)
        };
        self.try_each(|model| chat(model).boxed()).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.try_each(|model| start_stream(model, request).boxed()).try_flatten_stream().boxed()
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

/// Combines `failures` into [`ModelError::AllFailed`]. The error of a single model is returned
/// unchanged.
fn combine_errors(mut failures: Vec<ModelFailure>) -> ModelError {
    match failures.pop() {
        Some(only) if failures.is_empty() => only.error,
        last => ModelError::AllFailed { failures: failures.into_iter().chain(last).collect() },
    }
}

/// Creates the error for a stream that ended without a complete reply and without an error.
pub(crate) fn missing_reply_error() -> ModelError {
    let reason = "the stream ended before the reply".to_owned();
    ModelError::Truncated { reason, partial: Box::default() }
}

#[cfg(test)]
mod tests;
