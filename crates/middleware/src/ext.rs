//! Extension traits that apply middleware.

use std::sync::Arc;

use haft_core::{ChatModel, Tool, ToolSource, Toolset, toolset::ToolSourceExt as _};
use tower_layer::Layer;

use crate::{
    CachedReplies, CallService, ChatService, FallbackModel, LayeredModel, LayeredTool, ModelService,
    ReplyCache, ToolService, source_layer::Layered,
};

/// Layers around a tool.
pub trait ToolMiddleware: Tool {
    /// Puts a layer of `tower` around the tool: a limit, a timeout, a retry, or one of your own. It is any layer over a service of
    /// [`CallRequest`](crate::CallRequest) that makes one that can be cloned; each call is made by a clone.
    ///
    /// The layers are inside the pipeline: a call has been validated and permitted before it comes to them, its deadline
    /// holds for them as well, what they answer is checked, and their panics are caught. A call that waits passes them once more when it goes
    /// on. What a layer reports is told to the model by its text, and a [`ToolError`](haft_core::ToolError) keeps its meaning; where it gave up a call that had
    /// begun, of a tool that is not idempotent, that is [`Unconfirmed`](haft_core::ToolError::Unconfirmed). The timeout of tower
    /// does not say how long it waited: that is measured, so that the model reads `timed out after 50 ms`, give or take
    /// one.
    ///
    /// A service that cannot be cloned, such as a rate limit, goes under a `Buffer`, which needs a runtime where it is made and works as long as
    /// that does: make it in the runtime of the program, not in a call that blocks. Called from synchronous code, a tool with a `Buffer` is for
    /// [`Runtime::block_on`](tokio::runtime::Runtime::block_on) of that runtime, since `invoke_blocking` and `call_blocking` may each have one of
    /// their own. A layer that makes calls again is for [idempotent](haft_core::tool::Policy::idempotent) tools.
    ///
    /// The layers see the definition that the tool has here. What is changed afterwards, as its policy by `with_definition`, counts for the
    /// pipeline and not for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::{tool, ToolExt, Toolset};
    /// use haft_middleware::ToolMiddleware;
    /// use serde_json::json;
    /// use tower::ServiceBuilder;
    ///
    /// /// Looks up the weather.
    /// #[tool]
    /// async fn weather(city: String) -> String {
    ///     std::future::pending().await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let limits = ServiceBuilder::new()
    ///     .buffer(8)
    ///     .rate_limit(5, Duration::from_secs(1))
    ///     .concurrency_limit(2)
    ///     .timeout(Duration::from_millis(50));
    /// let tools = Toolset::new().with(Weather.layer(limits));
    /// assert_eq!(tools.call("weather", json!({"city": "Oslo"})).await.model_text(), "timed out after 50 ms");
    /// # }
    /// ```
    fn layer<L>(self, layer: L) -> LayeredTool<L::Service>
    where
        Self: Sized + 'static,
        L: Layer<ToolService, Service: CallService>,
    {
        let definition = self.definition().clone();
        LayeredTool::new(definition, layer.layer(ToolService::new(Arc::new(self))))
    }
}

impl<T: Tool + ?Sized> ToolMiddleware for T {}

/// Layers around the tools of a toolset or of any source.
pub trait ToolsetMiddleware: ToolSource + Sized + 'static {
    /// Wraps each tool in a layer of `tower`, as [`ToolMiddleware::layer`] does: for steps before or after each call, and for
    /// limits.
    ///
    /// Each tool has its own instance of the layer, so a concurrency limit counts the calls of one tool; use
    /// `GlobalConcurrencyLimitLayer` for a limit over all of them. When the list changes, a tool with the same name and an
    /// equal definition keeps its instance, also if a server or an adaptor recreated it, and for every caller. A layer must
    /// pass on the request that it received.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ToolError, Toolset, tool};
    /// use haft_middleware::{CallRequest, ToolsetMiddleware};
    /// use serde_json::json;
    /// use tower::ServiceBuilder;
    ///
    /// #[tool]
    /// fn delete(file: String) -> String {
    ///     format!("{file} is gone")
    /// }
    ///
    /// # futures::executor::block_on(async {
    /// let guard = ServiceBuilder::new().filter(|request: CallRequest| match &request.arguments["file"] {
    ///     file if file == "budget.ods" => Err(ToolError::Denied("nobody deletes that".to_owned())),
    ///     _ => Ok(request),
    /// });
    /// let tools = Toolset::new().with(Delete).layered(guard);
    /// assert_eq!(tools.call("delete", json!({"file": "old.log"})).await.model_text(), "old.log is gone");
    /// let denied = tools.call("delete", json!({"file": "budget.ods"})).await;
    /// assert_eq!(denied.model_text(), "denied: nobody deletes that");
    /// # });
    /// ```
    fn layered<L>(self, layer: L) -> Toolset
    where
        L: Layer<ToolService, Service: CallService> + Send + Sync + 'static,
    {
        self.into_toolset().adapted(Layered::new(layer))
    }
}

impl<S: ToolSource + Sized + 'static> ToolsetMiddleware for S {}

/// Wrappers and layers around a model.
pub trait ModelMiddleware: ChatModel + Sized {
    /// Asks another model where this one fails: see [`FallbackModel`]. More can be added to what comes of it.
    fn with_fallback(self, model: impl ChatModel + 'static) -> FallbackModel
    where
        Self: 'static,
    {
        FallbackModel::new(self).with_fallback(model)
    }

    /// Answers a request with the reply to an earlier one that was equal: see [`ReplyCache`].
    fn cached(self, cache: &ReplyCache) -> CachedReplies<Self> {
        CachedReplies::new(self, cache)
    }

    /// Puts a layer of `tower` around the model: a limit, a timeout, a retry, or a hook of your own. It is any layer over a
    /// service of [`ChatRequest`](haft_core::model::ChatRequest) that answers a [`ChatStream`](crate::ChatStream), and can be cloned; each request is made by a clone.
    ///
    /// The reply streams through: the service answers when the reply begins. So a timeout is one for the beginning, a retry is for
    /// what fails before that, and a limit of requests at a time counts those that have not begun to be answered. What comes
    /// later, a layer sees in the stream. An error that is a [`ModelError`](haft_core::model::ModelError) keeps its meaning.
    ///
    /// A service that cannot be cloned, such as a limit of requests a minute, goes under a `Buffer`: `.buffer(16).rate_limit(60, minute)`. Both need a
    /// runtime where they are made, and work as long as that does: make them in the runtime of the program. What is dropped while it waits for its
    /// turn takes none. A limit of tokens is not to be had before the reply; a server that has one says so, with how long to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, Message, model::{ChatModelExt, ChatRequest}};
    /// use haft_middleware::ModelMiddleware;
    /// # use haft_core::{export::async_trait, model::{ChatResponse, ModelError, ModelProfile}, usage::Usage};
    /// # struct Small(ModelProfile);
    /// # #[async_trait]
    /// # impl ChatModel for Small {
    /// #     async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
    /// #         let text = request.settings.max_tokens.map_or("Hello.".to_owned(), |most| format!("at most {most}"));
    /// #         Ok(ChatResponse { usage: Usage::of_request(1_000, 100), ..ChatResponse::new(text) })
    /// #     }
    /// #     fn profile(&self) -> &ModelProfile {
    /// #         &self.0
    /// #     }
    /// # }
    /// # let small = Small(ModelProfile::new("small"));
    /// use tower::{ServiceBuilder, timeout::TimeoutLayer};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let shorten = |mut request: ChatRequest| {
    ///     request.settings.max_tokens = Some(100);
    ///     request
    /// };
    /// let layers = ServiceBuilder::new()
    ///     .layer(TimeoutLayer::new(std::time::Duration::from_secs(20)))
    ///     .map_request(shorten);
    /// let model = small.layer(layers);
    /// assert_eq!(model.chat(&ChatRequest::new([Message::user("Hi")])).await?.message.text(), "at most 100");
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn layer<L>(self, layer: L) -> LayeredModel<L::Service>
    where
        Self: 'static,
        L: Layer<ModelService>,
        L::Service: ChatService,
    {
        let profile = self.profile().clone();
        LayeredModel::new(profile, layer.layer(ModelService::new(Arc::new(self))))
    }
}

impl<M: ChatModel> ModelMiddleware for M {}
