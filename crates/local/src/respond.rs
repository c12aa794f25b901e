//! From a request to a reply: which tools are needed, the arguments of each call, or the text.

mod json;
mod outlet;
mod plan;
mod prose;

use haft_core::{
    AssistantMessage, ChatRequest, ChatResponse, FinishReason, ModelError, ResponseFormat, Schema, ToolCall,
    ToolChoice, Usage,
};
use tracing::info_span;

pub(crate) use self::outlet::Outlet;
use self::prose::Prose;
use crate::constraint::Constraint;
use crate::dialogue::{self, ANSWER, NEEDED, NOTHING};
use crate::engine::{Engine, EngineError, Job, Listener, Written};
use crate::sampler::Sampler;

/// The most tokens of a reply whose request sets no limit.
const LIMIT: usize = 2048;
/// A piece of JSON that is longer than this is brought to its end, unless the request sets a limit.
const CLOSE_FROM: usize = 1024;

/// Answers one request.
pub(crate) fn respond(
    engine: &mut Engine,
    request: &ChatRequest,
    outlet: &Outlet,
) -> Result<ChatResponse, ModelError> {
    let _span = info_span!("respond", tools = request.tools.len()).entered();
    let with_tools = dialogue::mentions_tools(request);
    let turns =
        if with_tools { dialogue::with_tools(request) } else { dialogue::without_tools(request) };
    let prompt = engine.prompt(&turns).map_err(failure)?;
    let mut writer = Writer::new(engine, request, outlet, prompt);
    if with_tools { writer.step() } else { writer.text() }
}

/// Writes one reply piece by piece: each piece becomes part of the prompt of the next.
struct Writer<'a> {
    engine: &'a mut Engine,
    request: &'a ChatRequest,
    outlet: &'a Outlet,
    prompt: Vec<u32>,
    usage: Usage,
    left: usize,
}

impl<'a> Writer<'a> {
    fn new(engine: &'a mut Engine, request: &'a ChatRequest, outlet: &'a Outlet, prompt: Vec<u32>) -> Self {
        let usage = Usage::of_request(prompt.len() as u64, 0);
        let left = request.settings.max_tokens.map_or(LIMIT, |limit| limit as usize);
        Self { engine, request, outlet, prompt, usage, left }
    }

    /// The next step of a conversation with tools: calls, or the answer.
    fn step(&mut self) -> Result<ChatResponse, ModelError> {
        let Some(names) = self.needed()? else { return Ok(self.cut()) };
        if names.is_empty() {
            // The space behind it belongs to the first word.
            self.put(ANSWER.trim_end());
            return self.text();
        }
        let Some(tool_calls) = self.calls(&names)? else { return Ok(self.cut()) };
        for (index, call) in tool_calls.iter().enumerate() {
            self.outlet.call(index, call);
        }
        let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
        Ok(self.response(message, FinishReason::ToolCalls))
    }

    /// The names of the tools that are needed now. `None` when the limit came first.
    fn needed(&mut self) -> Result<Option<Vec<String>>, ModelError> {
        let names = match &self.request.tool_choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Tool(name) if self.request.tools.get(name.as_str()).is_none() => {
                return Err(ModelError::Unsupported(format!("tool \"{name}\" must be called and is not on offer")));
            }
            ToolChoice::Tool(name) => vec![name.to_string()],
            ToolChoice::Required if self.request.tools.is_empty() => {
                return Err(ModelError::Unsupported("a tool must be called and none is on offer".to_owned()));
            }
            ToolChoice::Auto if self.request.tools.is_empty() => Vec::new(),
            ToolChoice::Auto | ToolChoice::Required => return self.plan(),
        };
        let words = if names.is_empty() { NOTHING.to_owned() } else { names.join(", ") };
        self.put(&format!("{NEEDED}{words}\n"));
        Ok(Some(names))
    }

    fn plan(&mut self) -> Result<Option<Vec<String>>, ModelError> {
        let grammar = plan::grammar(self.request);
        let constraint = self.engine.grammars().compile(grammar).map_err(constraint_failure)?;
        let written = self.write(constraint, self.sampler(0))?;
        Ok(written.complete.then(|| plan::names(&written.bytes)))
    }

    /// The calls of the named tools. `None` when the limit came before the end of the last: a half call never
    /// leaves this crate.
    fn calls(&mut self, names: &[String]) -> Result<Option<Vec<ToolCall>>, ModelError> {
        let mut calls: Vec<ToolCall> = Vec::new();
        for name in names {
            let Some(tool) = self.request.tools.get(name) else { continue };
            let schema = tool.definition().input_schema();
            let Some(arguments) = self.json(schema, &format!("{name}("), ")\n")? else { return Ok(None) };
            // A name that is planned twice often stands for one call.
            if !calls.iter().any(|call| call.name == *name && call.arguments == arguments) {
                calls.push(ToolCall::new(outlet::call_id(), name, arguments));
            }
        }
        Ok(Some(calls))
    }

    /// The text of a reply, in the form that the request asks for.
    fn text(&mut self) -> Result<ChatResponse, ModelError> {
        let object = || Schema::new(serde_json::json!({"type": "object"})).map_err(ModelError::failed);
        let schema = match &self.request.response_format {
            ResponseFormat::Text => return self.prose(),
            ResponseFormat::JsonObject => object()?,
            ResponseFormat::JsonSchema { schema, .. } => schema.clone(),
        };
        let Some(text) = self.json(&schema, "", "")? else { return Ok(self.cut()) };
        self.outlet.text(&text);
        Ok(self.response(AssistantMessage::from(text), FinishReason::Stop))
    }

    fn prose(&mut self) -> Result<ChatResponse, ModelError> {
        let mut prose = Prose::new(self.outlet, &self.request.settings.stop);
        let job = Job { constraint: None, sampler: self.sampler(0), limit: self.left, close_from: usize::MAX };
        let written = self.run(job, &mut |bytes| prose.hear(bytes))?;
        let text = prose.end();
        let reason = if written.complete { FinishReason::Stop } else { FinishReason::Length };
        if text.is_empty() && written.complete {
            return Err(ModelError::EmptyResponse);
        }
        Ok(self.response(AssistantMessage::from(text), reason))
    }

    /// Puts words into the model's mouth.
    fn put(&mut self, words: &str) {
        let tokens = self.engine.encode(words);
        self.prompt.extend(tokens);
    }

    /// Writes under a constraint, and keeps what is written as part of the prompt.
    fn write(&mut self, constraint: Constraint, sampler: Sampler) -> Result<Written, ModelError> {
        let close_from = self.request.settings.max_tokens.map_or(CLOSE_FROM, |_| usize::MAX);
        let job = Job { constraint: Some(constraint), sampler, limit: self.left, close_from };
        let outlet = self.outlet;
        self.run(job, &mut |_| outlet.attention())
    }

    fn run(&mut self, job: Job, listener: Listener<'_>) -> Result<Written, ModelError> {
        let written = self.engine.write(&self.prompt, job, listener).map_err(failure)?;
        if self.usage.output_tokens == 0 {
            self.usage.cached_input_tokens = written.cached as u64;
        }
        self.usage.output_tokens += written.tokens.len() as u64;
        self.left = self.left.saturating_sub(written.tokens.len());
        self.prompt.extend(&written.tokens);
        Ok(written)
    }

    /// Chooses tokens as the request asks. A later attempt leaves the path of the first.
    fn sampler(&self, attempt: u64) -> Sampler {
        let settings = &self.request.settings;
        let temperature = settings.temperature.unwrap_or(0.0);
        let top_p = settings.top_p.unwrap_or(1.0);
        match attempt {
            0 => Sampler::new(temperature, top_p, settings.seed),
            _ => Sampler::new(temperature.max(1.0), 1.0, Some(settings.seed.unwrap_or(0).wrapping_add(attempt))),
        }
    }

    /// A reply that reached the limit before anything of it was whole.
    fn cut(&self) -> ChatResponse {
        self.response(AssistantMessage::default(), FinishReason::Length)
    }

    fn response(&self, message: AssistantMessage, finish_reason: FinishReason) -> ChatResponse {
        ChatResponse { finish_reason, usage: self.usage, ..ChatResponse::new(message) }
    }
}

fn failure(error: EngineError) -> ModelError {
    match error {
        EngineError::TooLong { .. } => ModelError::ContextTooLong(error.to_string()),
        EngineError::Template(_) => ModelError::Unsupported(error.to_string()),
        _ => ModelError::failed(error),
    }
}

fn constraint_failure(reason: String) -> ModelError {
    failure(EngineError::Constraint(reason))
}
