use super::{ChatModel, Priced};
use crate::usage::Prices;

/// Adaptors for any [`ChatModel`].
pub trait ChatModelExt: ChatModel + Sized {
    /// Sets the [cost](crate::usage::Usage::cost) of each reply, from its tokens and these prices.
    ///
    /// The price is looked up by the model name in the reply, then by the requested name. Replies
    /// without reported tokens, without a price, or with a cost already are left unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{
    ///     ChatModel, Message,
    ///     model::{ChatModelExt, ChatRequest},
    ///     usage::{Price, Prices},
    /// };
    /// # use haft_core::{export::async_trait, usage::Usage};
    /// # use haft_core::model::{ChatResponse, ModelError, ModelProfile};
    /// # struct Small(ModelProfile);
    /// # #[async_trait]
    /// # impl ChatModel for Small {
    /// #     async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
    /// #         let usage = Usage::of_request(1_000, 100);
    /// #         Ok(ChatResponse { usage, ..ChatResponse::new("Hello.") })
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
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn priced(self, prices: Prices) -> Priced<Self> {
        Priced::new(self, prices)
    }
}

impl<M: ChatModel> ChatModelExt for M {}
