use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};

use super::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile, Prices};

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
        self.prices.note(response, &self.model.profile().name);
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
