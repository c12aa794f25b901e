//! The [`ChatModel`] trait, and its requests, replies and errors.

pub mod adapter;
mod call_accumulator;
mod call_ids;
mod canonical;
#[cfg(feature = "catalogue")]
pub mod catalogue;
mod chat_model_ext;
mod error;
mod hosted_tool;
mod priced;
mod profile;
mod request;
mod response;
mod server_error;
mod system_messages;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};

pub use call_accumulator::{CallAccumulator, CallPiece};
pub use call_ids::{CallIdFormat, CallIds, KeptIds};
pub use chat_model_ext::ChatModelExt;
pub use error::{ModelError, ModelFailure, TimeoutPhase};
pub use hosted_tool::{FileSearch, HostedMcpServer, HostedTool, HostedToolKind, WebSearch};
pub use priced::PricedModel;
pub use profile::ModelProfile;
pub use request::{ChatRequest, ChatSettings, ResponseFormat, ToolChoice};
pub use response::{ChatEvent, ChatResponse, FinishReason};
pub use server_error::ServerError;
pub use system_messages::{later_system_text, split_system_messages};

/// A chat model that receives a conversation and returns the next message.
///
/// # Cancellation
///
/// Dropping the future or the stream cancels the model request. No work continues in the
/// background.
///
/// # Examples
///
/// A model without tools:
///
/// ```
/// use haft_core::{
///     ChatModel, Message,
///     export::async_trait,
///     model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
/// };
///
/// /// Replies with the text of the last message.
/// struct Echo {
///     profile: ModelProfile,
/// }
///
/// #[async_trait]
/// impl ChatModel for Echo {
///     async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
///         let last = request.messages.iter().last();
///         let last = last.ok_or_else(|| ModelError::Unsupported("no messages".to_owned()))?;
///         Ok(ChatResponse::new(last.text()))
///     }
///
///     fn profile(&self) -> &ModelProfile {
///         &self.profile
///     }
/// }
///
/// let profile = ModelProfile { supports_native_tools: false, ..ModelProfile::new("echo") };
/// let model = Echo { profile };
/// # futures::executor::block_on(async {
/// let reply = model.chat(&ChatRequest::new([Message::user("Hello")])).await?;
/// assert_eq!(reply.message.text(), "Hello");
/// # Ok::<(), ModelError>(()) })?;
/// # Ok::<(), ModelError>(())
/// ```
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Sends `request` to the model and returns the complete reply.
    ///
    /// # Errors
    ///
    /// Fails with a [`ModelError`] if the request fails or the reply is truncated. A reply that
    /// ends at the token limit is returned with [`FinishReason::Length`]. If it ends inside a tool
    /// call, the request fails instead, so an incomplete tool call is never returned.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError>;

    /// Sends `request` to the model and streams the reply. The last event is
    /// [`ChatEvent::Finished`] with the complete reply.
    ///
    /// A truncated stream ends with an error instead of `Finished`. The default implementation
    /// calls [`chat`](Self::chat) and converts the reply with [`ChatResponse::into_events`].
    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        stream::once(self.chat(request))
            .flat_map(|reply| match reply {
                Ok(response) => stream::iter(response.into_events().map(Ok).collect::<Vec<_>>()),
                Err(error) => stream::iter(vec![Err(error)]),
            })
            .boxed()
    }

    /// Returns the name and the capabilities of the model.
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
