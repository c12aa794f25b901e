use std::sync::Arc;

use tower_layer::Layer;

use super::{ChatModel, ChatService, LayeredModel, ModelService, Priced, Prices};

/// What can be done with any model.
pub trait ChatModelExt: ChatModel + Sized {
    /// Notes on each reply [what it cost](super::Usage::cost), by these prices. A reply of which the tokens are not told, or whose
    /// model has no price, is left as it is: nothing is guessed.
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

    /// Puts a layer of `tower` around the model: a limit, a timeout, a retry, or a hook of your own. It is any layer over a
    /// service of [`ChatRequest`](super::ChatRequest) that answers a [`ChatStream`](super::ChatStream), and can be cloned; each request is made by a clone.
    ///
    /// The reply streams through: the service answers when the reply begins. So a timeout is one for the beginning, a retry is for
    /// what fails before that, and a limit of requests at a time counts those that have not begun to be answered. What comes
    /// later, a layer sees in the stream. An error that is a [`ModelError`](super::ModelError) keeps its meaning.
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
