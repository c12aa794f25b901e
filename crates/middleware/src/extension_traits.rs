//! Extension traits that apply middleware to tools, toolsets and models.

use std::sync::Arc;

use haft_core::{ChatModel, Tool, ToolSource, Toolset, toolset::ToolSourceExt as _};
use tower_layer::Layer;

use crate::{
    CachedModel, CallService, ChatService, FallbackModel, LayeredModel, LayeredTool, ModelService,
    ReplyCache, ToolService,
    redacted_model::{RedactedModel, ReversibleRedaction},
    source_layer::LayerAdaptor,
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
        self.into_toolset().adapted(LayerAdaptor::new(layer))
    }
}

impl<S: ToolSource + Sized + 'static> ToolsetMiddleware for S {}

/// An extension trait that adds fallbacks, caches, redaction and `tower` layers to a model.
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

    /// Sends placeholders such as `[EMAIL_1]` to the model in place of sensitive values, and
    /// restores the values in its replies.
    ///
    /// The conversation of the program, its tools and its users contain the values, and only the
    /// model receives placeholders. Values are found in the texts of instructions, messages, tool
    /// results, reasoning, in links and the URIs of resources, and in the strings of JSON values
    /// and arguments. They are restored in the text, the reasoning, the refusal and the arguments
    /// of a reply, and in streamed deltas, even if a placeholder is split across deltas. Images,
    /// audio, files, keys of objects, numbers, tool names, tool definitions and provider data are
    /// not changed.
    ///
    /// # Mapping
    ///
    /// The mapping is computed from each request and never stored: values are numbered in the order
    /// of their first appearance in the messages. Values of the instructions alone have numbers of
    /// their own, as in `[EMAIL_I1]`. A conversation that only grows keeps its placeholders and
    /// thus its prompt cache, also after it was saved and loaded. If the start of the conversation
    /// is omitted or summarized, later values can get other numbers. A text of the conversation
    /// that looks like a placeholder is not used as a placeholder. Placeholders that the model
    /// invents stay in the reply.
    ///
    /// # Order
    ///
    /// Layers inside of the redacted model, such as a cache or a log, receive placeholders. Tracing
    /// spans of an agent with content, and layers around the redacted model, receive values.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, Message, model::ChatRequest};
    /// use haft_middleware::{ModelMiddleware, redacted_model::ReversibleRedaction};
    /// # use haft_core::{export::async_trait, model::{ChatResponse, ModelError, ModelProfile}};
    /// # struct Echo(ModelProfile);
    /// # #[async_trait]
    /// # impl ChatModel for Echo {
    /// #     async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
    /// #         let text = request.messages.iter().last().map(|last| last.text()).unwrap_or_default();
    /// #         assert_eq!(text, "Write to [EMAIL_1].");
    /// #         Ok(ChatResponse::new(text))
    /// #     }
    /// #     fn profile(&self) -> &ModelProfile {
    /// #         &self.0
    /// #     }
    /// # }
    /// # let model = Echo(ModelProfile::new("echo"));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// // The model receives "Write to [EMAIL_1]." and repeats it.
    /// let model = model.redacted(ReversibleRedaction::new().emails());
    /// let reply = model.chat(&ChatRequest::new([Message::user("Write to ann@example.org.")])).await?;
    /// assert_eq!(reply.message.text(), "Write to ann@example.org.");
    /// # Ok::<(), ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn redacted(self, redaction: ReversibleRedaction) -> RedactedModel
    where
        Self: 'static,
    {
        RedactedModel::new(Arc::new(self), redaction)
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
