//! Models that are asked for the next message.

mod canonical;
mod error;
mod ext;
mod priced;
mod profile;
mod request;
mod response;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};

pub use error::{ModelError, ModelFailure, TimeoutPhase};
pub use ext::ChatModelExt;
pub use priced::Priced;
pub use profile::ModelProfile;
pub use request::{ChatRequest, ChatSettings, ResponseFormat, ToolChoice};
pub use response::{ChatEvent, ChatResponse, FinishReason};

/// A language model that takes a conversation and says the next message.
///
/// # Cancellation
///
/// Dropping the future or the stream ends the request; nothing goes on in the background.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Asks for the whole reply.
    ///
    /// # Errors
    ///
    /// Fails with a [`ModelError`] when there is no complete reply. A half-received call is never returned.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError>;

    /// Asks for the reply as it comes: deltas, then exactly one [`ChatEvent::Finished`] with the whole of it.
    ///
    /// A stream that ends without it was cut, and ends with an error instead. The default asks
    /// [`chat`](Self::chat) and gives the reply in one piece.
    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        stream::once(self.chat(request))
            .flat_map(|reply| match reply {
                Ok(response) => stream::iter(response.into_events().map(Ok).collect::<Vec<_>>()),
                Err(error) => stream::iter(vec![Err(error)]),
            })
            .boxed()
    }

    /// What the model can do.
    fn profile(&self) -> &ModelProfile;
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        M::chat(self, request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        M::stream(self, request)
    }

    fn profile(&self) -> &ModelProfile {
        M::profile(self)
    }
}
