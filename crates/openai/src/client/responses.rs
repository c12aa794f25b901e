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
use crate::reply::ItemsFold;

/// A model behind the Responses API: of OpenAI, or of any server that speaks it. Cheap to clone.
///
/// It is asked, tried again and waited for as [`ChatCompletions`](crate::ChatCompletions) is. By default the server keeps
/// nothing (`store: false`) and the conversation is sent whole, with the encrypted reasoning of earlier replies at its
/// place: what a model thought before a call, it knows after the result. Reasoning is kept in
/// [`AssistantMessage::provider_data`](haft_core::message::AssistantMessage::provider_data) and goes back to its own server only. A
/// conversation may go on with another model or API at any message.
///
/// The API has no `stop` and no `seed`: they are left out. It takes no sound, which is described.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_openai::Responses;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Responses::builder("gpt-5-mini").read_env().reasoning_summary("auto").build()?;
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
pub struct Responses(Arc<Client<Items>>);

/// Describes a [`Responses`] model.
pub type ResponsesBuilder = ModelBuilder<Responses>;

impl Responses {
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
    pub fn builder(model: impl Into<String>) -> ResponsesBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<Responses> {
    /// Sets whether the server keeps the responses, by default not. What it keeps is told by its own rules.
    #[must_use]
    pub fn store(mut self, whether: bool) -> Self {
        self.options.store = whether;
        self
    }

    /// Sets whether only what is new since the last response is sent, with its `previous_response_id`, by default not.
    /// The server keeps the responses then, whatever [`store`](Self::store) says.
    ///
    /// The whole conversation is sent where the server's is another one (messages were left out, summarised or changed, or
    /// are from elsewhere), and once more, within the same attempt, where the server does not know the id any longer.
    #[must_use]
    pub fn use_previous_response_id(mut self, whether: bool) -> Self {
        self.options.use_previous = whether;
        self
    }

    /// Goes on from a response that the server keeps and this program does not have: each conversation with this model begins behind it.
    /// Where the server does not know it, that is an error.
    #[must_use]
    pub fn previous_response_id(mut self, id: impl Into<String>) -> Self {
        self.options.first = Some(id.into());
        self
    }

    /// Asks for a summary of what the model thinks, such as `auto` or `detailed`. Without it a model of OpenAI does not
    /// tell its thoughts.
    #[must_use]
    pub fn reasoning_summary(mut self, summary: impl Into<String>) -> Self {
        self.options.summary = Some(summary.into());
        self
    }

    /// Makes the model. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Fails when the base URL, the key or a header cannot be used.
    pub fn build(self) -> Result<Responses, BuildError> {
        let options = self.options.clone();
        let client = self.connect(|_| Items { options, learned: Learned::default() })?;
        Ok(Responses(Arc::new(client)))
    }
}

#[async_trait]
impl ChatModel for Responses {
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

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("Responses", f)
    }
}

/// What is set of a model behind this API and no other.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    store: bool,
    use_previous: bool,
    /// The response behind which conversations begin.
    first: Option<String>,
    summary: Option<String>,
}

/// The Responses API.
struct Items {
    options: Options,
    learned: Learned,
}

/// How a reply is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delivery {
    is_streamed: bool,
    /// With the id of the last response, where there is one that the server keeps.
    with_previous: bool,
    /// What is left out.
    refused: Parts,
}

/// What is left out where a server refuses it.
const OPTIONAL: [(&str, Part); 4] = [
    ("include", Part::Encrypted),
    ("temperature", Part::Temperature),
    ("top_p", Part::TopP),
    ("parallel_tool_calls", Part::ParallelToolCalls),
];

impl Options {
    /// Whether the server keeps the responses.
    pub(super) fn is_stored(&self) -> bool {
        self.store || self.use_previous
    }
}

/// How servers say that they do not know the response any longer: OpenAI, vLLM and others.
const FORGOTTEN: [&str; 5] =
    ["previous_response", "previous response", "response with id", "response id", "response not found"];

impl Api for Items {
    const PATH: &'static str = "/responses";
    const FIELDS: &'static [&'static str] = request::FIELDS;
    type Form = Delivery;
    type Fold = ItemsFold;

    fn form(&self, is_streamed: bool) -> Delivery {
        let refused = self.learned.parts().with(Part::Encrypted, self.options.is_stored());
        Delivery { is_streamed, with_previous: self.options.use_previous, refused }
    }

    fn lesser(&self, form: &Delivery, refusal: &Refusal) -> Option<Delivery> {
        let words = refusal.words()?.to_lowercase();
        let says = |words_of: &[&str]| words_of.iter().any(|word| words.contains(word));
        if form.with_previous && (says(&FORGOTTEN) || refusal.parameter == "previous_response_id") {
            return Some(Delivery { with_previous: false, ..form.clone() });
        }
        let encrypted = form.refused.and(Part::Encrypted).filter(|_| says(&["encrypted"]));
        let refused = encrypted.or_else(|| refusal.beside(form.refused, &OPTIONAL));
        Some(Delivery { refused: refused?, ..form.clone() })
    }

    fn learn(&self, form: &Delivery, before: &Delivery) {
        self.learned.add(form.refused, before.refused);
    }

    fn ask<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        form: &mut Delivery,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ItemsFold + Send + 'a) {
        let (body, fold) = Body::new(client, request, form);
        (body, || fold)
    }

    async fn send(openai: &OpenAi) -> Result<IgnoredAny, OpenAIError> {
        openai.responses().create_byot(()).await
    }
}
