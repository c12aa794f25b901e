//! Few-shot prompting for small models, as an alternative to the tool format of a chat template.
//!
//! Every conversation with tools begins with a fixed demonstration. For each call, the model
//! generates three parts in this order: the need (a quotation from the question), the tool name or
//! `none`, and the arguments. A grammar permits only quotations, names and valid arguments; the
//! model decides the rest. ADR 4 describes the strategy. An [`ExampleProfile`] contains its
//! parameters.

mod demonstration;
mod dialogue;
mod plan;
mod question;
mod signature;
mod tool_choice;

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, ModelError, ToolChoice},
};

pub(crate) use self::demonstration::turns as demonstration;
use self::dialogue::{ANSWER, Dialogue, LINE_STARTS, NEED_LABEL, NO_TOOL, TOOL, readable};
use self::plan::{Plan, Stage};
use self::question::{FREE_NEED_RULE, OpenQuestion};
use crate::engine::{Engine, EngineError, GeneratedTokens, GenerationJob};
use crate::profile::ExampleProfile;
use crate::respond::{EventSender, ProseDecoder, ReplyWriter};

/// The minimum number of tokens that the prompt must leave in the context window for the reply. If
/// it leaves fewer tokens, the demonstration is removed from the prompt.
const MIN_REPLY_TOKENS: usize = 256;

/// Generates the reply to `request`, which has tools or tool results.
pub(crate) fn respond(
    engine: &mut Engine,
    profile: &'static ExampleProfile,
    request: &ChatRequest,
    event_sender: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let (dialogue, prompt) = render_prompt(engine, profile, request)?;
    let stage = if dialogue.results.is_empty() { Stage::Question } else { Stage::Results };
    let writer = ReplyWriter::new(engine, request, event_sender, prompt);
    let reply = ExampleReply { writer, profile, results: dialogue.results };
    reply.write_reply(stage, OpenQuestion::new(&dialogue.question))
}

/// Encodes the prompt for `request`.
pub(crate) fn encode_prompt(
    engine: &Engine,
    profile: &ExampleProfile,
    request: &ChatRequest,
) -> Result<Vec<u32>, EngineError> {
    render_prompt(engine, profile, request).map(|(_, prompt)| prompt)
}

fn render_prompt(
    engine: &Engine,
    profile: &ExampleProfile,
    request: &ChatRequest,
) -> Result<(Dialogue, Vec<u32>), EngineError> {
    let mut dialogue = Dialogue::new(request, (profile.demonstration)());
    let mut prompt = engine.encode_prompt(&dialogue.turns)?;
    if prompt.len() + MIN_REPLY_TOKENS > engine.context_length() {
        dialogue.drop_demonstration();
        prompt = engine.encode_prompt(&dialogue.turns)?;
    }
    Ok((dialogue, prompt))
}

struct ExampleReply<'a> {
    writer: ReplyWriter<'a>,
    profile: &'static ExampleProfile,
    /// The tool results at the end of the conversation.
    results: Vec<String>,
}

/// The model's decision on the next step of the conversation.
enum NextStep {
    /// The model calls `tool` to satisfy `need`.
    Call { need: String, tool: String },
    /// The model answers. `need` is the stated need, for which the model chose no tool. It is
    /// `None` if the model answers directly, which is possible only after tool results.
    Answer { need: Option<String> },
    /// The model ends the reply after its calls.
    NoMoreCalls,
}

impl ExampleReply<'_> {
    /// Generates the reply, which consists of tool calls or of an answer.
    fn write_reply(
        mut self,
        mut stage: Stage,
        mut question: OpenQuestion,
    ) -> Result<ChatResponse, ModelError> {
        if !self.writer.may_call()? {
            let lead = match stage {
                Stage::Question => format!("{NEED_LABEL}an answer\n{TOOL}{NO_TOOL}\n"),
                Stage::Results | Stage::Call => String::new(),
            };
            return self.write_answer(&lead);
        }
        let mut tool_calls: Vec<ToolCall> = Vec::new();
        while tool_calls.len() < self.writer.max_calls() {
            if stage == Stage::Call && !question.is_open() {
                break;
            }
            let (need, tool) = match self.decide(stage, &question)? {
                None => return Ok(self.writer.truncated_response()),
                Some(NextStep::Call { need, tool }) => (need, tool),
                Some(NextStep::Answer { need }) if tool_calls.is_empty() => {
                    let need = need.filter(|_| stage == Stage::Question);
                    let lead = need.as_deref().map(|need| format!("{NEED_LABEL}{need}\n{TOOL}{NO_TOOL}\n"));
                    self.add_reasoning(need);
                    return self.write_answer(&lead.unwrap_or_default());
                }
                Some(NextStep::Answer { .. } | NextStep::NoMoreCalls) => break,
            };
            self.writer.prefill(&format!("{NEED_LABEL}{need}\n{TOOL}{tool}"));
            let Some(call) = self.writer.write_call(&tool, "(", ")\n")? else {
                return Ok(self.writer.truncated_response());
            };
            // A model that repeats a call in its reply would repeat it endlessly. A call in a later
            // reply may poll; the loop guard of the run detects a loop.
            if tool_calls.iter().any(|made| is_same_call(made, &call)) {
                break;
            }
            question.advance_past(&need);
            self.add_reasoning(Some(need));
            tool_calls.push(call);
            stage = Stage::Call;
        }
        self.writer.finish_with_calls(AssistantMessage::default(), tool_calls)
    }

    /// Generates the model's next decision, and leaves the prompt unchanged. Returns `None` if the
    /// token limit was reached.
    ///
    /// The caller appends the decision and the text that follows it as a single text, because
    /// separate tokenization could give different tokens.
    fn decide(&mut self, stage: Stage, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        let start = self.writer.prompt.len();
        // After tool results, the model uses its own words.
        let quotation = if stage == Stage::Results { None } else { question.need_rules() };
        let written = match quotation.map(|need_rules| self.write_plan(stage, &need_rules)) {
            // The grammar for quotations may exceed the limits of the engine, for example for a
            // long question. The model then states the need in its own words.
            None | Some(Err(EngineError::Constraint(_))) => self.write_plan(stage, FREE_NEED_RULE)?,
            Some(written) => written?,
        };
        self.writer.prompt.truncate(start);
        if !written.is_complete {
            return Ok(None);
        }
        Ok(Some(match plan::parse_plan(&written.bytes) {
            Plan::Answer => NextStep::Answer { need: None },
            Plan::End => NextStep::NoMoreCalls,
            Plan::Need(need) => match self.choose_tool(stage, &need)? {
                Some(tool) => NextStep::Call { need, tool },
                None => NextStep::Answer { need: Some(need) },
            },
        }))
    }

    fn must_call(&self) -> bool {
        !matches!(self.writer.request.tool_choice, ToolChoice::Auto)
    }

    fn write_plan(&mut self, stage: Stage, need_rules: &str) -> Result<GeneratedTokens, EngineError> {
        let grammar = plan::plan_grammar(stage, self.must_call(), need_rules);
        let constraint = self.writer.engine.grammars().compile(grammar).map_err(EngineError::Constraint)?;
        let eos_bias = if stage == Stage::Call { self.profile.end_of_calls_bias } else { 0.0 };
        let job = self.writer.constrained_job(constraint, eos_bias);
        self.writer.generate(job)
    }

    /// Appends `need`, which the model stated, to the reasoning of the reply and emits it. Does
    /// nothing if `need` is `None`.
    fn add_reasoning(&mut self, need: Option<String>) {
        let Some(need) = need else { return };
        let line = if self.writer.reasoning.is_empty() { need } else { format!("\n{need}") };
        self.writer.reasoning.push_str(&line);
        self.writer.event_sender.reasoning(line);
    }

    /// Generates the answer after the literal text `lead`.
    fn write_answer(&mut self, lead: &str) -> Result<ChatResponse, ModelError> {
        // The space after `Answer:` is not prefilled, because it is part of the first word's token.
        self.writer.prefill(&format!("{lead}{}", ANSWER.trim_end()));
        if let Some(reply) = self.writer.write_structured(" ")? {
            return Ok(reply);
        }
        let mut prose =
            ProseDecoder::new(self.writer.event_sender, self.writer.stop_sequences(), LINE_STARTS.to_vec());
        let banned_first_tokens = self.beginnings_of_data();
        let job = GenerationJob { banned_first_tokens, ..self.writer.unconstrained_job(0.0) };
        let written = self.writer.generate_with(job, &mut |bytes| prose.push(bytes))?;
        self.writer.finish_text(prose.finish(), written.is_complete)
    }

    /// Returns the tokens that begin a tool result in JSON. An answer must not begin with them: a
    /// small model repeats the data instead of a sentence about it.
    fn beginnings_of_data(&self) -> Vec<u32> {
        let is_data = |text: &&String| text.trim_start().starts_with(['{', '[']);
        let data = self.results.iter().filter(is_data);
        let texts = data.flat_map(|text| [Some(text.trim_start().to_owned()), readable(text)]);
        texts.flatten().flat_map(|text| self.writer.engine.tokenizer().beginnings_of(&text)).collect()
    }
}

fn is_same_call(one: &ToolCall, other: &ToolCall) -> bool {
    one.name == other.name && one.arguments.value_or_string() == other.arguments.value_or_string()
}
