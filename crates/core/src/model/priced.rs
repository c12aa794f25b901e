use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};

use super::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile};
use crate::usage::Prices;

/// A model whose replies say what they cost, as [`ChatModelExt::priced`](super::ChatModelExt::priced) makes it.
#[derive(Clone, Debug)]
pub struct Priced<M> {
    model: M,
    prices: Prices,
}

impl<M: ChatModel> Priced<M> {
    pub(super) fn new(model: M, prices: Prices) -> Self {
        Self { model, prices }
    }

    fn note(&self, response: &mut ChatResponse) {
        set_cost(&self.prices, response, &self.model.profile().name);
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Priced<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut response = self.model.chat(request).await?;
        self.note(&mut response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = self.model.stream(request).map_ok(|mut event| {
            if let ChatEvent::Finished(response) = &mut event {
                self.note(response);
            }
            event
        });
        events.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

/// Sets the cost of a reply, by the name of the model that replied or else of the one that was requested.
/// A reply without reported tokens, without a known price, or with a cost already is left unchanged: a
/// wrapper nearer to the model has better prices.
fn set_cost(prices: &Prices, response: &mut ChatResponse, requested: &str) {
    if response.usage.priced > 0 {
        return;
    }
    let price =
        response.model.as_deref().and_then(|model| prices.get(model)).or_else(|| prices.get(requested));
    if let (Some(price), true) = (price, response.usage.is_reported()) {
        response.usage.cost = price.of(&response.usage);
        response.usage.priced = response.usage.requests.max(1);
    }
}
