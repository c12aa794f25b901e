use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};

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

    fn note(&self, mut response: ChatResponse) -> ChatResponse {
        self.prices.note(&mut response, &self.model.profile().name);
        response
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Priced<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        Ok(self.note(self.model.chat(request).await?))
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = self.model.stream(request).map(|event| match event {
            Ok(ChatEvent::Finished(response)) => Ok(ChatEvent::Finished(self.note(response))),
            other => other,
        });
        events.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}
