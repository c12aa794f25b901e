use super::{ChatModel, Priced};
use crate::usage::Prices;

/// What can be done with any model.
pub trait ChatModelExt: ChatModel + Sized {
    /// Notes on each reply [what it cost](crate::usage::Usage::cost), by these prices. A reply of which the tokens are not told, or whose
    /// model has no price, is left as it is: nothing is guessed. So is one that has its cost already, by prices nearer to the model.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, Message, model::{ChatModelExt, ChatRequest}, usage::{Price, Prices}};
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
