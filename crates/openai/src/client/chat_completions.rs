mod request;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile};
use serde::{Serialize, de::IgnoredAny};

use self::request::Body;
use super::{
    Api, Client,
    builder::{BuildError, ModelBuilder},
    transport::OpenAi,
};
use crate::reply::ChatFold;

/// A model behind the Chat Completions API: of OpenAI, or of any server that speaks it, such as llama.cpp, vLLM,
/// Ollama or LM Studio. Cheap to clone.
///
/// Failures that may pass (429, 5xx, a connection that breaks before the reply) are tried again, with a growing wait
/// that is never shorter than the server's `Retry-After`. Every wait has an end: see [`Timeouts`](crate::Timeouts).
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, ChatRequest, Message};
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
    /// here `GROQ_API_KEY`. Any other is the name of a model at `OPENAI_BASE_URL`, by default OpenAI's, with
    /// `OPENAI_API_KEY`; where that variable is set, every name is.
    ///
    /// # Errors
    ///
    /// Fails when a variable holds what cannot be used, or when a server is meant that takes nobody without a key, and there
    /// is none.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Begins to describe a model; without further settings it is at OpenAI, and has no key.
    pub fn builder(model: impl Into<String>) -> ChatCompletionsBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<ChatCompletions> {
    /// Makes the model. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Fails when the base URL, the key or a header cannot be used.
    pub fn build(self) -> Result<ChatCompletions, BuildError> {
        let client = self.connect(|quirks| Completions {
            refuses_usage: AtomicBool::new(!quirks.stream_options),
            refuses_max_tokens: AtomicBool::new(quirks.max_completion_tokens),
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

/// The Chat Completions API, with what was learned of the server by its refusals.
struct Completions {
    /// Whether it refuses `stream_options`, as Mistral does.
    refuses_usage: AtomicBool,
    /// Whether it refuses `max_tokens`, as gateways to OpenAI's newer models do.
    refuses_max_tokens: AtomicBool,
}

/// How a reply is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery {
    is_streamed: bool,
    /// With what a stream cost at the end of it.
    with_usage: bool,
    /// With a limit of tokens that is called `max_tokens`.
    with_max_tokens: bool,
}

impl Api for Completions {
    const PATH: &'static str = "/chat/completions";
    type Form = Delivery;
    type Fold = ChatFold;

    fn form(&self, is_streamed: bool) -> Delivery {
        let with_usage = is_streamed && !self.refuses_usage.load(Ordering::Relaxed);
        let with_max_tokens = !self.refuses_max_tokens.load(Ordering::Relaxed);
        Delivery { is_streamed, with_usage, with_max_tokens }
    }

    fn lesser(&self, form: &Delivery, error: &ModelError) -> Option<Delivery> {
        let ModelError::Rejected { status: 400 | 422, body } = error else { return None };
        if form.with_usage && body.contains("stream_options") {
            self.refuses_usage.store(true, Ordering::Relaxed);
            return Some(Delivery { with_usage: false, ..form.clone() });
        }
        // It says what it wants in place of it.
        if form.with_max_tokens && body.contains("max_completion_tokens") {
            self.refuses_max_tokens.store(true, Ordering::Relaxed);
            return Some(Delivery { with_max_tokens: false, ..form.clone() });
        }
        None
    }

    fn ask<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        form: &mut Delivery,
    ) -> (impl Serialize + Send + Sync + 'a, ChatFold) {
        (Body::new(client, request, form), ChatFold::of(client.style.origin.clone()))
    }

    async fn send(openai: &OpenAi) -> Result<IgnoredAny, OpenAIError> {
        openai.chat().create_byot(()).await
    }
}
