mod request;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile};
use serde::Serialize;

use self::request::Body;
use super::{
    Api, Client,
    builder::{BuildError, ModelBuilder},
    unsupported_params::{ApiRejection, OptionalParam, OptionalParams, UnsupportedParams},
};
use crate::reply::ResponsesAccumulator;

/// A model behind the Responses API: of OpenAI, or of any server that speaks it. Cheap to clone.
///
/// It is asked, tried again and waited for as [`ChatCompletions`](crate::ChatCompletions) is. By default the server keeps
/// nothing (`store: false`) and the conversation is sent whole, with the encrypted reasoning of earlier replies at its
/// place: what a model thought before a call, it knows after the result. Reasoning is kept in
/// [`AssistantMessage::provider_data`](haft_core::AssistantMessage::provider_data) and goes back to its own server only. A
/// conversation may go on with another model or API at any message.
///
/// The API has no `stop` and no `seed`: they are left out. It takes no sound, which is described.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, ChatRequest, Message};
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
        let client = self.connect(|_| Items { options, unsupported: UnsupportedParams::default() })?;
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

/// Options of this API alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    store: bool,
    use_previous: bool,
    /// The response that conversations continue.
    first: Option<String>,
    summary: Option<String>,
}

/// The Responses API.
struct Items {
    options: Options,
    unsupported: UnsupportedParams,
}

/// The form of a request: streamed or not, and without the parameters that the server rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    is_streamed: bool,
    /// Sends the `previous_response_id` if the server stores the last response.
    with_previous: bool,
    /// Parameters that are omitted.
    omitted: OptionalParams,
}

/// Parameters that are omitted after a rejection, by their names in the API.
const OPTIONAL: [(&str, OptionalParam); 4] = [
    ("include", OptionalParam::Encrypted),
    ("temperature", OptionalParam::Temperature),
    ("top_p", OptionalParam::TopP),
    ("parallel_tool_calls", OptionalParam::ParallelToolCalls),
];

impl Options {
    /// Returns `true` if the server stores the responses.
    pub(super) fn is_stored(&self) -> bool {
        self.store || self.use_previous
    }
}

/// Error messages for an unknown `previous_response_id`, from OpenAI, vLLM and others.
const UNKNOWN_ID: [&str; 5] =
    ["previous_response", "previous response", "response with id", "response id", "response not found"];

impl Api for Items {
    const PATH: &'static str = "/responses";
    const FIELDS: &'static [&'static str] = request::FIELDS;
    type Variant = Variant;
    type Accumulator = ResponsesAccumulator;

    fn first_variant(&self, is_streamed: bool) -> Variant {
        let omitted = self.unsupported.get().with(OptionalParam::Encrypted, self.options.is_stored());
        Variant { is_streamed, with_previous: self.options.use_previous, omitted }
    }

    fn without_rejected(&self, variant: &Variant, rejection: &ApiRejection) -> Option<Variant> {
        let message = rejection.message()?.to_lowercase();
        let is_about = |markers: &[&str]| markers.iter().any(|marker| message.contains(marker));
        if variant.with_previous && (is_about(&UNKNOWN_ID) || rejection.param == "previous_response_id") {
            return Some(Variant { with_previous: false, ..variant.clone() });
        }
        let encrypted = variant.omitted.and(OptionalParam::Encrypted).filter(|_| is_about(&["encrypted"]));
        let omitted = encrypted.or_else(|| rejection.added_to(variant.omitted, &OPTIONAL));
        Some(Variant { omitted: omitted?, ..variant.clone() })
    }

    fn remember_rejected(&self, accepted: &Variant, rejected: &Variant) {
        self.unsupported.add(accepted.omitted, rejected.omitted);
    }

    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut Variant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ResponsesAccumulator + Send + 'a) {
        let (body, accumulator) = Body::new(client, request, variant);
        (body, || accumulator)
    }
}
