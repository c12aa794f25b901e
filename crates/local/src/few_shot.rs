//! Few-shot prompting for small models, as an alternative to the tool format of a chat template.
//!
//! Every conversation with tools begins with a fixed demonstration. For each call, the model
//! generates three parts in this order: the need (a quotation from the question), the tool name,
//! and the arguments. ADR 4 describes the strategy and its measurements. An [`ExampleProfile`]
//! contains its parameters.

mod correction;
mod demonstration;
mod dialogue;
mod follow_up;
mod grounding;
mod mention;
mod next_step;
mod question;
mod repetition;
mod repository;
mod signature;
#[cfg(test)]
mod tests;
mod tool_choice;
mod tool_words;
mod values;

use haft_core::{
    Schema, ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, ModelError, ToolChoice},
};
use serde_json::Value;
use tracing::debug;

use self::correction::{ArgumentCorrector, Correction};
pub(crate) use self::demonstration::turns as demonstration;
use self::dialogue::{ANSWER, DEFERRED_LABEL, Dialogue, NEED_LABEL, NO_TOOL, TOOL, readable};
use self::follow_up::{continued_call, may_be_answered, with_earlier_arguments};
use self::grounding::{KnownFacts, KnownWords, spaced_json};
use self::mention::mentions_all;
use self::next_step::{NextStep, Plan, Stage};
use self::question::{FREE_NEED_RULE, OpenQuestion, first_item_need, refers_to_result};
use self::repetition::repeats_known_result;
use self::repository::split_repository;
use self::tool_words::ToolWords;
use crate::engine::{Engine, EngineError, GeneratedTokens, GenerationJob, NextAction};
use crate::profile::ExampleProfile;
use crate::respond::{EventSender, ProseDecoder, ReplyWriter, call_id};

/// The minimum number of tokens that the prompt must leave in the context window for the reply. If
/// it leaves fewer tokens, the demonstration is removed from the prompt.
const MIN_REPLY_TOKENS: usize = 256;
/// The maximum number of discarded calls for a need. Each of them costs the time of a call.
const MAX_DISCARDED_CALLS: usize = 2;
/// The maximum difference between the scores of the first and the second choice of a tool. If it is
/// larger, only the first tool fits the need.
const MAX_SCORE_DIFFERENCE: f32 = 3.5;
/// The beginning of an answer that asks for a missing argument. Without it, a small model claims
/// that it did what the user asked for.
const QUESTION_BEGINNING: &str = " Please tell me the";
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
    let facts = KnownFacts::new(request);
    let tool_words = ToolWords::new(request);
    let writer = ReplyWriter::new(engine, request, event_sender, prompt);
    let deferred_need = dialogue.deferred_need.filter(|_| stage == Stage::AfterResults);
    let corrector = ArgumentCorrector::new(request);
    let reply = ExampleReply {
        writer,
        profile,
        facts,
        corrector,
        tool_words,
        results: dialogue.results,
        deferred_need,
        lacks_argument: false,
        is_need_split: false,
        may_be_answered: stage == Stage::AfterQuestion && may_be_answered(request, &dialogue.question),
        stage,
    };
    reply.write_reply(question)
}

/// Encodes the prompt for `request`.
pub(crate) fn encode_prompt(
    engine: &Engine,
    profile: &ExampleProfile,
    request: &ChatRequest,
) -> Result<Vec<u32>, EngineError> {
    render_prompt(engine, profile, request).map(|(_, prompt)| prompt)
}

/// Returns the texts among the arguments of `call`, in lower case.
fn texts_of(call: &ToolCall) -> Vec<String> {
    let text = |value: &Value| match value {
        // The values of enumerations have underscores instead of spaces: `upper_floor`.
        Value::String(text) => Some(text.to_lowercase().replace('_', " ")),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let arguments = call.arguments.value_or_string();
    let values = arguments.as_object().into_iter().flat_map(|arguments| arguments.values());
    let items = values.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    items.filter_map(text).filter(|text| !text.trim().is_empty()).collect()
}

/// Returns `earlier` with `item` instead of its only argument. Returns `None` if it has several
/// arguments, or if `schema` does not permit `item`.
fn with_item(earlier: &ToolCall, item: &str, schema: &Schema) -> Option<ToolCall> {
    let arguments = earlier.arguments.value_or_string();
    let members = arguments.as_object()?;
    let (name, None) = (members.keys().next()?, members.keys().nth(1)) else { return None };
    let number = item.parse::<serde_json::Number>().ok().map(Value::Number);
    let values = [number, Some(Value::from(item))].into_iter().flatten();
    let mut candidates = values.map(|value| serde_json::json!({ name: value }));
    let valid = candidates.find(|candidate| schema.is_valid(candidate))?;
    Some(ToolCall::new(call_id(), earlier.name.clone(), spaced_json(&valid)))
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
    facts: KnownFacts,
    corrector: ArgumentCorrector,
    tool_words: ToolWords,
    /// The tool results at the end of the conversation, which the answer should mention.
    results: Vec<String>,
    /// The need whose call waits for results: at first the results in the request, and then the
    /// results of the calls in this reply.
    deferred_need: Option<String>,
    /// `true` if a call was discarded, because the conversation has no value for an argument.
    lacks_argument: bool,
    /// `true` if the last need was split, so that the rest of it needs another call.
    is_need_split: bool,
    /// `true` if an earlier tool result may answer the question.
    may_be_answered: bool,
    stage: Stage,
}

impl ExampleReply<'_> {
    /// Generates the reply, which consists of tool calls or of an answer.
    fn write_reply(mut self, mut question: OpenQuestion) -> Result<ChatResponse, ModelError> {
        if !self.writer.may_call()? {
            let lead = match self.stage {
                Stage::AfterQuestion => format!("{NEED_LABEL}an answer\n{TOOL}{NO_TOOL}\n"),
                Stage::AfterResults | Stage::Call => String::new(),
            };
            return self.write_answer(&lead, "");
        }
        let mut tool_calls = Vec::new();
        while tool_calls.len() < self.writer.max_calls() {
            if self.stage == Stage::Call && !question.is_open() {
                break;
            }
            let waiting = if self.stage == Stage::AfterResults { self.deferred_need.take() } else { None };
            let item = question.next_item().zip(tool_calls.last());
            let follow_up =
                if self.stage == Stage::AfterQuestion { self.write_follow_up(&question)? } else { None };
            let mut decision = match (waiting, item, follow_up) {
                (Some(need), ..) => self.write_call(need)?,
                (None, Some((item, earlier)), _) => self.write_call_for_item(item, earlier)?,
                (None, None, Some(step)) => Some(step),
                (None, None, None) => match self.write_next_request(&question, &tool_calls)? {
                    Some(step) => Some(step),
                    None => self.decide(&question)?,
                },
            };
            if self.stage == Stage::AfterQuestion && matches!(decision, Some(NextStep::Answer { .. })) {
                self.is_need_split = false;
                match self.write_call_for_part(&question)? {
                    Some(NextStep::Answer { .. }) => {}
                    other => decision = other,
                }
            }
            let Some(decision) = decision else {
                return Ok(self.writer.truncated_response());
            };
            let (need, call) = match decision {
                NextStep::Call { need, call } => (need, call),
                NextStep::Answer { .. } if self.stage == Stage::AfterResults => {
                    return self.write_answer("", "");
                }
                NextStep::Answer { need } if tool_calls.is_empty() => {
                    let lead = need.as_deref().map(|need| format!("{NEED_LABEL}{need}\n{TOOL}{NO_TOOL}\n"));
                    self.add_reasoning(need);
                    let asks = self.lacks_argument && KnownWords::new(question.text()).is_english();
                    let beginning = if asks { QUESTION_BEGINNING } else { "" };
                    return self.write_answer(&lead.unwrap_or_default(), beginning);
                }
                NextStep::Answer { .. } | NextStep::NoMoreCalls => break,
            };
            // A model that repeats a call once would repeat it endlessly, so the reply ends here.
            if tool_calls.iter().any(|made| self.is_repetition(made, &call)) {
                break;
            }
            question.advance_past(&need, &texts_of(&call));
            if std::mem::take(&mut self.is_need_split) {
                question.require_call();
            }
            self.add_reasoning(Some(need));
            tool_calls.push(call);
            self.stage = Stage::Call;
        }
        let deferred = self.deferred_need.take().map(|need| format!("{DEFERRED_LABEL}{need}"));
        self.add_reasoning(deferred);
        self.writer.finish_with_calls(AssistantMessage::default(), tool_calls)
    }

    /// Generates the model's next decision. Returns `None` if the token limit was
    /// reached.
    fn decide(&mut self, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        let stage = self.stage;
        let start = self.writer.prompt.len();
        let quotes = self.profile.quotes_question && stage != Stage::AfterResults;
        if let Some(need) = question.as_single_need().filter(|_| quotes && stage == Stage::AfterQuestion) {
            return self.write_call(need);
        }
        let terminals = if quotes { question.need_rules() } else { None };
        // After a call, the reply may end, also if the tool choice requires a call.
        let must_plan = if stage == Stage::Call { question.requires_call() } else { self.must_call() };
        let written = match terminals.map(|need_rules| self.write_plan(stage, must_plan, &need_rules)) {
            // The grammar for quotations may exceed the limits of the engine, for example for a
            // long question. The model then states the need in its own words.
            None | Some(Err(EngineError::Constraint(_))) => {
                self.write_plan(stage, must_plan, FREE_NEED_RULE)?
            }
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
            // The need is about a result that this reply does not have.
            Plan::Need(need) if stage == Stage::Call && refers_to_result(&need) => {
                self.deferred_need = Some(need);
                NextStep::NoMoreCalls
            }
            Plan::Need(need) => {
                let need = match stage {
                    Stage::AfterQuestion => question.with_sentence_start(&need),
                    Stage::AfterResults | Stage::Call => need,
                };
                if let Some(step) = self.write_skipped_call(question, &need)? {
                    return Ok(Some(step));
                }
                let part = if quotes { self.first_part(&need)? } else { None };
                self.is_need_split = part.is_some();
                return self.write_call(part.unwrap_or(need));
            }
        }))
    }

    /// Generates the call for the request at the beginning of the open text, if it needs another tool
    /// than `tool_calls`, the calls in this reply. Without this step, a small model ends the reply.
    /// Returns `None` if the model must decide.
    fn write_next_request(
        &mut self,
        question: &OpenQuestion,
        tool_calls: &[ToolCall],
    ) -> Result<Option<NextStep>, ModelError> {
        if self.stage != Stage::Call {
            return Ok(None);
        }
        let Some(request) = question.next_request() else { return Ok(None) };
        if refers_to_result(request) {
            self.deferred_need = Some(request.to_owned());
            return Ok(Some(NextStep::NoMoreCalls));
        }
        let Some((tool, _)) = self.choose_tool(request, &[])? else { return Ok(None) };
        if tool_calls.iter().any(|call| call.name == tool) {
            return Ok(None);
        }
        let lacked_argument = self.lacks_argument;
        match self.write_call(request.to_owned())? {
            Some(NextStep::Call { need, call }) => Ok(Some(NextStep::Call { need, call })),
            None => Ok(None),
            // The call lacks an argument, which the results may contain.
            Some(_) if self.deferred_need.is_some() => Ok(Some(NextStep::NoMoreCalls)),
            Some(_) => {
                self.lacks_argument = lacked_argument;
                Ok(None)
            }
        }
    }

    /// Generates the call for the request before `need` that the model skipped. Returns `None` if
    /// there is no such request, or if no tool fits it.
    fn write_skipped_call(
        &mut self,
        question: &OpenQuestion,
        need: &str,
    ) -> Result<Option<NextStep>, ModelError> {
        if self.stage == Stage::AfterResults {
            return Ok(None);
        }
        let Some(skipped) = question.skipped_request(need) else { return Ok(None) };
        let lacked_argument = self.lacks_argument;
        match self.write_call(skipped)? {
            Some(step @ NextStep::Call { .. }) => {
                self.is_need_split = true;
                Ok(Some(step))
            }
            _ => {
                self.deferred_need = None;
                self.lacks_argument = lacked_argument;
                Ok(None)
            }
        }
    }

    /// Generates the call for a question that continues an earlier question; see [`follow_up`].
    /// Returns `None` if `question` does not, or if the call is invalid or known.
    fn write_follow_up(&mut self, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        let request = self.writer.request;
        let text = question.text();
        let Some(earlier) = continued_call(request, text) else { return Ok(None) };
        let Some(tool) = request.tools.get(earlier.name.as_str()) else { return Ok(None) };
        let schema = tool.definition().input_schema();
        let need = text.trim_end_matches(['.', '?', '!']).to_owned();
        if !self.is_best_tool(&need, &earlier.name)? {
            return Ok(None);
        }
        let (start, tokens_left) = (self.writer.prompt.len(), self.writer.tokens_left);
        self.writer.prefill(&format!("{NEED_LABEL}{need}\n{TOOL}{}", earlier.name));
        let merge = |call: &ToolCall| with_earlier_arguments(call, earlier, text, schema);
        if let Some(call) = self.write_arguments(&need, &earlier.name, schema, &merge)? {
            let is_known = call.arguments.value_or_string() == earlier.arguments.value_or_string();
            if !is_known && self.facts.first_invented(&call, schema).is_none() {
                return Ok(Some(NextStep::Call { need, call }));
            }
        }
        self.writer.prompt.truncate(start);
        self.writer.tokens_left = tokens_left;
        Ok(None)
    }

    /// Generates the call of the tool of `earlier`, the call for the item of a list before `item`.
    /// Returns `None` if the token limit was reached.
    fn write_call_for_item(
        &mut self,
        item: &str,
        earlier: &ToolCall,
    ) -> Result<Option<NextStep>, ModelError> {
        let Some(tool) = self.writer.request.tools.get(&earlier.name) else {
            return Ok(Some(NextStep::NoMoreCalls));
        };
        let schema = tool.definition().input_schema().clone();
        if !self.is_best_tool(item, &earlier.name)? {
            return Ok(Some(NextStep::NoMoreCalls));
        }
        let start = self.writer.prompt.len();
        self.writer.prefill(&format!("{NEED_LABEL}{item}\n{TOOL}{}", earlier.name));
        let replace = |call: &ToolCall| match call.arguments == earlier.arguments {
            true => with_item(earlier, item, &schema),
            false => None,
        };
        let Some(call) = self.write_arguments(item, &earlier.name, &schema, &replace)? else {
            return Ok(None);
        };
        if call.arguments == earlier.arguments || self.facts.first_invented(&call, &schema).is_some() {
            self.writer.prompt.truncate(start);
            return Ok(Some(NextStep::NoMoreCalls));
        }
        Ok(Some(NextStep::Call { need: item.to_owned(), call }))
    }

    /// Chooses a tool for the first part of `question` for which a tool fits, and generates the
    /// call. A small model finds no tool for "skip this one and turn it up". Returns `None` if the
    /// token limit was reached.
    fn write_call_for_part(&mut self, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        self.deferred_need = None;
        for part in question.parts() {
            let step = self.write_call(part)?;
            if !matches!(step, Some(NextStep::Answer { .. })) {
                return Ok(step);
            }
        }
        // The first item of a list is a part, too.
        let whole = question.text().trim_end_matches(['.', '?', '!']);
        if let Some(reduced) = first_item_need(whole) {
            return Ok(self.write_call(reduced)?.map(|step| match step {
                NextStep::Call { call, .. } => NextStep::Call { need: whole.to_owned(), call },
                other => other,
            }));
        }
        Ok(Some(NextStep::Answer { need: None }))
    }

    /// Chooses a tool for `need` and generates the call. Returns `None` if the token limit was
    /// reached.
    ///
    /// If the model invents a required argument, or repeats a call whose result is known, the call
    /// is discarded. Another tool may then fit, such as one that finds the missing identifier.
    fn write_call(&mut self, need: String) -> Result<Option<NextStep>, ModelError> {
        let (start, tokens_left) = (self.writer.prompt.len(), self.writer.tokens_left);
        let mut discarded = Vec::new();
        let mut best_score = None;
        while discarded.len() < MAX_DISCARDED_CALLS {
            let Some((tool, score)) = self.choose_tool(&need, &discarded)? else { break };
            if score < *best_score.get_or_insert(score) - MAX_SCORE_DIFFERENCE {
                break;
            }
            let lead = format!("{NEED_LABEL}{need}\n{TOOL}{tool}");
            self.writer.prefill(&lead);
            let Some(definition) = self.writer.request.tools.get(&tool).map(|tool| tool.definition().clone())
            else {
                break;
            };
            let schema = definition.input_schema();
            let Some(mut call) = self.write_arguments(&need, &tool, schema, &|_| None)? else {
                return Ok(None);
            };
            let mut invented = self.facts.first_invented(&call, schema);
            if let Some(narrowed) =
                invented.as_deref().and_then(|name| self.facts.with_known_ids(schema, name))
            {
                self.writer.prompt.truncate(start);
                self.writer.prefill(&lead);
                let Some(other) = self.write_arguments(&need, &tool, &narrowed, &|_| None)? else {
                    return Ok(None);
                };
                call = other;
                invented = self.facts.first_invented(&call, schema);
            }
            let repeats = repeats_known_result(self.writer.request, &call);
            debug!(tool, ?invented, repeats, "wrote a call");
            if self.must_call() || (invented.is_none() && !repeats) {
                return Ok(Some(NextStep::Call { need, call }));
            }
            self.writer.prompt.truncate(start);
            self.writer.tokens_left = tokens_left;
            if repeats {
                break;
            }
            self.lacks_argument = true;
            self.deferred_need = Some(need.clone());
            // The result of an earlier call in this reply may be the missing argument.
            if self.stage == Stage::Call {
                break;
            }
            discarded.push(tool);
        }
        Ok(Some(NextStep::Answer { need: Some(need) }))
    }

    /// Generates the arguments of a call to `tool` that match `schema` and satisfy `need`. Corrects
    /// the call and the prompt. `revise` returns a further correction of the call, if any. Returns
    /// `None` if the token limit was reached.
    fn write_arguments(
        &mut self,
        need: &str,
        tool: &str,
        schema: &Schema,
        revise: &dyn Fn(&ToolCall) -> Option<ToolCall>,
    ) -> Result<Option<ToolCall>, ModelError> {
        let end_of_lead = self.writer.prompt.len();
        let Some(arguments) = self.writer.write_json(schema, "(", ")\n")? else { return Ok(None) };
        let mut written = arguments.clone();
        let mut call = ToolCall::new(call_id(), tool, arguments);
        match self.corrector.correct(need, &call, schema) {
            Some(Correction::Call(corrected)) => call = corrected,
            Some(Correction::Schema(narrowed)) => {
                // If the narrowed schema permits no value, the call is not corrected.
                let tokens_left = self.writer.tokens_left;
                let uncorrected = self.writer.prompt.split_off(end_of_lead);
                match self.writer.write_json(&narrowed, "(", ")\n") {
                    Ok(Some(arguments)) => {
                        written = arguments.clone();
                        call = ToolCall::new(call.id, tool, arguments);
                    }
                    Err(error) if self.writer.event_sender.continue_or_cancel() == NextAction::Cancel => {
                        return Err(error);
                    }
                    Ok(None) | Err(_) => {
                        self.writer.prompt.truncate(end_of_lead);
                        self.writer.prompt.extend(uncorrected);
                        self.writer.tokens_left = tokens_left;
                    }
                }
            }
            None => {}
        }
        call = split_repository(&call).unwrap_or(call);
        call = self.facts.without_invented(&call, schema).unwrap_or(call);
        call = revise(&call).unwrap_or(call);
        if *call.arguments != *written {
            // A further call must follow the corrected arguments.
            self.writer.prompt.truncate(end_of_lead);
            self.writer.prefill(&format!("({})\n", &*call.arguments));
        }
        Ok(Some(call))
    }

    /// Returns `true` if `call` has no other arguments than `made`, an earlier call of the same tool,
    /// and defaults.
    fn is_repetition(&self, made: &ToolCall, call: &ToolCall) -> bool {
        let Some(tool) = self.writer.request.tools.get(&call.name).filter(|_| made.name == call.name) else {
            return false;
        };
        let schema = tool.definition().input_schema();
        let (known, arguments) = (made.arguments.value_or_string(), call.arguments.value_or_string());
        let is_default = |name: &str, value: &Value| {
            let mut optional = schema.properties().filter(|property| !property.is_required);
            let default = optional.find(|property| property.name == name);
            default.is_some_and(|property| property.schema.get("default") == Some(value))
        };
        let (Some(known), Some(arguments)) = (known.as_object(), arguments.as_object()) else {
            return made.arguments == call.arguments;
        };
        arguments.iter().all(|(name, value)| known.get(name) == Some(value) || is_default(name, value))
    }

    fn must_call(&self) -> bool {
        !matches!(self.writer.request.tool_choice, ToolChoice::Auto)
    }

    fn write_plan(
        &mut self,
        stage: Stage,
        must_plan: bool,
        need_rules: &str,
    ) -> Result<GeneratedTokens, EngineError> {
        let grammar = next_step::plan_grammar(stage, must_plan, need_rules);
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

    /// Generates the answer after the literal text `lead`. `beginning` is the beginning of an
    /// answer that is text.
    fn write_answer(&mut self, lead: &str, beginning: &str) -> Result<ChatResponse, ModelError> {
        // The space after `Answer:` is not prefilled, because it is part of the first word's token.
        self.writer.prefill(&format!("{lead}{}", ANSWER.trim_end()));
        match self.writer.write_structured(" ")? {
            Some(reply) => Ok(reply),
            None => self.write_prose(beginning),
        }
    }

    /// Returns the tokens that begin a tool result in JSON. An answer must not begin with them: a
    /// small model repeats the data instead of a sentence about it.
    fn beginnings_of_data(&self) -> Vec<u32> {
        let is_data = |text: &&String| text.trim_start().starts_with(['{', '[']);
        let data = self.results.iter().filter(is_data);
        let texts = data.flat_map(|text| [Some(text.trim_start().to_owned()), readable(text)]);
        texts.flatten().flat_map(|text| self.writer.engine.tokenizer().beginnings_of(&text)).collect()
    }

    /// Generates the answer as text, which begins with `beginning`. If the answer does not mention
    /// all tool results, the model may have to continue it; see
    /// [`ExampleProfile::continues_answers`].
    fn write_prose(&mut self, beginning: &str) -> Result<ChatResponse, ModelError> {
        let mut prose = ProseDecoder::new(
            self.writer.event_sender,
            self.writer.stop_sequences(),
            dialogue::LINE_STARTS.to_vec(),
        );
        let start = self.writer.prompt.len();
        self.writer.prefill(beginning);
        if prose.push(beginning.as_bytes()) == NextAction::Stop {
            return self.writer.finish_text(prose.finish(), true);
        }
        let mut eos_bias = 0.0;
        // Tool results usually belong to different parts of the question. A short answer may omit
        // some of them.
        let mut continuations = match self.profile.continues_answers {
            true => self.results.len().saturating_sub(1),
            false => 0,
        };
        let mut banned_first_tokens = self.beginnings_of_data();
        let written = loop {
            let job = GenerationJob {
                banned_first_tokens: std::mem::take(&mut banned_first_tokens),
                ..self.writer.unconstrained_job(eos_bias)
            };
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
