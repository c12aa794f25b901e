//! Generation of a reply to a request.
//!
//! A conversation without tools gets a reply of text or JSON. With tools, the
//! [profile](crate::profile) selects the strategy: [`template_calls`] uses the tool format of the
//! chat template, [`examples`](crate::examples) a demonstration.

mod event_sender;
mod json;
mod prose;
mod template_calls;

use haft_core::{
    Schema, ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice},
    usage::Usage,
};
use tracing::info_span;

pub(crate) use self::event_sender::{EventSender, Events, call_id};
pub(crate) use self::prose::Prose;
use crate::constraint::Constraint;
use crate::engine::{Engine, EngineError, Job, Listener, Output};
use crate::profile::{PromptProfile, Strategy};
use crate::sampler::Sampler;
use crate::{conversation, examples};

/// The most tokens of a reply if the request sets no limit.
const DEFAULT_MAX_TOKENS: usize = 2048;
/// A JSON value is closed from this length on, unless the request sets a limit.
const CLOSE_JSON_FROM: usize = 1024;
/// The most calls of one reply.
const MAX_CALLS: usize = 16;

/// Generates the reply to a request.
pub(crate) fn respond(
    engine: &mut Engine,
    profile: &PromptProfile,
    request: &ChatRequest,
    events: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let _span = info_span!("respond", tools = request.tools.len()).entered();
    if !conversation::mentions_tools(request) {
        let prompt = engine.prompt(&conversation::without_tools(request))?;
        return Writer::new(engine, request, events, prompt).text(Vec::new());
    }
    match &profile.0 {
        Strategy::Template => template_calls::respond(engine, request, events),
        Strategy::Examples(profile) => examples::respond(engine, profile, request, events),
    }
}

/// Writes one reply in pieces. Each piece becomes part of the prompt of the next.
pub(crate) struct Writer<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) request: &'a ChatRequest,
    pub(crate) events: &'a EventSender,
    pub(crate) prompt: Vec<u32>,
    pub(crate) reasoning: String,
    usage: Usage,
    /// Tokens left until the limit.
    pub(crate) left: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        engine: &'a mut Engine,
        request: &'a ChatRequest,
        events: &'a EventSender,
        prompt: Vec<u32>,
    ) -> Self {
        let usage = Usage::of_request(prompt.len() as u64, 0);
        let left = request.settings.max_tokens.map_or(DEFAULT_MAX_TOKENS, |limit| limit as usize);
        Self { engine, request, events, prompt, reasoning: String::new(), usage, left }
    }

    /// Returns `true` if the reply may have calls.
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

    /// The names of the callable tools.
    pub(crate) fn callable_names(&self) -> Vec<String> {
        match &self.request.tool_choice {
            ToolChoice::Tool(name) => vec![name.to_string()],
            _ => self.request.tools.names().map(ToString::to_string).collect(),
        }
    }

    /// Writes the arguments of a call between two fixed texts. `None` if the limit was reached: a
    /// partial call is never returned.
    pub(crate) fn call(
        &mut self,
        name: &str,
        before: &str,
        behind: &str,
    ) -> Result<Option<ToolCall>, ModelError> {
        let Some(tool) = self.request.tools.get(name) else {
            return Err(ModelError::failed(format!(
                "the model chose tool \"{name}\", and the request does not have it"
            )));
        };
        let arguments = self.json(tool.definition().input_schema(), before, behind)?;
        Ok(arguments.map(|arguments| ToolCall::new(call_id(), name, arguments)))
    }

    /// A reply of calls, with the text before them.
    pub(crate) fn calls(
        &self,
        message: AssistantMessage,
        tool_calls: Vec<ToolCall>,
    ) -> Result<ChatResponse, ModelError> {
        if tool_calls.is_empty() {
            let message = "the model chose neither a tool nor an answer";
            return Err(ModelError::InvalidResponse(message.to_owned()));
        }
        for (index, call) in tool_calls.iter().enumerate() {
            self.events.call(index, call);
        }
        Ok(self.response(AssistantMessage { tool_calls, ..message }, FinishReason::ToolCalls))
    }

    /// Text without some tokens, or JSON if the request has a JSON format.
    pub(crate) fn text(&mut self, banned_tokens: Vec<u32>) -> Result<ChatResponse, ModelError> {
        if let Some(reply) = self.structured("")? {
            return Ok(reply);
        }
        let mut prose = Prose::new(self.events, self.stops(), Vec::new());
        let job = Job { banned_tokens, ..self.free_job(0.0) };
        let written = self.run(job, &mut |bytes| prose.push(bytes))?;
        self.finish_text(prose.finish(), written.complete)
    }

    /// JSON in the requested format, after `space`. `None` for the text format.
    pub(crate) fn structured(&mut self, space: &str) -> Result<Option<ChatResponse>, ModelError> {
        let object = || Schema::new(serde_json::json!({"type": "object"})).map_err(ModelError::failed);
        let schema = match &self.request.response_format {
            ResponseFormat::Text => return Ok(None),
            ResponseFormat::JsonObject => object()?,
            ResponseFormat::JsonSchema { schema, .. } => schema.clone(),
        };
        let Some(text) = self.json(&schema, space, "")? else { return Ok(Some(self.truncated())) };
        self.events.text(&text);
        Ok(Some(self.response(AssistantMessage::from(text), FinishReason::Stop)))
    }

    /// The reply of a text.
    pub(crate) fn finish_text(&self, text: String, complete: bool) -> Result<ChatResponse, ModelError> {
        let reason = if complete { FinishReason::Stop } else { FinishReason::Length };
        if text.is_empty() && complete {
            return Err(ModelError::EmptyResponse);
        }
        Ok(self.response(AssistantMessage::from(text), reason))
    }

    /// The stop sequences of the request.
    pub(crate) fn stops(&self) -> Vec<&'a str> {
        self.request.settings.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty()).collect()
    }

    /// Generation without a constraint.
    pub(crate) fn free_job(&self, eos_bias: f32) -> Job {
        Job {
            constraint: None,
            sampler: self.sampler(0),
            limit: self.left,
            close_from: usize::MAX,
            eos_bias,
            stop_tokens: Vec::new(),
            banned_tokens: Vec::new(),
            json: false,
        }
    }

    /// Generation under a grammar.
    pub(crate) fn grammar_job(&self, constraint: Constraint, eos_bias: f32) -> Job {
        let close_from = self.request.settings.max_tokens.map_or(CLOSE_JSON_FROM, |_| usize::MAX);
        Job { constraint: Some(constraint), close_from, ..self.free_job(eos_bias) }
    }

    /// Appends text to the prompt as a prefilled part of the reply.
    pub(crate) fn prefill(&mut self, text: &str) {
        let tokens = self.engine.tokenizer().encode_content(text);
        self.prompt.extend(tokens);
    }

    /// Appends text of the chat template to the prompt. Special tokens in it are read as such.
    pub(crate) fn prefill_markup(&mut self, text: &str) {
        let tokens = self.engine.tokenizer().encode_markup(text);
        self.prompt.extend(tokens);
    }

    /// Runs a grammar job and appends its output to the prompt.
    pub(crate) fn write(&mut self, job: Job) -> Result<Output, EngineError> {
        let events = self.events;
        self.run(job, &mut |_| events.next())
    }

    /// Runs a job and appends its output to the prompt.
    pub(crate) fn run(&mut self, job: Job, listener: Listener<'_>) -> Result<Output, EngineError> {
        let written = self.engine.write(&self.prompt, job, listener)?;
        if self.usage.output_tokens == 0 {
            self.usage.cached_input_tokens = written.cached as u64;
        }
        self.usage.output_tokens += written.tokens.len() as u64;
        self.left = self.left.saturating_sub(written.tokens.len());
        self.prompt.extend(&written.tokens);
        Ok(written)
    }

    /// The sampler of the request's settings. Repeated attempts have a temperature of at least 1,
    /// otherwise they would repeat the first.
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

    /// A reply without any complete part before the limit.
    pub(crate) fn truncated(&self) -> ChatResponse {
        self.response(AssistantMessage::default(), FinishReason::Length)
    }

    pub(crate) fn response(&self, message: AssistantMessage, finish_reason: FinishReason) -> ChatResponse {
        let reasoning = Some(self.reasoning.clone()).filter(|reasoning| !reasoning.is_empty());
        let message = AssistantMessage { reasoning, ..message };
        ChatResponse { finish_reason, usage: self.usage, ..ChatResponse::new(message) }
    }
}

impl From<EngineError> for ModelError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::TooLong { .. } => Self::ContextTooLong(error.to_string()),
            EngineError::Template(_) => Self::Unsupported(error.to_string()),
            _ => Self::failed(error),
        }
    }
}
