use super::{ChatModel, PricedModel};
use crate::usage::Prices;

/// Extension methods for every [`ChatModel`].
pub trait ChatModelExt: ChatModel + Sized {
    /// Wraps the model so that each reply has a [cost](crate::usage::Usage::cost), computed from
    /// its tokens and `prices`.
    ///
    /// The price is looked up by the model name in the reply. If `prices` has no price for this
    /// name, the name in the [profile](ChatModel::profile) is used. A reply is left unchanged if
    /// its tokens were not reported, if its model has no price, or if it already has a cost.
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
    /// #         let usage = Usage::one_request(1_000, 100);
    /// #         Ok(ChatResponse { usage, ..ChatResponse::new("Hello.") })
    /// #     }
    /// #     fn profile(&self) -> &ModelProfile {
    /// #         &self.0
    /// #     }
    /// # }
    /// # let small = Small(ModelProfile::new("small"));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let model = small.priced(Prices::new().with_price("small", Price::new(1.0, 10.0)));
    /// let reply = model.chat(&ChatRequest::new([Message::user("Hi")])).await?;
    /// assert_eq!(reply.usage.cost.units(), 0.002);
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn priced(self, prices: Prices) -> PricedModel<Self> {
        PricedModel::new(self, prices)
    }
}

impl<M: ChatModel> ChatModelExt for M {}
