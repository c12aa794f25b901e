//! Generation of the reply to a chat request.
//!
//! The reply to a request with neither tools nor tool results is text or JSON. For any other
//! request, the [profile](crate::profile) selects the strategy: [`template_calls`] uses the tool
//! format of the chat template, and [`few_shot`](crate::few_shot) uses a demonstration.

mod constrained_json;
mod event_sender;
mod prose;
mod reasoning;
mod repeated_prefix;
mod template_calls;

use haft_core::{
    Schema, ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice},
    usage::Usage,
};
use tracing::info_span;

pub(crate) use self::event_sender::{EventReceiver, EventSender, call_id};
pub(crate) use self::prose::ProseDecoder;
use self::reasoning::ProseOptions;
pub(crate) use self::repeated_prefix::{encode_with_other_question, with_question};
use crate::constraint::Constraint;
use crate::engine::{
    Candidate, Choice, Engine, EngineError, GeneratedTokens, GenerationJob, KnownLogits, TokenListener,
};
use crate::profile::{PromptProfile, PromptStrategy};
use crate::sampler::Sampler;
use crate::template::{Prompt, ThinkBlock};
use crate::{conversation, few_shot};

/// The maximum number of tokens in a reply if the request does not set `max_tokens`.
const DEFAULT_MAX_TOKENS: usize = 2048;
/// The number of tokens after which a JSON value is closed early if the request does not set
/// `max_tokens`.
const CLOSE_JSON_AFTER_TOKENS: usize = 1024;
/// The maximum number of tool calls in a reply.
const MAX_CALLS: usize = 16;

/// Generates the reply to `request` and sends its deltas to `events`.
pub(crate) fn respond(
    engine: &mut Engine,
    profile: &PromptProfile,
    request: &ChatRequest,
    event_sender: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let _span = info_span!("respond", tools = request.tools.len()).entered();
    if !conversation::has_tools_or_results(request) {
        let prompt = engine.prompt_with_tools(&conversation::without_tools(request), &[])?;
        return ReplyWriter::after(prompt, engine, request, event_sender).write_text(Vec::new());
    }
    match &profile.0 {
        PromptStrategy::Template => template_calls::respond(engine, request, event_sender),
        PromptStrategy::Examples(profile) => few_shot::respond(engine, profile, request, event_sender),
    }
}

/// Encodes the prompt of `request`, as [`respond`] does.
fn encode_prompt(
    engine: &Engine,
    profile: &PromptProfile,
    request: &ChatRequest,
) -> Result<Vec<u32>, EngineError> {
    if !conversation::has_tools_or_results(request) {
        let prompt = engine.prompt_with_tools(&conversation::without_tools(request), &[]);
        return prompt.map(|prompt| prompt.tokens);
    }
    match &profile.0 {
        PromptStrategy::Template => template_calls::encode_prompt(engine, request),
        PromptStrategy::Examples(profile) => few_shot::encode_prompt(engine, profile, request),
    }
}

/// A writer that generates one reply in several steps. The output of each step is appended to the
/// prompt for the next step.
pub(crate) struct ReplyWriter<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) request: &'a ChatRequest,
    pub(crate) event_sender: &'a EventSender,
    pub(crate) prompt: Vec<u32>,
    pub(crate) reasoning: String,
    /// The reasoning block at the end of the prompt.
    think_block: ThinkBlock,
    /// The length of the prompt before the first token of the reply that is not reasoning.
    reply_start: usize,
    usage: Usage,
    /// The number of tokens that are still available for the reply.
    pub(crate) tokens_left: usize,
}

impl<'a> ReplyWriter<'a> {
    pub(crate) fn new(
        engine: &'a mut Engine,
        request: &'a ChatRequest,
        event_sender: &'a EventSender,
        prompt: Vec<u32>,
    ) -> Self {
        let mut usage = Usage::one_request(prompt.len() as u64, 0);
        usage.cached_input_tokens = engine.reuse_prefix(&prompt) as u64;
        let tokens_left = request.settings.max_tokens.map_or(DEFAULT_MAX_TOKENS, |limit| limit as usize);
        Self {
            engine,
            request,
            event_sender,
            reply_start: prompt.len(),
            prompt,
            reasoning: String::new(),
            think_block: ThinkBlock::Absent,
            usage,
            tokens_left,
        }
    }

    /// Creates a writer for a prompt that may end with a part of a reasoning block.
    fn after(
        prompt: Prompt,
        engine: &'a mut Engine,
        request: &'a ChatRequest,
        event_sender: &'a EventSender,
    ) -> Self {
        let writer = Self::new(engine, request, event_sender, prompt.tokens);
        Self { think_block: prompt.think_block, ..writer }
    }

    /// Returns `true` if the reply may contain tool calls. Fails if the tool choice requires a
    /// call, but the request does not contain a matching tool.
    pub(crate) fn may_call(&self) -> Result<bool, ModelError> {
        let tools = &self.request.tools;
        match &self.request.tool_choice {
            ToolChoice::None => Ok(false),
            ToolChoice::Auto => Ok(!tools.is_empty()),
            ToolChoice::Required if tools.is_empty() => Err(ModelError::Unsupported(
                "a tool call is required, but the request has no tools".to_owned(),
            )),
            ToolChoice::Tool(name) if tools.get(name.as_str()).is_none() => Err(ModelError::Unsupported(
                format!("a call of tool \"{name}\" is required, but the request does not have it"),
            )),
            ToolChoice::Required | ToolChoice::Tool(_) => Ok(true),
        }
    }

    pub(crate) fn max_calls(&self) -> usize {
        if self.request.settings.parallel_tool_calls == Some(false) { 1 } else { MAX_CALLS }
    }

    /// Returns the names of the tools that the model may call: the tool that the tool choice names,
    /// or all tools of the request.
    pub(crate) fn callable_names(&self) -> Vec<String> {
        match &self.request.tool_choice {
            ToolChoice::Tool(name) => vec![name.to_string()],
            _ => self.request.tools.names().map(ToString::to_string).collect(),
        }
    }

    /// Generates the arguments of a call to the tool `name`, between the literal texts `before` and
    /// `after`. Returns the call.
    ///
    /// Returns `None` if the arguments are incomplete, for example at the token limit. Partial
    /// calls are never returned.
    pub(crate) fn write_call(
        &mut self,
        name: &str,
        before: &str,
        after: &str,
    ) -> Result<Option<ToolCall>, ModelError> {
        let Some(tool) = self.request.tools.get(name) else {
            return Err(ModelError::failed(format!(
                "the model chose tool \"{name}\", and the request does not have it"
            )));
        };
        let arguments = self.write_json(tool.definition().input_schema(), before, after)?;
        Ok(arguments.map(|arguments| ToolCall::new(call_id(), name, arguments)))
    }

    /// Emits `tool_calls`, and returns a response that consists of `message` and these calls. Fails
    /// if `tool_calls` is empty.
    pub(crate) fn finish_with_calls(
        &self,
        message: AssistantMessage,
        tool_calls: Vec<ToolCall>,
    ) -> Result<ChatResponse, ModelError> {
        if tool_calls.is_empty() {
            let message = "the model chose neither a tool nor an answer";
            return Err(ModelError::InvalidResponse(message.to_owned()));
        }
        for (index, call) in tool_calls.iter().enumerate() {
            self.event_sender.call(index, call);
        }
        Ok(self.build_response(AssistantMessage { tool_calls, ..message }, FinishReason::ToolCalls))
    }

    /// Generates reasoning, if the prompt requires it, and then the reply: JSON if the request has
    /// a JSON response format, and text without the tokens in `banned_tokens` if not.
    fn write_text(&mut self, banned_tokens: Vec<u32>) -> Result<ChatResponse, ModelError> {
        if !self.write_open_reasoning()? {
            return Ok(self.truncated_response());
        }
        if self.request.response_format != ResponseFormat::Text {
            self.separate_from_reasoning();
            let reply = self.write_structured("")?;
            return Ok(reply.unwrap_or_else(|| self.truncated_response()));
        }
        let mut prose = ProseDecoder::new(self.event_sender, self.stop_sequences(), Vec::new()).trimmed();
        let options = ProseOptions { banned_tokens, ..ProseOptions::default() };
        let written = self.generate_prose(&mut prose, &options)?;
        self.finish_text(prose.finish(), written.is_complete)
    }

    /// Generates a JSON value that matches the response format of the request. The literal text
    /// `space` precedes the value. Returns the response. If the token limit was reached, the
    /// response contains no text.
    ///
    /// Returns `None` if the response format is text.
    pub(crate) fn write_structured(&mut self, space: &str) -> Result<Option<ChatResponse>, ModelError> {
        let object = || Schema::new(serde_json::json!({"type": "object"})).map_err(ModelError::failed);
        let schema = match &self.request.response_format {
            ResponseFormat::Text => return Ok(None),
            ResponseFormat::JsonObject => object()?,
            ResponseFormat::JsonSchema { schema, .. } => schema.clone(),
        };
        let Some(json_text) = self.write_json(&schema, space, "")? else {
            return Ok(Some(self.truncated_response()));
        };
        self.event_sender.send_text(&json_text);
        Ok(Some(self.build_response(AssistantMessage::from(json_text), FinishReason::Stop)))
    }

    /// Creates the response for a reply that consists of `text`. `complete` is `false` if the reply
    /// reached the token limit. Fails if a complete reply is empty.
    pub(crate) fn finish_text(&self, text: String, complete: bool) -> Result<ChatResponse, ModelError> {
        let reason = if complete { FinishReason::Stop } else { FinishReason::Length };
        if text.is_empty() && complete {
            return Err(ModelError::EmptyResponse);
        }
        Ok(self.build_response(AssistantMessage::from(text), reason))
    }

    /// Returns the stop sequences of the request, except empty ones.
    pub(crate) fn stop_sequences(&self) -> Vec<&'a str> {
        self.request.settings.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty()).collect()
    }

    /// Creates a [`GenerationJob`] without a constraint. Its limit is the number of tokens left for
    /// the reply.
    pub(crate) fn unconstrained_job(&self, eos_bias: f32) -> GenerationJob {
        GenerationJob {
            constraint: None,
            sampler: self.sampler(0),
            max_tokens: self.tokens_left,
            close_after_tokens: usize::MAX,
            eos_bias,
            stop_tokens: Vec::new(),
            banned_tokens: Vec::new(),
            banned_first_tokens: Vec::new(),
            is_json: false,
        }
    }

    /// Creates a [`GenerationJob`] with a grammar constraint. Its limit is the number of tokens
    /// left for the reply.
    pub(crate) fn constrained_job(&self, constraint: Constraint, eos_bias: f32) -> GenerationJob {
        let close_after_tokens =
            self.request.settings.max_tokens.map_or(CLOSE_JSON_AFTER_TOKENS, |_| usize::MAX);
        GenerationJob { constraint: Some(constraint), close_after_tokens, ..self.unconstrained_job(eos_bias) }
    }

    /// Appends `text` to the prompt as if the model had generated it. Special tokens that are
    /// spelled out in `text`, such as `<|im_end|>`, are encoded as ordinary text.
    pub(crate) fn prefill(&mut self, text: &str) {
        let tokens = self.engine.tokenizer().encode_content(text);
        self.prompt.extend(tokens);
    }

    /// Appends `text`, markup of the chat template, to the prompt as if the model had generated it.
    /// Special tokens that are spelled out in `text` are encoded as special tokens.
    pub(crate) fn prefill_markup(&mut self, text: &str) {
        let tokens = self.engine.tokenizer().encode_markup(text);
        self.prompt.extend(tokens);
    }

    /// Runs `job` without emitting deltas, and appends its output to the prompt.
    pub(crate) fn generate(&mut self, job: GenerationJob) -> Result<GeneratedTokens, EngineError> {
        let event_sender = self.event_sender;
        self.generate_with(job, &mut |_| event_sender.continue_or_cancel())
    }

    /// Runs `job`, passes the generated bytes to `listener`, and appends the output to the prompt.
    pub(crate) fn generate_with(
        &mut self,
        job: GenerationJob,
        listener: TokenListener<'_>,
    ) -> Result<GeneratedTokens, EngineError> {
        let written = self.engine.generate(&self.prompt, job, listener)?;
        self.usage.output_tokens += written.tokens.len() as u64;
        self.tokens_left = self.tokens_left.saturating_sub(written.tokens.len());
        self.prompt.extend(&written.tokens);
        Ok(written)
    }

    /// Returns the most probable of `candidates` after the prompt; see
    /// [`Engine::choose_candidate`].
    pub(crate) fn choose_candidate(
        &mut self,
        candidates: &[Candidate],
        known: &mut KnownLogits,
    ) -> Result<Option<Choice>, EngineError> {
        let event_sender = self.event_sender;
        let listener = &mut |_: &[u8]| event_sender.continue_or_cancel();
        self.engine.choose_candidate(&self.prompt, candidates, known, listener)
    }

    /// Returns the log-probability of each of `candidates` after `prompt`, another prompt than the
    /// one of the reply. Returns `None` if they do not fit into the context window.
    pub(crate) fn log_probabilities(
        &mut self,
        prompt: &[u32],
        candidates: &[Vec<u32>],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let event_sender = self.event_sender;
        match self.engine.log_probabilities(prompt, candidates, &mut |_| event_sender.continue_or_cancel()) {
            Err(EngineError::PromptTooLong { .. }) => Ok(None),
            probabilities => probabilities.map(Some),
        }
    }

    /// Creates a sampler with the settings of the request. `attempt` is the number of previous
    /// attempts to generate the same JSON value.
    ///
    /// Later attempts use a different seed, a temperature of at least 1 and no nucleus sampling.
    /// With unchanged settings, greedy or seeded sampling would repeat the first attempt.
    fn sampler(&self, attempt: u64) -> Sampler {
        let settings = &self.request.settings;
        let temperature = settings.temperature.unwrap_or(0.0);
        let top_p = settings.top_p.unwrap_or(1.0);
        match attempt {
            0 => Sampler::new(temperature, top_p, settings.seed),
            _ => Sampler::new(
                temperature.max(1.0),
                1.0,
                Some(settings.seed.unwrap_or(0).wrapping_add(attempt)),
            ),
        }
    }

    /// Creates the response for a reply that reached the token limit. The response contains no text
    /// and no calls.
    pub(crate) fn truncated_response(&self) -> ChatResponse {
        self.build_response(AssistantMessage::default(), FinishReason::Length)
    }

    pub(crate) fn build_response(
        &self,
        message: AssistantMessage,
        finish_reason: FinishReason,
    ) -> ChatResponse {
        let reasoning = Some(self.reasoning.clone()).filter(|reasoning| !reasoning.is_empty());
        let message = AssistantMessage { reasoning, ..message };
        ChatResponse { finish_reason, usage: self.usage, ..ChatResponse::new(message) }
    }
}

impl From<EngineError> for ModelError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::PromptTooLong { .. } => Self::ContextTooLong(error.to_string()),
            EngineError::Template(_) => Self::Unsupported(error.to_string()),
            _ => Self::failed(error),
        }
    }
}
