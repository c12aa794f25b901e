//! From a request to a reply: which tools are needed, the arguments of each call, or the text.

mod json;
mod mention;
mod outlet;
mod plan;
mod prose;
mod question;

use haft_core::{
    Schema, ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice},
    usage::Usage,
};
use tracing::info_span;

use self::mention::mentions_all;
pub(crate) use self::outlet::{Events, Outlet};
use self::plan::{Decision, Stage};
use self::prose::Prose;
use self::question::{FREE, OpenQuestion};
use crate::constraint::Constraint;
use crate::dialogue::{self, ANSWER, Dialogue, NEED, NO_TOOL, TOOL};
use crate::engine::{Engine, EngineError, Job, Listener, Written};
use crate::sampler::Sampler;

/// The most tokens of a reply whose request sets no limit.
const LIMIT: usize = 2048;
/// A piece of JSON that is longer than this is brought to its end, unless the request sets a limit.
const CLOSE_FROM: usize = 1024;
/// A prompt that leaves fewer tokens than this for its reply has to do without the demonstration.
const ROOM: usize = 256;
/// How sure the model must be that another call is needed, as a logarithm. Measured on the smallest model: between
/// 9 and 16 where a part of the question is open, between -10 and 3 where none is.
const ENOUGH: f32 = 5.0;
/// More than any model is sure of anything, as a logarithm.
const NEVER: f32 = 1e6;
/// The most calls of one reply.
const CALLS: usize = 16;

/// Answers one request.
pub(crate) fn respond(
    engine: &mut Engine,
    request: &ChatRequest,
    outlet: &Outlet,
) -> Result<ChatResponse, ModelError> {
    let _span = info_span!("respond", tools = request.tools.len()).entered();
    if !dialogue::mentions_tools(request) {
        let prompt = engine.prompt(&dialogue::without_tools(request))?;
        return Writer::new(engine, request, outlet, prompt).text("");
    }
    let mut dialogue = Dialogue::new(request);
    let mut prompt = engine.prompt(&dialogue.turns)?;
    if prompt.len() + ROOM > engine.context() {
        dialogue.drop_demonstration();
        prompt = engine.prompt(&dialogue.turns)?;
    }
    let stage = if dialogue.results.is_empty() { Stage::Question } else { Stage::Results };
    let question = OpenQuestion::new(&dialogue.question);
    let writer = Writer::new(engine, request, outlet, prompt);
    Writer { results: dialogue.results, ..writer }.step(stage, question)
}

/// Writes one reply piece by piece: each piece becomes part of the prompt of the next.
struct Writer<'a> {
    engine: &'a mut Engine,
    request: &'a ChatRequest,
    outlet: &'a Outlet,
    prompt: Vec<u32>,
    /// What the answer is to be about.
    results: Vec<String>,
    reasoning: String,
    usage: Usage,
    left: usize,
}

impl<'a> Writer<'a> {
    fn new(engine: &'a mut Engine, request: &'a ChatRequest, outlet: &'a Outlet, prompt: Vec<u32>) -> Self {
        let usage = Usage::of_request(prompt.len() as u64, 0);
        let left = request.settings.max_tokens.map_or(LIMIT, |limit| limit as usize);
        let (results, reasoning) = (Vec::new(), String::new());
        Self { engine, request, outlet, prompt, results, reasoning, usage, left }
    }

    /// The next step of a conversation with tools: calls, or the answer.
    fn step(&mut self, stage: Stage, mut question: OpenQuestion) -> Result<ChatResponse, ModelError> {
        if !self.may_call()? {
            let need = if stage == Stage::Question {
                format!("{NEED}an answer\n{TOOL}{NO_TOOL}\n")
            } else {
                String::new()
            };
            return self.answer(&need);
        }
        let mut stage = stage;
        let mut tool_calls: Vec<ToolCall> = Vec::new();
        while tool_calls.len() < self.most_calls() {
            if stage == Stage::Call && !question.is_open() {
                break;
            }
            let Some(decision) = self.decide(stage, &question)? else { return Ok(self.cut()) };
            let (need, tool) = match decision {
                Decision::Call { need, tool } => (need, tool),
                Decision::Answer { need } if tool_calls.is_empty() => {
                    let lead = need.as_deref().map(|need| format!("{NEED}{need}\n{TOOL}{NO_TOOL}\n"));
                    self.think(need);
                    return self.answer(&lead.unwrap_or_default());
                }
                Decision::Answer { .. } | Decision::Enough => break,
            };
            self.put(&format!("{NEED}{need}\n{TOOL}{tool}"));
            let Some(call) = self.call(&tool)? else { return Ok(self.cut()) };
            // A model that repeats itself has nothing more to say.
            if tool_calls.iter().any(|made| made.name == call.name && made.arguments == call.arguments) {
                break;
            }
            question.settle(&need);
            self.think(Some(need));
            tool_calls.push(call);
            stage = Stage::Call;
        }
        if tool_calls.is_empty() {
            return Err(ModelError::InvalidResponse(
                "the model chose neither a tool nor an answer".to_owned(),
            ));
        }
        for (index, call) in tool_calls.iter().enumerate() {
            self.outlet.call(index, call);
        }
        let message = AssistantMessage { tool_calls, ..AssistantMessage::default() };
        Ok(self.response(message, FinishReason::ToolCalls))
    }

    /// Whether the reply may have calls.
    fn may_call(&self) -> Result<bool, ModelError> {
        let tools = &self.request.tools;
        match &self.request.tool_choice {
            ToolChoice::None => Ok(false),
            ToolChoice::Auto => Ok(!tools.is_empty()),
            ToolChoice::Required if tools.is_empty() => {
                Err(ModelError::Unsupported("a tool must be called and none is on offer".to_owned()))
            }
            ToolChoice::Tool(name) if tools.get(name.as_str()).is_none() => {
                Err(ModelError::Unsupported(format!("tool \"{name}\" must be called and is not on offer")))
            }
            ToolChoice::Required | ToolChoice::Tool(_) => Ok(true),
        }
    }

    fn most_calls(&self) -> usize {
        if self.request.settings.parallel_tool_calls == Some(false) { 1 } else { CALLS }
    }

    /// What the model decides to do next. `None` when the limit came first.
    fn decide(&mut self, stage: Stage, question: &OpenQuestion) -> Result<Option<Decision>, ModelError> {
        let start = self.prompt.len();
        let terminals = if stage == Stage::Results { None } else { question.terminals() };
        let written = match terminals.map(|terminals| self.plan(stage, &terminals)) {
            // No question is worth a failure: what cannot be pointed at is said freely.
            None | Some(Err(EngineError::Constraint(_))) => self.plan(stage, FREE)?,
            Some(written) => written?,
        };
        // What follows is put together with it before it becomes tokens again.
        self.prompt.truncate(start);
        Ok(written.complete.then(|| plan::decision(&written.bytes)))
    }

    fn plan(&mut self, stage: Stage, terminals: &str) -> Result<Written, EngineError> {
        let grammar = plan::grammar(self.request, stage, terminals);
        let constraint = self.engine.grammars().compile(grammar).map_err(EngineError::Constraint)?;
        let silence = if stage == Stage::Call { ENOUGH } else { 0.0 };
        self.write(constraint, self.sampler(0), silence)
    }

    /// The call of a tool whose name stands at the end of the prompt. `None` when the limit came before its end: a
    /// half call never leaves this crate.
    fn call(&mut self, name: &str) -> Result<Option<ToolCall>, ModelError> {
        let Some(tool) = self.request.tools.get(name) else {
            return Err(ModelError::failed(format!(
                "the model chose the tool \"{name}\", which is not on offer"
            )));
        };
        let arguments = self.json(tool.definition().input_schema(), "(", ")\n")?;
        Ok(arguments.map(|arguments| ToolCall::new(outlet::call_id(), name, arguments)))
    }

    fn answer(&mut self, lead: &str) -> Result<ChatResponse, ModelError> {
        // The space behind it belongs to the first word.
        self.put(&format!("{lead}{}", ANSWER.trim_end()));
        self.text(" ")
    }

    /// Notes what is needed as the reasoning of the reply: a line for each call.
    fn think(&mut self, need: Option<String>) {
        let Some(need) = need else { return };
        let line = if self.reasoning.is_empty() { need } else { format!("\n{need}") };
        self.reasoning.push_str(&line);
        self.outlet.reasoning(line);
    }

    /// The text of a reply, in the form that the request asks for, behind a space if there is to be one.
    fn text(&mut self, space: &str) -> Result<ChatResponse, ModelError> {
        let object = || Schema::new(serde_json::json!({"type": "object"})).map_err(ModelError::failed);
        let schema = match &self.request.response_format {
            ResponseFormat::Text => return self.prose(),
            ResponseFormat::JsonObject => object()?,
            ResponseFormat::JsonSchema { schema, .. } => schema.clone(),
        };
        let Some(text) = self.json(&schema, space, "")? else { return Ok(self.cut()) };
        self.outlet.text(&text);
        Ok(self.response(AssistantMessage::from(text), FinishReason::Stop))
    }

    fn prose(&mut self) -> Result<ChatResponse, ModelError> {
        let stops = self.request.settings.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty());
        // A conversation with tools has lines of its own, which are no part of an answer.
        let lines = dialogue::LINES.into_iter().filter(|_| dialogue::mentions_tools(self.request));
        let mut prose = Prose::new(self.outlet, stops.collect(), lines.collect());
        let start = self.prompt.len();
        let mut silence = 0.0;
        // The results of several calls belong to several parts of a question.
        let mut more = self.results.len().saturating_sub(1);
        let written = loop {
            let job = Job {
                constraint: None,
                sampler: self.sampler(0),
                limit: self.left,
                close_from: usize::MAX,
                silence,
            };
            let written = self.run(job, &mut |bytes| prose.hear(bytes))?;
            let is_all = prose.is_stopped() || mentions_all(prose.said(), &self.results);
            if !written.complete || is_all || more == 0 || self.left == 0 {
                break written;
            }
            more -= 1;
            silence = -NEVER;
            self.prompt.truncate(start);
            let said = prose.resume().to_owned();
            self.put(&said);
        };
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
    fn write(
        &mut self,
        constraint: Constraint,
        sampler: Sampler,
        silence: f32,
    ) -> Result<Written, EngineError> {
        let close_from = self.request.settings.max_tokens.map_or(CLOSE_FROM, |_| usize::MAX);
        let job = Job { constraint: Some(constraint), sampler, limit: self.left, close_from, silence };
        let outlet = self.outlet;
        self.run(job, &mut |_| outlet.attention())
    }

    fn run(&mut self, job: Job, listener: Listener<'_>) -> Result<Written, EngineError> {
        let written = self.engine.write(&self.prompt, job, listener)?;
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
            _ => Sampler::new(
                temperature.max(1.0),
                1.0,
                Some(settings.seed.unwrap_or(0).wrapping_add(attempt)),
            ),
        }
    }

    /// A reply that reached the limit before anything of it was whole.
    fn cut(&self) -> ChatResponse {
        self.response(AssistantMessage::default(), FinishReason::Length)
    }

    fn response(&self, message: AssistantMessage, finish_reason: FinishReason) -> ChatResponse {
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
