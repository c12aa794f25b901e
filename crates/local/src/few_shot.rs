//! Few-shot prompting for small models, as an alternative to the tool format of a chat template.
//!
//! Every conversation with tools begins with a fixed demonstration. For each call, the model
//! generates three parts in this order: the need (a quotation from the question), the tool name,
//! and the arguments. ADR 4 describes the strategy and its measurements. An [`ExampleProfile`]
//! contains its parameters.

mod demonstration;
mod dialogue;
mod mention;
mod next_step;
mod question;
mod signature;

use haft_core::{
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, ModelError, ToolChoice},
};

pub(crate) use self::demonstration::turns as demonstration;
use self::dialogue::{ANSWER, Dialogue, NEED_LABEL, NO_TOOL, TOOL};
use self::mention::mentions_all;
use self::next_step::{NextStep, Plan, Stage};
use self::question::{FREE_NEED_RULE, OpenQuestion};
use crate::engine::{Candidate, Engine, EngineError, GeneratedTokens};
use crate::profile::ExampleProfile;
use crate::respond::{EventSender, ProseDecoder, ReplyWriter};

/// The minimum number of tokens that the prompt must leave in the context window for the reply. If
/// it leaves fewer tokens, the demonstration is removed from the prompt.
const MIN_REPLY_TOKENS: usize = 256;
/// A bias larger than any logit. Subtracting it from the logits of the end-of-sequence tokens keeps
/// the model from ending the reply with the next token.
const PREVENT_END_BIAS: f32 = 1e6;

/// Generates the reply to `request`, which has tools or tool results.
pub(crate) fn respond(
    engine: &mut Engine,
    profile: &'static ExampleProfile,
    request: &ChatRequest,
    event_sender: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let (dialogue, prompt) = render_prompt(engine, profile, request)?;
    let stage = if dialogue.results.is_empty() { Stage::AfterQuestion } else { Stage::AfterResults };
    let question = OpenQuestion::new(&dialogue.question);
    let writer = ReplyWriter::new(engine, request, event_sender, prompt);
    ExampleReply { writer, profile, results: dialogue.results }.write_reply(stage, question)
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
    /// The tool results at the end of the conversation, which the answer should mention.
    results: Vec<String>,
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
                Stage::AfterQuestion => format!("{NEED_LABEL}an answer\n{TOOL}{NO_TOOL}\n"),
                Stage::AfterResults | Stage::Call => String::new(),
            };
            return self.write_answer(&lead);
        }
        let mut tool_calls = Vec::new();
        while tool_calls.len() < self.writer.max_calls() {
            if stage == Stage::Call && !question.is_open() {
                break;
            }
            let Some(decision) = self.decide(stage, &question)? else {
                return Ok(self.writer.truncated_response());
            };
            let (need, tool) = match decision {
                NextStep::Call { need, tool } => (need, tool),
                NextStep::Answer { need } if tool_calls.is_empty() => {
                    let lead = need.as_deref().map(|need| format!("{NEED_LABEL}{need}\n{TOOL}{NO_TOOL}\n"));
                    self.add_reasoning(need);
                    return self.write_answer(&lead.unwrap_or_default());
                }
                NextStep::Answer { .. } | NextStep::NoMoreCalls => break,
            };
            self.writer.prefill(&format!("{NEED_LABEL}{need}\n{TOOL}{tool}"));
            let Some(call) = self.writer.write_call(&tool, "(", ")\n")? else {
                return Ok(self.writer.truncated_response());
            };
            // A model that repeats a call once would repeat it endlessly, so the reply ends here.
            let is_same =
                |made: &haft_core::ToolCall| made.name == call.name && made.arguments == call.arguments;
            if tool_calls.iter().any(is_same) {
                break;
            }
            question.advance_past(&need);
            self.add_reasoning(Some(need));
            tool_calls.push(call);
            stage = Stage::Call;
        }
        self.writer.finish_with_calls(AssistantMessage::default(), tool_calls)
    }

    /// Generates the model's next decision at `stage`. Returns `None` if the token limit was
    /// reached.
    fn decide(&mut self, stage: Stage, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        let start = self.writer.prompt.len();
        let quotes = self.profile.quotes_question && stage != Stage::AfterResults;
        let terminals = if quotes { question.need_rules() } else { None };
        let written = match terminals.map(|need_rules| self.write_plan(stage, &need_rules)) {
            // The grammar for quotations may exceed the limits of the engine, for example for a
            // long question. The model then states the need in its own words.
            None | Some(Err(EngineError::Constraint(_))) => self.write_plan(stage, FREE_NEED_RULE)?,
            Some(written) => written?,
        };
        // The decision is removed from the prompt again. The caller appends the decision and the
        // text that follows it as a single text, because separate tokenization could give different
        // tokens.
        self.writer.prompt.truncate(start);
        if !written.is_complete {
            return Ok(None);
        }
        Ok(Some(match next_step::parse_plan(&written.bytes) {
            Plan::Answer => NextStep::Answer { need: None },
            Plan::End => NextStep::NoMoreCalls,
            Plan::Need(need) => match self.choose_tool(&need)? {
                Some(tool) => NextStep::Call { need, tool },
                None => NextStep::Answer { need: Some(need) },
            },
        }))
    }

    /// Chooses the tool for `need`. Returns `None` if no tool fits.
    fn choose_tool(&mut self, need: &str) -> Result<Option<String>, ModelError> {
        let request = self.writer.request;
        let tools = next_step::callable_tools(request);
        let encode = |text: &str| self.writer.engine.tokenizer().encode_content(text);
        let mut candidates: Vec<_> = tools
            .iter()
            .map(|name| Candidate { tokens: encode(&next_step::call_beginning(request, name)), bias: 0.0 })
            .collect();
        if !self.must_call() {
            candidates.push(Candidate {
                tokens: encode(&format!(" {NO_TOOL}\n")),
                bias: self.profile.no_tool_bias,
            });
        }
        let start = self.writer.prompt.len();
        self.writer.prefill(&format!("{NEED_LABEL}{need}\n{}", TOOL.trim_end()));
        let chosen = self.writer.choose_candidate(&candidates)?;
        self.writer.prompt.truncate(start);
        Ok(chosen.and_then(|index| tools.into_iter().nth(index)))
    }

    fn must_call(&self) -> bool {
        !matches!(self.writer.request.tool_choice, ToolChoice::Auto)
    }

    fn write_plan(&mut self, stage: Stage, need_rules: &str) -> Result<GeneratedTokens, EngineError> {
        let grammar = next_step::plan_grammar(stage, self.must_call(), need_rules);
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

    fn write_answer(&mut self, lead: &str) -> Result<ChatResponse, ModelError> {
        // The space after `Answer:` is not prefilled, because it is part of the first word's token.
        self.writer.prefill(&format!("{lead}{}", ANSWER.trim_end()));
        match self.writer.write_structured(" ")? {
            Some(reply) => Ok(reply),
            None => self.write_prose(),
        }
    }

    /// Generates the answer as text. If the answer does not mention all tool results, the model may
    /// have to continue it; see [`ExampleProfile::continues_answers`].
    fn write_prose(&mut self) -> Result<ChatResponse, ModelError> {
        let mut prose = ProseDecoder::new(
            self.writer.event_sender,
            self.writer.stop_sequences(),
            dialogue::LINE_STARTS.to_vec(),
        );
        let start = self.writer.prompt.len();
        let mut eos_bias = 0.0;
        // Tool results usually belong to different parts of the question. A short answer may omit
        // some of them.
        let mut continuations = match self.profile.continues_answers {
            true => self.results.len().saturating_sub(1),
            false => 0,
        };
        let written = loop {
            let job = self.writer.unconstrained_job(eos_bias);
            let written = self.writer.generate_with(job, &mut |bytes| prose.push(bytes))?;
            let is_finished = prose.hit_stop_sequence() || mentions_all(prose.text(), &self.results);
            if !written.is_complete || is_finished || continuations == 0 || self.writer.tokens_left == 0 {
                break written;
            }
            continuations -= 1;
            eos_bias = -PREVENT_END_BIAS;
            self.writer.prompt.truncate(start);
            let text = prose.resume().to_owned();
            self.writer.prefill(&text);
        };
        self.writer.finish_text(prose.finish(), written.is_complete)
    }
}
