use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};

use super::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile};
use crate::usage::Prices;

/// A model wrapper that computes the cost of each reply from [`Prices`]. Created by
/// [`ChatModelExt::priced`](super::ChatModelExt::priced).
#[derive(Clone, Debug)]
pub struct PricedModel<M> {
    model: M,
    prices: Prices,
}

impl<M: ChatModel> PricedModel<M> {
    pub(super) fn new(model: M, prices: Prices) -> Self {
        Self { model, prices }
    }

    /// Sets the cost of `response` if it has no cost yet, its tokens were reported, and its model
    /// has a price. An existing cost is kept. It may come from an inner `PricedModel` with more
    /// specific prices, or be the zero cost of a cached reply.
    fn add_cost(&self, response: &mut ChatResponse) {
        if response.usage.priced_requests > 0 {
            return;
        }
        let replied = response.model.as_deref().and_then(|model| self.prices.get(model));
        let price = replied.or_else(|| self.prices.get(&self.model.profile().name));
        if let (Some(price), true) = (price, response.usage.is_reported()) {
            response.usage.cost = price.cost_of(&response.usage);
            response.usage.priced_requests = response.usage.requests.max(1);
        }
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for PricedModel<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut response = self.model.chat(request).await?;
        self.add_cost(&mut response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = self.model.stream(request).map_ok(|mut event| {
            if let ChatEvent::Finished(response) = &mut event {
                self.add_cost(response);
            }
            event
        });
        events.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}
