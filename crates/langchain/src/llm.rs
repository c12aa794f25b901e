mod request;

use std::{collections::HashSet, fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures::{
    SinkExt as _, Stream,
    stream::{self, StreamExt as _},
};
use langchain_rust::{
    language_models::{
        GenerateResult, LLMError, LLMEvent, LLMEventStream, TokenUsage, llm::LLM, options::CallOptions,
    },
    schemas::{self as foreign, StreamData},
};

use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError},
    text::ErrorChain,
    usage::Usage,
};

use crate::{
    channel_stream::channel_stream,
    message::{to_langchain_calls, unique_id},
};
use request::Functions;

/// A haft model as a LangChain language model, for LangChain's chains and agents.
///
/// Tools, the tool choice, the response format, `temperature`, `top_p`, `max_tokens`, `stop_words`
/// and `seed` of the [`CallOptions`] are used. Other options are ignored. `streaming_func` receives
/// each piece of the text. Adding a function replaces an earlier function with the same name.
///
/// A call keeps its id, unless an earlier call of the conversation has the same id: LangChain's
/// agents merge such calls, so the new call gets a new id.
///
/// LangChain has no finish reason. A reply that a content filter stopped is an error. A reply that
/// ends at the token limit is returned, with a warning in the log.
///
/// # Examples
///
/// ```
/// use haft_langchain::{HaftLlm, langchain_rust::language_models::llm::LLM};
/// # use haft_core::{ChatModel, export::async_trait, model::*};
/// # struct Model(ModelProfile);
/// # #[async_trait]
/// # impl ChatModel for Model {
/// #     async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
/// #         Ok(ChatResponse::new("Hello."))
/// #     }
/// #     fn profile(&self) -> &ModelProfile {
/// #         &self.0
/// #     }
/// # }
/// # let model = Model(ModelProfile::new("test"));
///
/// # futures::executor::block_on(async {
/// // `model` is a `ChatModel`, such as a `haft_local::LocalModel`.
/// let llm = HaftLlm::new(model);
/// assert_eq!(llm.invoke("Say hello.").await?, "Hello.");
/// # Ok::<(), haft_langchain::langchain_rust::language_models::LLMError>(())
/// # })?;
/// # Ok::<(), haft_langchain::langchain_rust::language_models::LLMError>(())
/// ```
#[derive(Clone)]
pub struct HaftLlm {
    model: Arc<dyn ChatModel>,
    options: CallOptions,
    /// The functions of `options` as tools.
    functions: Functions,
}

impl HaftLlm {
    /// Wraps `model`.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self { model: Arc::new(model), options: CallOptions::new(), functions: Functions::default() }
    }

    /// Adds `options`, like [`add_options`](LLM::add_options).
    #[must_use]
    pub fn with_options(mut self, options: CallOptions) -> Self {
        self.add_options(options);
        self
    }

    fn request(&self, messages: &[foreign::Message]) -> Result<ChatRequest, LLMError> {
        request::build(messages, &self.options, &self.functions)
    }

    /// Converts a reply to a result. `messages` is the conversation of the request.
    fn result(&self, reply: ChatResponse, messages: &[foreign::Message]) -> Result<GenerateResult, LLMError> {
        let message = &reply.message;
        match reply.finish_reason {
            FinishReason::ContentFilter => return Err(content_filtered()),
            FinishReason::Length => {
                tracing::warn!(model = self.model.profile().name, "the reply ends at the token limit");
            }
            _ => {}
        }
        let generation = match &message.refusal {
            Some(refusal) if message.content.is_empty() => refusal.clone(),
            _ => message.text(),
        };
        let mut calls = to_langchain_calls(&message.tool_calls);
        make_ids_unique(&mut calls, messages);
        for call in &mut calls {
            if let Some(name) = self.functions.original_name(&call.name) {
                name.clone_into(&mut call.name);
            }
        }
        let tokens = token_usage(reply.usage);
        Ok(GenerateResult { tokens, generation, ..GenerateResult::default() }.with_tool_calls(calls))
    }

    /// Sends `request`, and passes each piece of the text to `streaming_func`, if it is set.
    async fn reply(&self, request: &ChatRequest) -> Result<ChatResponse, LLMError> {
        let Some(function) = &self.options.streaming_func else {
            return self.model.chat(request).await.map_err(|error| llm_error(&error));
        };
        let mut events = self.model.stream(request);
        while let Some(event) = events.next().await {
            match event.map_err(|error| llm_error(&error))? {
                ChatEvent::TextDelta { text } => {
                    // The function reports its own errors, as with LangChain's models.
                    let _ = (function.lock().await)(text).await;
                }
                ChatEvent::Finished(reply) => return Ok(*reply),
                _ => {}
            }
        }
        Err(incomplete())
    }
}

/// Replaces the ids of `calls` that are empty or already used in `messages` or in `calls`.
fn make_ids_unique(calls: &mut [foreign::ToolCall], messages: &[foreign::Message]) {
    if calls.is_empty() {
        return;
    }
    let earlier = messages.iter().flat_map(foreign::Message::parse_tool_calls).map(|call| call.id);
    let mut used: HashSet<String> = earlier.collect();
    for call in calls {
        call.id = unique_id(&call.id, &used);
        used.insert(call.id.clone());
    }
}

/// Converts the tokens of a request. The result is empty if LangChain reports none.
pub(crate) fn usage(tokens: Option<&TokenUsage>) -> Usage {
    tokens.map_or_else(Usage::default, |tokens| {
        Usage::one_request(tokens.prompt_tokens.into(), tokens.completion_tokens.into())
    })
}

/// Converts `usage`. `None` if the provider reported no tokens.
pub(crate) fn token_usage(usage: Usage) -> Option<TokenUsage> {
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    usage.is_reported().then(|| TokenUsage {
        prompt_tokens: count(usage.input_tokens),
        completion_tokens: count(usage.output_tokens),
        total_tokens: count(usage.total_tokens()),
    })
}

fn llm_error(error: &ModelError) -> LLMError {
    LLMError::OtherError(ErrorChain(error).to_string())
}

fn content_filtered() -> LLMError {
    LLMError::OtherError("a content filter of the provider stopped the reply".to_owned())
}

fn incomplete() -> LLMError {
    LLMError::OtherError("the stream ended before the reply".to_owned())
}

#[async_trait]
impl LLM for HaftLlm {
    async fn generate(&self, messages: &[foreign::Message]) -> Result<GenerateResult, LLMError> {
        let request = self.request(messages)?;
        self.result(self.reply(&request).await?, messages)
    }

    /// Streams the text. The value of each item is a [`ChatEvent`] as JSON. The last item has the
    /// tokens and no text.
    async fn stream(
        &self,
        messages: &[foreign::Message],
    ) -> Result<Pin<Box<dyn Stream<Item = Result<StreamData, LLMError>> + Send>>, LLMError> {
        let request = self.request(messages)?;
        let model = Arc::clone(&self.model);
        let items = channel_stream(move |mut sender| async move {
            let mut is_complete = false;
            let mut events = model.stream(&request);
            while let Some(event) = events.next().await {
                is_complete = matches!(event, Err(_) | Ok(ChatEvent::Finished(_)));
                // The receiver is gone only if this future is about to be dropped.
                let _ = sender.send(stream_item(event)).await;
            }
            if !is_complete {
                let _ = sender.send(Err(incomplete())).await;
            }
        });
        Ok(Box::pin(items))
    }

    fn generate_stream<'a>(&'a self, messages: &'a [foreign::Message]) -> LLMEventStream<'a> {
        let events = channel_stream(move |mut sender| async move {
            let end = async {
                let request = self.request(messages)?;
                let mut events = self.model.stream(&request);
                while let Some(event) = events.next().await {
                    match event.map_err(|error| llm_error(&error))? {
                        ChatEvent::TextDelta { text } => {
                            let _ = sender.send(Ok(LLMEvent::Text(text))).await;
                        }
                        ChatEvent::Finished(reply) => {
                            return Ok(LLMEvent::Done(self.result(*reply, messages)?));
                        }
                        _ => {}
                    }
                }
                Err(incomplete())
            };
            let end = end.await;
            let _ = sender.send_all(&mut stream::iter([Ok(end)])).await;
        });
        Box::pin(events)
    }

    fn add_options(&mut self, options: CallOptions) {
        let functions = options.functions.clone().unwrap_or_default();
        self.options.merge_options(CallOptions { functions: None, ..options });
        if !functions.is_empty() {
            self.functions.add(functions);
        }
    }
}

fn stream_item(event: Result<ChatEvent, ModelError>) -> Result<StreamData, LLMError> {
    let event = event.map_err(|error| llm_error(&error))?;
    let value = serde_json::to_value(&event)?;
    Ok(match event {
        ChatEvent::TextDelta { text } => StreamData::new(value, None, text),
        ChatEvent::Finished(reply) if reply.finish_reason == FinishReason::ContentFilter => {
            return Err(content_filtered());
        }
        ChatEvent::Finished(reply) => StreamData::new(value, token_usage(reply.usage), ""),
        _ => StreamData::new(value, None, ""),
    })
}

impl fmt::Debug for HaftLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaftLlm").field("profile", self.model.profile()).finish_non_exhaustive()
    }
}
