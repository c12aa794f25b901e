mod error;
mod reply;
mod request;
mod stream_reader;

use std::fmt;

use async_trait::async_trait;
use futures::{
    SinkExt as _, Stream, TryStreamExt as _,
    stream::{self, BoxStream, StreamExt as _},
};
use langchain_rust::language_models::{LLMError, LLMEvent, llm::LLM};

use haft_core::{
    ChatModel,
    message::AssistantMessage,
    model::{CallIds, ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

pub(crate) use error::{MAX_MESSAGE_BYTES, from_langchain};

use crate::channel_stream::channel_stream;
use request::Prepared;
use stream_reader::Reader;

/// The reason of [`ModelError::Truncated`] for a stream without a result.
const NO_RESULT: &str = "the stream ended without a result";

/// A LangChain language model as a haft model.
///
/// # Requests
///
/// Each request is sent by a clone of the `LLM`, with the tools and settings of the request in
/// [`CallOptions`](langchain_rust::language_models::options::CallOptions). A request without tools,
/// settings and format leaves the options of the `LLM` unchanged. An `LLM` uses the options that
/// its own documentation lists: for example, `Ollama` uses only the tools, and `Deepseek` and
/// `Qwen` use no tools. Set `supports_native_tools: false` in the [profile](Self::with_profile) of
/// an `LLM` without tools, so that agents describe tools in the prompt.
///
/// Audio, files and images in results become descriptions. Reasoning and provider data of earlier
/// replies are not sent. [`ToolChoice::Required`](haft_core::model::ToolChoice::Required) is sent
/// only for a request with one tool, because LangChain can only require a tool by name. With
/// several tools, the model may reply without a call. The setting `parallel_tool_calls` has no
/// equivalent and is ignored.
///
/// # Replies
///
/// By default, each request uses `LLM::generate`. It returns a reply only if the response of the
/// server is complete, so a truncated reply is an error. LangChain has no finish reason: a reply
/// with the number of tokens in `ChatSettings::max_tokens` has `FinishReason::Length`, and without
/// this setting a reply at the token limit counts as complete. `Claude` has a default limit of 1024
/// tokens and `Bedrock` of 512, so set `max_tokens` for them. Refusals and text beside calls are
/// lost. A stream has the whole text in one event. [`with_streaming`](Self::with_streaming) changes
/// this.
///
/// Calls keep their ids. An empty or repeated id in a reply is replaced. A request has ids that
/// OpenAI, Anthropic and Mistral accept: an id of another model that is too long or has other
/// characters is replaced in the call and in its result.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_langchain::{
///     LangChainModel, StreamFormat,
///     langchain_rust::llm::{Claude, ClaudeModel},
/// };
///
/// # async fn example() -> Result<(), haft_core::model::ModelError> {
/// let claude = Claude::new().with_model(ClaudeModel::ClaudeSonnet5_5);
/// let model = LangChainModel::new("claude-sonnet-5-5", claude).with_streaming(StreamFormat::Anthropic);
/// let reply = model.chat(&ChatRequest::new([Message::user("What is 17 plus 25?")])).await?;
/// println!("{}", reply.message.text());
/// # Ok(())
/// # }
/// ```
pub struct LangChainModel {
    llm: Box<dyn LLM>,
    profile: ModelProfile,
    call_ids: CallIds,
    format: Option<StreamFormat>,
}

/// The format of the items of `LLM::stream`.
///
/// With the right format, a stream that ends early is [`ModelError::Truncated`], and a reply has
/// its text beside calls, its finish reason, its id and the model name. With the wrong format, each
/// request fails with [`ModelError::InvalidResponse`] or `Truncated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamFormat {
    /// Chunks of OpenAI's Chat Completions, as in `OpenAI`. A stream is complete if it has a finish
    /// reason. The streams of `Deepseek` and `Qwen` lack it.
    OpenAi,
    /// Events of Anthropic's Messages API, as in `Claude`. A stream is complete if it has a
    /// `message_stop` event.
    Anthropic,
    /// Chat responses of Ollama, as in `Ollama`. A stream is complete if it has a response with
    /// `done: true`. The ids of calls are generated. A reply at the token limit has no mark.
    Ollama,
    /// The events of `LLM::generate_stream`, which every `LLM` has, such as `Bedrock`, `CachedLLM`
    /// or one of your own. A stream is complete if it has a `Done` event. LangChain's clients also
    /// send it after a connection that was closed early, so truncated text is not detected.
    /// Truncated arguments are detected.
    Events,
}

impl LangChainModel {
    /// Wraps `llm`. `name` is the name of the model in logs, prices and errors. The profile is for
    /// a text model with tool calls and without structured output.
    pub fn new(name: impl Into<String>, llm: impl Into<Box<dyn LLM>>) -> Self {
        let profile = ModelProfile { supports_json_schema: false, ..ModelProfile::new(name) };
        Self { llm: llm.into(), call_ids: request::call_ids(&profile.name), profile, format: None }
    }

    /// Sets the name and the capabilities of the model.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, model::ModelProfile};
    /// use haft_langchain::{LangChainModel, langchain_rust::llm::Deepseek};
    ///
    /// let profile = ModelProfile {
    ///     supports_native_tools: false,
    ///     supports_json_schema: false,
    ///     ..ModelProfile::new("deepseek-chat")
    /// };
    /// let model = LangChainModel::new("deepseek-chat", Deepseek::new()).with_profile(profile);
    /// assert!(!model.profile().supports_native_tools);
    /// ```
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.call_ids = request::call_ids(&profile.name);
        self.profile = profile;
        self
    }

    /// Streams replies with `LLM::stream` and its items in the given `format`. Then
    /// [`chat`](ChatModel::chat) collects the stream as well.
    #[must_use]
    pub fn with_streaming(mut self, format: StreamFormat) -> Self {
        self.format = Some(format);
        self
    }

    fn prepare(&self, request: &ChatRequest) -> Prepared {
        request::prepare(&*self.llm, &self.profile, &self.call_ids, request, self.format.is_some())
    }

    async fn generate(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let Prepared { llm, messages } = self.prepare(request);
        let result = llm.generate(&messages).await.map_err(from_langchain)?;
        reply::from_result(result, None, request, &self.call_ids)
    }

    /// Streams a reply and parses its items with `reader`.
    fn read_stream<'a>(
        &'a self,
        request: &'a ChatRequest,
        reader: Reader,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a {
        let items = async move {
            let Prepared { llm, messages } = self.prepare(request);
            let items = llm.stream(&messages).await.map_err(from_langchain)?;
            Ok(stream_reader::read(items, reader.with_call_ids(self.call_ids.clone())))
        };
        stream::once(items).try_flatten()
    }

    /// Streams the events of `LLM::generate_stream`.
    fn generate_stream<'a>(
        &'a self,
        request: &'a ChatRequest,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + Send + 'a {
        channel_stream(move |mut sender| async move {
            let result = async {
                let Prepared { llm, messages } = self.prepare(request);
                let mut events = llm.generate_stream(&messages);
                let mut text = String::new();
                while let Some(event) = events.next().await {
                    match event.map_err(|error| stream_error(error, &text))? {
                        LLMEvent::Text(delta) => {
                            text.push_str(&delta);
                            // The receiver is gone only if this future is about to be dropped.
                            let _ = sender.send(Ok(ChatEvent::TextDelta { text: delta })).await;
                        }
                        LLMEvent::Done(result) => {
                            let is_text_sent = !text.is_empty();
                            let response = reply::from_result(result, Some(text), request, &self.call_ids)?;
                            return Ok((response, is_text_sent));
                        }
                        _ => {}
                    }
                }
                Err(error::truncated(NO_RESULT, partial_text(text)))
            };
            let end: Vec<_> = match result.await {
                Ok((response, is_text_sent)) => {
                    reply::closing_events(response, is_text_sent).map(Ok).collect()
                }
                Err(error) => vec![Err(error)],
            };
            let _ = sender.send_all(&mut stream::iter(end.into_iter().map(Ok))).await;
        })
    }
}

/// Converts an error of `LLM::generate_stream` after `text`. An error before the text can be the
/// error of the request.
fn stream_error(error: LLMError, text: &str) -> ModelError {
    if text.is_empty() { from_langchain(error) } else { error::in_stream(error, text.to_owned().into()) }
}

fn partial_text(text: String) -> AssistantMessage {
    if text.is_empty() { AssistantMessage::default() } else { text.into() }
}

#[async_trait]
impl ChatModel for LangChainModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        request.check_hosted_tools(&self.profile)?;
        if self.format.is_none() {
            return self.generate(request).await;
        }
        let mut events = self.stream(request);
        while let Some(event) = events.next().await {
            if let ChatEvent::Finished(response) = event? {
                return Ok(*response);
            }
        }
        Err(error::truncated(NO_RESULT, AssistantMessage::default()))
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        if let Err(error) = request.check_hosted_tools(&self.profile) {
            return stream::iter([Err(error)]).boxed();
        }
        let reader = match self.format {
            Some(StreamFormat::Events) => return self.generate_stream(request).boxed(),
            Some(StreamFormat::OpenAi) => Reader::openai(),
            Some(StreamFormat::Anthropic) => Reader::anthropic(),
            Some(StreamFormat::Ollama) => Reader::ollama(),
            None => {
                let events =
                    |response: ChatResponse| stream::iter(response.into_events().map(Ok).collect::<Vec<_>>());
                return stream::once(self.generate(request)).map_ok(events).try_flatten().boxed();
            }
        };
        self.read_stream(request, reader).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl fmt::Debug for LangChainModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LangChainModel")
            .field("profile", &self.profile)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
