//! The HTTP client for `generateContent` and for the Interactions API.

mod body;
mod builder;
mod generate_content;
mod hosted_tools;
mod interactions;
mod profile;
mod settings;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};
use haft_http::model::{BuildError, ModelApi as _, ModelClient};

use self::{generate_content::GenerateContent, interactions::Interactions};

pub use builder::{Api, GeminiBuilder};
pub use settings::{HarmBlockThreshold, HarmCategory, SafetySetting, ThinkingLevel};

/// A Gemini model. Cheap to clone.
///
/// Requests are sent to Google's Gemini API, or to a gateway that has the same API. [`Api`] selects
/// one of its two forms. Another model can continue a conversation at any message, and this model
/// can continue a conversation of another model.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_gemini::{Gemini, ThinkingLevel};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Gemini::builder("gemini-3-flash").read_env().thinking_level(ThinkingLevel::Low).build()?;
/// let reply = model.chat(&ChatRequest::new([Message::user("Hello")])).await?;
/// println!("{}", reply.message.text());
/// # Ok(())
/// # }
/// ```
///
/// # Cancellation
///
/// Dropping the future or stream closes its connection. The server may already have generated and
/// billed a part of the reply.
#[derive(Clone)]
pub struct Gemini(Arc<Client>);

/// The client for one of the APIs.
enum Client {
    GenerateContent(ModelClient<GenerateContent>),
    Interactions(ModelClient<Interactions>),
}

impl Gemini {
    /// Creates the model `name` with the API key from `GEMINI_API_KEY` or else `GOOGLE_API_KEY`, and
    /// the server at `GOOGLE_GEMINI_BASE_URL` (default: Google).
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is invalid, or if the server is Google's and there is no key.
    pub fn from_env(name: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(name).read_env().build()
    }

    /// Creates a builder for the model `name`, such as `gemini-3-flash`. By default, requests are
    /// sent to Google without an API key.
    pub fn builder(name: impl Into<String>) -> GeminiBuilder {
        GeminiBuilder::new(name.into())
    }
}

#[async_trait]
impl ChatModel for Gemini {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match &*self.0 {
            Client::GenerateContent(client) => client.chat(request).await,
            Client::Interactions(client) => client.chat(request).await,
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        match &*self.0 {
            Client::GenerateContent(client) => client.stream(request),
            Client::Interactions(client) => client.stream(request),
        }
    }

    fn profile(&self) -> &ModelProfile {
        match &*self.0 {
            Client::GenerateContent(client) => client.api().profile(),
            Client::Interactions(client) => client.api().profile(),
        }
    }
}

impl fmt::Debug for Gemini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Client::GenerateContent(client) => client.fmt_debug("Gemini", f),
            Client::Interactions(client) => client.fmt_debug("Gemini", f),
        }
    }
}
