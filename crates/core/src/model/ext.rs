use std::sync::Arc;

use tower_layer::Layer;

use super::{
    CachedReplies, ChatModel, ChatService, FallbackModel, LayeredModel, ModelService, Priced, Prices,
    ReplyCache,
};

/// What can be done with any model.
pub trait ChatModelExt: ChatModel + Sized {
    /// Notes on each reply [what it cost](super::Usage::cost), by these prices. A reply of which the tokens are not told, or whose
    /// model has no price, is left as it is: nothing is guessed. So is one that has its cost already, by prices nearer to the model.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, ChatModelExt, ChatRequest, Message, Price, Prices};
    /// # use haft_core::{ChatResponse, ModelError, ModelProfile, Usage, async_trait};
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
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let model = small.priced(Prices::new().with("small", Price::new(1.0, 10.0)));
    /// let reply = model.chat(&ChatRequest::new([Message::user("Hi")])).await?;
    /// assert_eq!(reply.usage.cost.units(), 0.002);
    /// # Ok::<(), haft_core::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn priced(self, prices: Prices) -> Priced<Self> {
        Priced::new(self, prices)
    }

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
    /// service of [`ChatRequest`](super::ChatRequest) that answers a [`ChatStream`](super::ChatStream), and can be cloned; each request is made by a clone.
    ///
    /// The reply streams through: the service answers when the reply begins. So a timeout is one for the beginning, a retry is for
    /// what fails before that, and a limit of requests at a time counts those that have not begun to be answered. What comes
    /// later, a layer sees in the stream. An error that is a [`ModelError`](super::ModelError) keeps its meaning.
    ///
    /// A service that cannot be cloned, such as a limit of requests a minute, goes under a `Buffer`: `.buffer(16).rate_limit(60, minute)`. Both need a
    /// runtime where they are made, and work as long as that does: make them in the runtime of the program. What is dropped while it waits for its
    /// turn takes none. A limit of tokens is not to be had before the reply; a server that has one says so, with how long to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, ChatModelExt, ChatRequest, Message};
    /// # use haft_core::{ChatResponse, ModelError, ModelProfile, Usage, async_trait};
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
    /// # Ok::<(), haft_core::ModelError>(()) })?;
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

impl<M: ChatModel> ChatModelExt for M {}
