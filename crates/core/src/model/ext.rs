use super::{ChatModel, Priced, Prices};

/// What can be done with any model.
pub trait ChatModelExt: ChatModel + Sized {
    /// Notes on each reply [what it cost](super::Usage::cost), by these prices. A reply of which the tokens are not told, or whose
    /// model has no price, is left as it is: nothing is guessed.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, ChatModelExt, ChatRequest, ChatResponse, Message, Price, Prices, Usage, testing::ScriptedModel};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let reply = ChatResponse { usage: Usage::of_request(1_000, 100), ..ChatResponse::new("Hello.") };
    /// let prices = Prices::new().with("scripted", Price::new(1.0, 10.0));
    /// let model = ScriptedModel::new().reply(reply).priced(prices);
    /// let reply = model.chat(&ChatRequest::new([Message::user("Hi")])).await?;
    /// assert_eq!(reply.usage.cost.units(), 0.002);
    /// # Ok::<(), haft_core::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn priced(self, prices: Prices) -> Priced<Self> {
        Priced::new(self, prices)
    }
}

impl<M: ChatModel> ChatModelExt for M {}
