//! The client for the Messages API.
//!
//! [`MessagesApi`] builds the request bodies, and omits parameters that the server rejects.
//! [`ModelClient`] provides everything else.

mod builder;
mod family;
mod rejection;
mod request;
mod thinking;
mod tools;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{
    ChatModel, Message,
    model::{
        ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError, ModelProfile, ResponseFormat,
        adapter::{ResponseSchema, ResponseSchemaOptions, decode_error, error_in_place_of_reply, excerpt},
    },
    schema::SchemaTarget,
};
use haft_http::model::{BuildError, Connection, ModelApi, ModelClient, ReplyStream, RequestTimer};
use serde_json::Value;

use self::{
    builder::Settings,
    family::Family,
    rejection::{OptionalParams, RejectedParams},
    request::Body,
};
use crate::{
    format::{Conversation, EncodingOptions},
    reply::{PAUSE, ReplyBuilder},
};

pub use builder::MessagesBuilder;
pub use thinking::Thinking;

/// The path of the API, relative to the base URL.
const PATH: &str = "/v1/messages";

const COUNT_PATH: &str = "/v1/messages/count_tokens";

/// A model behind Anthropic's Messages API, or a gateway that offers it. Cheap to clone.
///
/// Transient errors are retried with exponential backoff, but not before the server's `Retry-After`
/// has passed. The complete list is under [limits](crate#limits). Each phase of a request has a
/// timeout: see [`Timeouts`](crate::Timeouts).
///
/// The prompt cache is used by default, see [`MessagesBuilder::prompt_cache`]. If the server rejects
/// `temperature`, `top_p`, `thinking` or the effort as unsupported, a warning is logged and the
/// request is sent again without this setting. Later requests omit the setting from the start.
///
/// A reply that the server pauses during calls of hosted tools (`pause_turn`) is continued, at most
/// 10 times.
///
/// # Examples
///
/// ```no_run
/// use haft_anthropic::Messages;
/// use haft_core::{ChatModel, Message, model::ChatRequest};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Messages::from_env("claude-sonnet-5-5")?;
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
pub struct Messages(Arc<ModelClient<MessagesApi>>);

impl Messages {
    /// Creates a model with the API key in `ANTHROPIC_API_KEY`, and the server at
    /// `ANTHROPIC_BASE_URL` if it is set.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is invalid, or if there is no API key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Creates a builder for a model. By default, requests are sent to Anthropic without an API key.
    pub fn builder(model: impl Into<String>) -> MessagesBuilder {
        MessagesBuilder::new(model.into())
    }

    /// Counts the input tokens of `request` without sending it to the model. The count is an
    /// estimate of the API.
    ///
    /// # Errors
    ///
    /// Fails if the server returns an error or cannot be reached in time.
    pub async fn count_tokens(&self, request: &ChatRequest) -> Result<u64, ModelError> {
        let api = self.0.api();
        request.check_hosted_tools(&api.profile)?;
        let connection = self.0.connection();
        let timer = connection.start_timer();
        let conversation = api.encode(request);
        let body = Body::new(api, request, &conversation, api.rejected.get())?.for_counting();
        let attempt = || async {
            let headers = api.beta_headers(request);
            let reply = connection.post_with_headers(COUNT_PATH, &headers, &body, &timer).await;
            read_count(&reply.map_err(|error| error.error)?.read_body().await?)
        };
        connection.with_retries(&timer, attempt).await
    }
}

#[async_trait]
impl ChatModel for Messages {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.0.stream(request)
    }

    fn profile(&self) -> &ModelProfile {
        self.0.api().profile()
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_debug("Messages", f)
    }
}

/// The requests to one model.
struct MessagesApi {
    profile: ModelProfile,
    family: Family,
    settings: Settings,
    encoding: Arc<EncodingOptions>,
    rejected: RejectedParams,
}

type Reply = (ReplyStream<ReplyBuilder>, Option<ChatResponse>);

impl ModelApi for MessagesApi {
    type Accumulator = ReplyBuilder;

    fn provider(&self) -> &str {
        "anthropic"
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn response_schema_options(&self) -> ResponseSchemaOptions {
        self.schema_options()
    }

    fn sends_response_schema(&self, request: &ChatRequest) -> bool {
        match &request.response_format {
            ResponseFormat::JsonSchema { name, schema } => {
                self.accepts_schema(&ResponseSchema::of(schema, name, self.schema_options()))
            }
            _ => false,
        }
    }

    async fn send(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<Reply, ModelError> {
        self.send_part(connection, request, None, is_streamed, timer).await
    }

    fn is_paused(&self, response: &ChatResponse) -> bool {
        response.finish_reason == FinishReason::Other(PAUSE.to_owned())
    }

    async fn resume(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        paused: &ChatResponse,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<Reply, ModelError> {
        let reply = Arc::new(Message::assistant(paused.message.clone()));
        let messages = request.messages.iter().cloned().chain([reply]).collect();
        let request = ChatRequest { messages, ..request.clone() };
        self.send_part(connection, &request, Some(paused), is_streamed, timer).await
    }
}

impl MessagesApi {
    /// Sends `request` for a reply, or for the rest of the reply `paused`. If the server rejects an
    /// optional parameter, sends the request again without it.
    async fn send_part(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        paused: Option<&ChatResponse>,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<Reply, ModelError> {
        let conversation = self.encode(request);
        let headers = self.beta_headers(request);
        let mut omitted = self.rejected.get();
        loop {
            let body = Body::new(self, request, &conversation, omitted)?.for_reply(is_streamed);
            let rejection = match connection.post_with_headers(PATH, &headers, &body, timer).await {
                Ok(reply) => {
                    let builder = ReplyBuilder::new(&self.encoding, paused)?;
                    match ReplyStream::open(reply, builder, is_streamed).await {
                        Ok(reply) => {
                            self.rejected.add(omitted);
                            return Ok(reply);
                        }
                        Err(error) => error.into(),
                    }
                }
                Err(rejection) => rejection,
            };
            let Some(next) = omitted.with_rejected(&rejection) else { return Err(rejection.error) };
            let error = connection.redact(rejection.error);
            tracing::warn!(%error, "retrying without the parameter rejected by the model's server");
            omitted = next;
        }
    }

    /// Returns `true` if a request is sent with `schema`. The API accepts strict schemas only, and
    /// none beside citations.
    fn accepts_schema(&self, schema: &ResponseSchema) -> bool {
        schema.is_strict() && self.profile.supports_json_schema && !self.encoding.cites_documents
    }

    fn schema_options(&self) -> ResponseSchemaOptions {
        ResponseSchemaOptions { target: SchemaTarget::AnthropicStrict, needs_object_root: true }
    }

    fn encode(&self, request: &ChatRequest) -> Conversation {
        Conversation::new(request.all_messages(), &self.encoding)
    }
}

/// Reads `body`, the reply of the endpoint for counting.
fn read_count(body: &[u8]) -> Result<u64, ModelError> {
    let reply: Value = serde_json::from_slice(body).map_err(|error| decode_error(&error, body))?;
    reply.get("input_tokens").and_then(Value::as_u64).ok_or_else(|| {
        error_in_place_of_reply(&reply).unwrap_or_else(|| {
            ModelError::InvalidResponse(format!("it has no `input_tokens`: {}", excerpt(&reply.to_string())))
        })
    })
}
