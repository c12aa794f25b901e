use std::{fmt, sync::Arc};

use async_openai::{Client, config::Config, error::OpenAIError, types::chat::CreateChatCompletionRequest};
use async_trait::async_trait;
use futures::{
    TryFutureExt as _,
    stream::{self, BoxStream, StreamExt as _},
};
use haft_core::{
    ChatModel, ToolName,
    model::{
        CallIdFormat, CallIds, ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile,
        ResponseFormat, ToolChoice,
        adapter::{Origin, ResponseSchema, ResponseSchemaOptions, StructuredOutput},
    },
    schema::SchemaTarget,
};
use haft_http::model::{Secrets, StreamAccumulator as _, chat_span, record_response};
use reqwest::Url;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{Instrument as _, Span};

use super::{convert::from_response_with, error::from_openai_error, stream::ChunkStream};
use crate::{
    client::profile_of,
    format::{EncodedMessages, EncodingOptions, encode_tools_for_target},
    reply::ChatAccumulator,
    wire::Completion,
};

/// A model that sends its requests through an existing `async_openai::Client` with any `Config`,
/// for example for Azure, a proxy or custom headers. Cheap to clone.
///
/// Use this model if the program already has a configured client. In all other cases,
/// [`ChatCompletions`](crate::ChatCompletions) is the better choice, because its transport does not
/// have the limits below.
///
/// # Limits of the transport
///
/// The requests are sent by `async-openai`. Version 0.43
///
/// - has no timeouts: set them in the `reqwest` client;
/// - retries three times after 429 (except `insufficient_quota`), 5xx and failed connections, so
///   this model does not retry. The client waits for `Retry-After`, but does not include it in the
///   error;
/// - loses the status of a 4xx response if its body is not in OpenAI's format. A 429 with an HTML
///   body is not retried, and is reported as [`ModelError::InvalidResponse`], a permanent error;
/// - reads bodies without a size limit, and streams through an unbounded channel: a slow reader
///   does not apply back-pressure;
/// - ignores extension fields such as `reasoning_content`;
/// - rejects many replies of compatible servers. haft parses these replies again, but
///   `async-openai` logs an error for each.
///
/// # Examples
///
/// ```
/// use async_openai::{Client, config::AzureConfig};
/// use haft_core::ChatModel;
/// use haft_openai::interop::AsyncOpenAi;
///
/// let config = AzureConfig::new()
///     .with_api_base("https://example.openai.azure.com")
///     .with_api_version("2024-10-21")
///     .with_deployment_id("gpt-4o")
///     .with_api_key("…");
/// # let _ = rustls::crypto::ring::default_provider().install_default();
/// let model = AsyncOpenAi::new(Client::with_config(config), "gpt-4o");
/// assert!(model.profile().supports_images);
/// ```
///
/// # Cancellation
///
/// Dropping the future or stream closes its connection. The server may already have generated and
/// billed a part of the reply.
pub struct AsyncOpenAi<C: Config> {
    client: Arc<Client<C>>,
    profile: ModelProfile,
    encoding: Arc<EncodingOptions>,
    schema_target: SchemaTarget,
    uses_max_completion_tokens: bool,
}

impl<C: Config> AsyncOpenAi<C> {
    /// Creates a model that sends its requests through `client`, which may be in an `Arc`. The
    /// profile is derived from the model name.
    pub fn new(client: impl Into<Arc<Client<C>>>, model: impl Into<String>) -> Self {
        let (client, profile) = (client.into(), profile_of(&model.into()));
        Self {
            encoding: encoding_of(&client, &profile),
            client,
            profile,
            schema_target: SchemaTarget::OpenAi,
            uses_max_completion_tokens: true,
        }
    }

    /// Sets the profile of the model. The name in the profile is sent as the `model` of each
    /// request.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.encoding = encoding_of(&self.client, &profile);
        self.profile = profile;
        self
    }

    /// Sets the JSON Schema subset that the server supports. Default: [`SchemaTarget::OpenAi`],
    /// without `strict`.
    #[must_use]
    pub fn with_tool_schema_target(mut self, target: SchemaTarget) -> Self {
        self.schema_target = target;
        self
    }

    /// Sets the name of the request field for the token limit: `max_completion_tokens` if `enabled`
    /// is `true` (the default), `max_tokens` if it is `false`.
    #[must_use]
    pub fn use_max_completion_tokens(mut self, enabled: bool) -> Self {
        self.uses_max_completion_tokens = enabled;
        self
    }

    /// Returns the restrictions on response schemas. The root must always be an object without
    /// alternatives such as `anyOf`, because OpenAI requires it.
    fn response_schema_options(&self) -> ResponseSchemaOptions {
        ResponseSchemaOptions { target: self.schema_target, needs_object_root: true }
    }

    fn build_request(
        &self,
        request: &ChatRequest,
        is_streamed: bool,
    ) -> Result<CreateChatCompletionRequest, ModelError> {
        let settings = &request.settings;
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(self.profile.name));
        set("messages", json!(EncodedMessages::new(request.all_messages(), &self.encoding)));
        if !request.tools.is_empty() {
            set("tools", json!(encode_tools_for_target(&request.tools, self.schema_target)));
            set(
                "tool_choice",
                match &request.tool_choice {
                    ToolChoice::Auto => "auto".into(),
                    ToolChoice::None => "none".into(),
                    ToolChoice::Required => "required".into(),
                    ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
                },
            );
            set("parallel_tool_calls", json!(settings.parallel_tool_calls));
        }
        set(
            "response_format",
            match &request.response_format {
                ResponseFormat::Text => Value::Null,
                ResponseFormat::JsonObject => json!({"type": "json_object"}),
                ResponseFormat::JsonSchema { name, schema } => {
                    let schema = ResponseSchema::of(schema, name, self.response_schema_options());
                    json!({"type": "json_schema", "json_schema": NamedSchema { name, schema }})
                }
            },
        );
        set("temperature", json!(settings.temperature));
        set("top_p", json!(settings.top_p));
        set("seed", json!(settings.seed));
        set(
            if self.uses_max_completion_tokens { "max_completion_tokens" } else { "max_tokens" },
            json!(settings.max_tokens),
        );
        if !settings.stop.is_empty() {
            set("stop", json!(settings.stop));
        }
        if is_streamed {
            // With the feature `byot` of async-openai, `create_stream` does not set `stream`.
            set("stream", true.into());
            set("stream_options", json!({"include_usage": true}));
        }
        serde_json::from_value(body.into()).map_err(|error| ModelError::Unsupported(error.to_string()))
    }

    fn span(&self) -> Span {
        chat_span("openai", &self.profile.name, self.client.config().api_base())
    }

    /// Converts `error` to a [`ModelError`] and redacts secrets. The text of `error` may contain
    /// secrets, because servers may echo them.
    fn to_model_error(&self, error: OpenAIError) -> ModelError {
        self.redact(from_openai_error(error, self.client.config().api_base()))
    }

    fn redact(&self, error: ModelError) -> ModelError {
        let config = self.client.config();
        let key = [config.api_key().clone()];
        Secrets::new(&config.headers(), &config.query(), &key).redact(error)
    }

    async fn send(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.client.chat().create(self.build_request(request, false)?).await {
            Ok(response) => from_response_with(&response, &self.encoding).map_err(|error| self.redact(error)),
            Err(OpenAIError::JSONDeserialize(error, body)) => {
                let reply = Completion::read(body.as_bytes()).ok();
                if reply.is_some_and(|reply| reply.choices.is_some()) {
                    let reply = ChatAccumulator::new(&self.encoding).decode_whole(body.as_bytes());
                    return reply.map_err(|error| self.redact(error));
                }
                Err(self.to_model_error(OpenAIError::JSONDeserialize(error, body)))
            }
            Err(error) => Err(self.to_model_error(error)),
        }
    }

    async fn open_stream(&self, request: &ChatRequest) -> Result<ChunkStream, ModelError> {
        let chunks = self.client.chat().create_stream(self.build_request(request, true)?).await;
        let address = self.client.config().api_base().to_owned();
        chunks
            .map(|chunks| ChunkStream::new(chunks, address, &self.encoding))
            .map_err(|error| self.to_model_error(error))
    }
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a ToolName,
    #[serde(flatten)]
    schema: Arc<ResponseSchema>,
}

fn encoding_of<C: Config>(client: &Client<C>, profile: &ModelProfile) -> Arc<EncodingOptions> {
    let ModelProfile { supports_images: images, supports_audio: audio, supports_files: files, .. } = *profile;
    // The address without its path and its credentials.
    let address = Url::parse(client.config().api_base()).map(|url| url.origin().ascii_serialization());
    let issuer = format!("{} {}", address.unwrap_or_default(), profile.name);
    Arc::new(EncodingOptions {
        sends_images: images,
        sends_audio: audio,
        sends_documents: files,
        // The client may have the address of any server.
        call_ids: CallIds::new(CallIdFormat::AtMost(40), issuer),
        has_one_system_message: true,
        origin: Origin::Unsupported,
        ..EncodingOptions::default()
    })
}

#[async_trait]
impl<C: Config + 'static> ChatModel for AsyncOpenAi<C> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        request.check_hosted_tools(&self.profile)?;
        let span = self.span();
        let reply = self.send(request).instrument(span.clone()).await;
        let response = match StructuredOutput::new(request, self.response_schema_options()) {
            None => reply?,
            Some(structured) => {
                let mut reply = reply.map_err(|error| structured.unwrap_partial(error))?;
                structured.restore_reply(&mut reply);
                reply
            }
        };
        record_response(&span, &response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        if let Err(error) = request.check_hosted_tools(&self.profile) {
            return stream::iter([Err(error)]).boxed();
        }
        let span = self.span();
        let opening = self.open_stream(request).instrument(span.clone()).map_ok(move |chunks| {
            stream::try_unfold(chunks, move |mut chunks| {
                let reading = span.clone();
                let step = async move {
                    let event = chunks.next().await.map_err(|error| self.redact(error))?;
                    if let Some(ChatEvent::Finished(response)) = &event {
                        record_response(&reading, response);
                    }
                    Ok(event.map(|event| (event, chunks)))
                };
                step.instrument(span.clone())
            })
        });
        let events = opening.try_flatten_stream();
        match StructuredOutput::new(request, self.response_schema_options()) {
            None => events.boxed(),
            Some(structured) => structured.events(events).boxed(),
        }
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl<C: Config> Clone for AsyncOpenAi<C> {
    fn clone(&self) -> Self {
        Self {
            client: Arc::clone(&self.client),
            profile: self.profile.clone(),
            encoding: Arc::clone(&self.encoding),
            schema_target: self.schema_target,
            uses_max_completion_tokens: self.uses_max_completion_tokens,
        }
    }
}

impl<C: Config> fmt::Debug for AsyncOpenAi<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncOpenAi").field("model", &self.profile.name).finish_non_exhaustive()
    }
}
