//! Extension traits that apply middleware to tools, toolsets and models.

use std::sync::Arc;

use haft_core::{ChatModel, Tool, ToolSource, Toolset};
use tower_layer::Layer;

use crate::{
    CachedModel, CallService, ChatService, FallbackModel, LayeredModel, LayeredTool, ModelService,
    ReplyCache, ToolService, source_layer::LayerAdaptor,
};

/// An extension trait that applies `tower` layers to a tool.
pub trait ToolMiddleware: Tool {
    /// Wraps the tool in a `tower` layer, such as a timeout, a rate limit, a retry or a custom
    /// layer.
    ///
    /// The layer wraps a service with the request type [`CallRequest`](crate::CallRequest). The
    /// wrapped service must be `Clone`, and each call uses its own clone.
    ///
    /// # Order
    ///
    /// Layers run inside the pipeline of tool calls. A call is validated and approved before it
    /// reaches the layers, and the time spent in the layers counts towards its deadline. The
    /// pipeline checks the result returned by the layers, and catches their panics. When a
    /// suspended call resumes, it passes through the layers again.
    ///
    /// A layer receives the definition that the tool has when the layer is applied. Later changes
    /// to the definition, for example with `with_definition`, affect only the pipeline.
    ///
    /// # Errors of layers
    ///
    /// - A [`ToolError`](haft_core::ToolError) is returned unchanged.
    /// - The timeout error of `tower` or tokio becomes
    ///   [`ToolError::TimedOut`](haft_core::ToolError::TimedOut), which contains the elapsed time.
    /// - Any other error that a layer returns while the tool is still running becomes
    ///   [`ToolError::Unconfirmed`](haft_core::ToolError::Unconfirmed), unless the tool is
    ///   idempotent.
    /// - The remaining errors become [`ToolError::Failed`](haft_core::ToolError::Failed). The model
    ///   receives their text.
    ///
    /// The error type of a layer must convert to a [`BoxError`](haft_core::call::BoxError), see
    /// [`IntoLayerError`](crate::IntoLayerError).
    ///
    /// Apply retry layers only to [idempotent](haft_core::tool::ToolPolicy::idempotent) tools.
    ///
    /// # Services without `Clone`
    ///
    /// Wrap a service without `Clone`, such as a rate limit, in a `Buffer`. A buffer spawns a task,
    /// so create it in a runtime that lives as long as the tool. To call such a tool from
    /// synchronous code, use [`Runtime::block_on`](tokio::runtime::Runtime::block_on) of that
    /// runtime. `invoke_blocking` and `call_blocking` are not suitable, because they create a new
    /// runtime for each call.
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
    /// let tools = Toolset::new().with_tool(Weather.layer(limits));
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

/// An extension trait that applies `tower` layers to all tools of a toolset or another tool source.
pub trait ToolsetMiddleware: ToolSource + Sized + 'static {
    /// Wraps each tool in a `tower` layer, in the same way as [`ToolMiddleware::layer`].
    ///
    /// Each tool has its own instance of the layered service. A concurrency limit therefore counts
    /// the calls to each tool separately. To limit the calls to all tools in total, use
    /// `GlobalConcurrencyLimitLayer`.
    ///
    /// When the list of tools changes, a tool with an equal definition keeps its instance, even if
    /// a server or an adaptor has recreated the tool. All callers share the instances. A layer must
    /// pass on the [`CallRequest`](crate::CallRequest) that it received, or a clone of it.
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
    ///     file if file == "budget.ods" => Err(ToolError::Denied("the file is protected".to_owned())),
    ///     _ => Ok(request),
    /// });
    /// let tools = Toolset::new().with_tool(Delete).layered(guard);
    /// assert_eq!(tools.call("delete", json!({"file": "old.log"})).await.model_text(), "old.log is gone");
    /// let denied = tools.call("delete", json!({"file": "budget.ods"})).await;
    /// assert_eq!(denied.model_text(), "denied: the file is protected");
    /// # });
    /// ```
    fn layered<L>(self, layer: L) -> Toolset
    where
        L: Layer<ToolService, Service: CallService> + Send + Sync + 'static,
    {
        Toolset::from_source(self).adapted(LayerAdaptor::new(layer))
    }
}

impl<S: ToolSource + Sized + 'static> ToolsetMiddleware for S {}

/// An extension trait that adds fallbacks, caches and `tower` layers to a model.
pub trait ModelMiddleware: ChatModel + Sized {
    /// Adds `model` as a fallback for failed requests to this model. See [`FallbackModel`].
    fn with_fallback(self, model: impl ChatModel + 'static) -> FallbackModel
    where
        Self: 'static,
    {
        FallbackModel::new(self).with_fallback(model)
    }

    /// Caches the replies of this model in `cache`. See [`ReplyCache`].
    fn cached(self, cache: &ReplyCache) -> CachedModel<Self> {
        CachedModel::new(self, cache)
    }

    /// Wraps the model in a `tower` layer, such as a timeout, a rate limit, a retry or a custom
    /// layer.
    ///
    /// The layer wraps a service with the request type
    /// [`ChatRequest`](haft_core::model::ChatRequest) and the response type
    /// [`ChatStream`](crate::ChatStream). The wrapped service must be `Clone`, and each request
    /// uses its own clone. If a layer returns a [`ModelError`](haft_core::model::ModelError), it is
    /// passed on unchanged. The timeout error of `tower` or tokio becomes
    /// [`ModelError::TimedOut`](haft_core::model::ModelError::TimedOut), and any other error
    /// becomes [`ModelError::Failed`](haft_core::model::ModelError::Failed).
    ///
    /// # Streaming
    ///
    /// The future of the service completes at the first event of the reply. The response is a
    /// stream of all events, including the first. Therefore:
    ///
    /// - a timeout limits only the time until the first event
    /// - a retry covers only errors before the first event
    /// - a concurrency limit counts a request only until its first event
    ///
    /// A layer can wrap the stream to observe the later events.
    ///
    /// # Services without `Clone`
    ///
    /// Wrap a service without `Clone`, such as a rate limit, in a `Buffer`:
    /// `.buffer(16).rate_limit(60, minute)`. Create both in a runtime that lives as long as the
    /// model: the buffer spawns a task, and the rate limit uses a timer. Dropping a queued request
    /// frees its slot.
    ///
    /// A layer cannot limit the number of tokens per minute, because the tokens of a request are
    /// known only after the reply. A server with a limit on tokens rejects requests with an error
    /// that contains the time to wait.
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
    /// #         Ok(ChatResponse { usage: Usage::one_request(1_000, 100), ..ChatResponse::new(text) })
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
