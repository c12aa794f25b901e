mod request;

use std::{fmt, sync::Arc};

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};
use serde::{Serialize, de::IgnoredAny};

use self::request::Body;
use super::{
    Api, Client,
    builder::{BuildError, ModelBuilder},
    refusals::{Learned, Part, Parts, Refusal},
    transport::OpenAi,
};
use crate::reply::ChatFold;

/// A model behind the Chat Completions API: of OpenAI, or of any server that speaks it, such as llama.cpp, vLLM,
/// Ollama or LM Studio. Cheap to clone.
///
/// Failures that may pass (429, 5xx, a connection that breaks before the reply) are tried again, with a growing wait
/// that is never shorter than the server's `Retry-After`. Every wait has an end: see [`Timeouts`](crate::Timeouts).
///
/// Settings that the server does not know, or not for this model (`stop`, `seed`, `temperature`, `top_p`,
/// `parallel_tool_calls`), are left out once it says so, which is in the log.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_openai::ChatCompletions;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ChatCompletions::builder("qwen2.5-coder").base_url("http://localhost:8080/v1").build()?;
/// let reply = model.chat(&ChatRequest::new([Message::user("Hello")])).await?;
/// println!("{}", reply.message.text());
/// # Ok(())
/// # }
/// ```
///
/// # Cancellation
///
/// Dropping a future or a stream closes its connection. The server may have begun to answer, and count it.
#[derive(Clone)]
pub struct ChatCompletions(Arc<Client<Completions>>);

/// Describes a [`ChatCompletions`] model.
pub type ChatCompletionsBuilder = ModelBuilder<ChatCompletions>;

impl ChatCompletions {
    /// Finds server and key in the environment.
    ///
    /// A name such as `groq/llama-3.3-70b-versatile` means the model of a known [`Provider`](crate::Provider), with its key,
    /// here `GROQ_API_KEY`; at Azure, `AZURE_OPENAI_ENDPOINT` says where it is. A name without a provider is that of a model at
    /// `OPENAI_BASE_URL`, by default OpenAI's, with `OPENAI_API_KEY`; where that variable is set, every name is.
    ///
    /// # Errors
    ///
    /// Fails when a variable holds what cannot be used, when what stands before the `/` is no provider, or when a server is meant
    /// that takes nobody without a key, and there is none.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Begins to describe a model; without further settings it is at OpenAI, and has no key.
    pub fn builder(model: impl Into<String>) -> ChatCompletionsBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<ChatCompletions> {
    /// Sets whether a block of `<think>…</think>` that a text begins with stays in it. By default it does not: servers that do
    /// not tell apart what a model thinks and what it says send it so, and it is read as reasoning.
    #[must_use]
    pub fn keep_think_tags(mut self, whether: bool) -> Self {
        self.keeps_think_tags = whether;
        self
    }

    /// Makes the model. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Fails when the base URL, the key or a header cannot be used.
    pub fn build(self) -> Result<ChatCompletions, BuildError> {
        let keeps_think_tags = self.keeps_think_tags;
        let client = self.connect(|quirks| {
            let refused = Parts::default()
                .with(Part::StreamOptions, !quirks.stream_options)
                .with(Part::UserAfterTool, !quirks.user_after_tool);
            let newer_limit = quirks.max_completion_tokens;
            Completions { learned: Learned::from(refused), newer_limit, keeps_think_tags }
        })?;
        Ok(ChatCompletions(Arc::new(client)))
    }
}

#[async_trait]
impl ChatModel for ChatCompletions {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.0.stream(request)
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

impl fmt::Debug for ChatCompletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("ChatCompletions", f)
    }
}

/// The Chat Completions API.
struct Completions {
    learned: Learned,
    /// Whether a limit of tokens is `max_completion_tokens`, unless the server refuses that.
    newer_limit: bool,
    /// Whether thoughts in front of a text stay there.
    keeps_think_tags: bool,
}

/// How a reply is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery {
    is_streamed: bool,
    /// What is left out, or said otherwise.
    refused: Parts,
    /// Whether a limit of tokens is `max_completion_tokens`.
    newer_limit: bool,
}

/// What is left out where a server refuses it, by the names that it has there.
const OPTIONAL: [(&str, Part); 7] = [
    ("stream_options", Part::StreamOptions),
    ("stop", Part::Stop),
    ("seed", Part::Seed),
    ("random_seed", Part::Seed),
    ("temperature", Part::Temperature),
    ("top_p", Part::TopP),
    ("parallel_tool_calls", Part::ParallelToolCalls),
];

impl Completions {
    fn delivery(&self, is_streamed: bool, refused: Parts) -> Delivery {
        Delivery { is_streamed, refused, newer_limit: self.newer_limit != refused.has(Part::TokenLimit) }
    }
}

impl Api for Completions {
    const PATH: &'static str = "/chat/completions";
    const FIELDS: &'static [&'static str] = request::FIELDS;
    type Form = Delivery;
    type Fold = ChatFold;

    fn form(&self, is_streamed: bool) -> Delivery {
        self.delivery(is_streamed, self.learned.parts())
    }

    fn lesser(&self, form: &Delivery, refusal: &Refusal) -> Option<Delivery> {
        let words = refusal.words()?;
        let refused = if is_about_order(words) {
            form.refused.and(Part::UserAfterTool)
        } else if !form.newer_limit && words.contains("max_completion_tokens") {
            // It says what it wants in place of `max_tokens`.
            form.refused.and(Part::TokenLimit)
        } else if form.newer_limit && refusal.is_of("max_completion_tokens") {
            form.refused.and(Part::TokenLimit)
        } else {
            refusal.beside(form.refused, &OPTIONAL)
        };
        Some(self.delivery(form.is_streamed, refused?))
    }

    fn learn(&self, form: &Delivery, before: &Delivery) {
        self.learned.add(form.refused, before.refused);
    }

    fn ask<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        form: &mut Delivery,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ChatFold + Send + 'a) {
        let fold = || ChatFold::of(client.style.origin.clone()).with_think_tags(client.api.keeps_think_tags);
        (Body::new(client, request, form), fold)
    }

    async fn send(openai: &OpenAi) -> Result<IgnoredAny, OpenAIError> {
        openai.chat().create_byot(()).await
    }
}

/// Whether a server refuses that a person speaks after a tool, as the templates of Mistral's models do.
fn is_about_order(words: &str) -> bool {
    ["after role 'tool'", "after role tool", "after role \"tool\""].iter().any(|order| words.contains(order))
}
