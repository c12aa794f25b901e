//! Few-shot prompting for small models, as an alternative to the tool format of a chat template.
//!
//! Every conversation with tools begins with a fixed demonstration. For each call, the model
//! generates three parts in this order: the need (a quotation from the question), the tool name,
//! and the arguments. ADR 4 describes the strategy and its measurements. An [`ExampleProfile`]
//! contains its parameters.

mod answer;
mod calls;
mod correction;
mod demonstration;
mod dialogue;
mod follow_up;
mod grounding;
mod implied_value;
mod list_call;
mod mention;
mod next_step;
mod question;
mod quotes;
mod repetition;
mod repository;
mod signature;
mod tool_choice;
mod tool_words;
mod unmet_need;
mod values;

use haft_core::{
    ToolCall,
    message::AssistantMessage,
    model::{ChatRequest, ChatResponse, ModelError, ToolChoice},
};

use self::calls::{alternatives_to, texts_of};
use self::correction::ArgumentCorrector;
pub(crate) use self::demonstration::turns as demonstration;
use self::dialogue::{DEFERRED_LABEL, Dialogue, NEED_LABEL, NO_TOOL, TOOL};
use self::follow_up::may_be_answered;
use self::grounding::{KnownFacts, KnownWords};
use self::next_step::{NextStep, Plan, Stage};
use self::question::{FREE_NEED_RULE, OpenQuestion, refers_to_result};
use self::tool_words::ToolWords;
use self::unmet_need::UnmetNeed;
use crate::engine::{Engine, EngineError, GeneratedTokens};
use crate::profile::ExampleProfile;
use crate::respond::{EventSender, ReplyWriter};

/// The minimum number of tokens that the prompt must leave in the context window for the reply. If
/// it leaves fewer tokens, the demonstration is removed from the prompt.
const MIN_REPLY_TOKENS: usize = 256;
/// The beginning of an answer that asks for a missing argument. Without it, a small model claims
/// that it did what the user asked for.
const QUESTION_BEGINNING: &str = " Please tell me the";

/// Generates the reply to `request`, which has tools or tool results.
pub(crate) fn respond(
    engine: &mut Engine,
    profile: &'static ExampleProfile,
    request: &ChatRequest,
    event_sender: &EventSender,
) -> Result<ChatResponse, ModelError> {
    let (dialogue, prompt) = render_prompt(engine, profile, request)?;
    let stage = if dialogue.results.is_empty() { Stage::AfterQuestion } else { Stage::AfterResults };
    let facts = KnownFacts::new(request);
    let tool_words = ToolWords::new(request);
    let writer = ReplyWriter::new(engine, request, event_sender, prompt);
    let deferred_need = dialogue.deferred_need.filter(|_| stage == Stage::AfterResults);
    let corrector = ArgumentCorrector::new(request);
    let question = OpenQuestion::new(&dialogue.question).with_today(corrector.today());
    let reply = ExampleReply {
        writer,
        profile,
        facts,
        corrector,
        tool_words,
        results: dialogue.results,
        unmet: UnmetNeed { deferred: deferred_need, lacks_argument: false },
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
    /// The need without a call, and the reason.
    unmet: UnmetNeed,
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
        let follows_question = self.stage == Stage::AfterQuestion;
        let mut tool_calls = Vec::new();
        // The only call, with the arguments from sentences after its need.
        let mut completed: Option<ToolCall> = None;
        while tool_calls.len() < self.writer.max_calls() {
            let (start, open_length) = (self.writer.prompt.len(), question.text().len());
            let decision = match self.stage {
                Stage::AfterQuestion => self.first_step(&question)?,
                Stage::AfterResults => self.step_after_results(&question)?,
                Stage::Call => self.step_after_call(&mut question, &tool_calls)?,
            };
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
                    let asks = self.unmet.lacks_argument && KnownWords::new(question.text()).is_english();
                    let beginning = if asks { QUESTION_BEGINNING } else { "" };
                    return self.write_answer(&lead.unwrap_or_default(), beginning);
                }
                // Another request may follow the statement.
                NextStep::PlannedStatement { need } => {
                    question.advance_past(&need, &[]);
                    if has_other_request(&question) && question.text().len() < open_length {
                        continue;
                    }
                    break;
                }
                NextStep::Answer { .. } | NextStep::NoMoreCalls => break,
            };
            // A model that repeats a call once would repeat it endlessly, so the reply ends here,
            // unless another request follows.
            if self.repeats_call(&tool_calls, &need, &call)
                || self.repeats_call(completed.as_slice(), &need, &call)
            {
                self.writer.prompt.truncate(start);
                self.is_need_split = false;
                question.advance_past(&need, &texts_of(&call));
                if has_other_request(&question) && question.text().len() < open_length {
                    continue;
                }
                break;
            }
            question.set_alternatives(alternatives_to(&call, self.writer.request));
            question.advance_past(&need, &texts_of(&call));
            if std::mem::take(&mut self.is_need_split) {
                question.require_call();
            }
            self.add_reasoning(Some(need));
            tool_calls.push(call);
            self.stage = Stage::Call;
            completed = self.completed_call(&question, &tool_calls).filter(|_| follows_question);
            question.set_completed(completed.as_ref().map(texts_of).unwrap_or_default());
        }
        if follows_question && let Some(completed) = self.completed_call(&question, &tool_calls) {
            tool_calls = vec![completed];
        }
        let deferred = self.unmet.deferred.take().map(|need| format!("{DEFERRED_LABEL}{need}"));
        self.add_reasoning(deferred);
        self.writer.finish_with_calls(AssistantMessage::default(), tool_calls)
    }

    /// Returns the call in `tool_calls` with the arguments in the question that it lacks, because
    /// its need is only a part of the question. Returns `None` if it lacks none, if there are other
    /// calls, or if `question` has another request.
    fn completed_call(&self, question: &OpenQuestion, tool_calls: &[ToolCall]) -> Option<ToolCall> {
        let [only] = tool_calls else { return None };
        if has_other_request(question) || self.unmet != UnmetNeed::default() {
            return None;
        }
        let tool = self.writer.request.tools.get(&only.name)?;
        self.corrector.completed(only, tool.definition().input_schema())
    }

    /// Generates the first step of the reply to `question`. Returns `None` if the token limit was
    /// reached.
    fn first_step(&mut self, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        if let Some(step) = self.write_follow_up(question)? {
            return Ok(Some(step));
        }
        match self.decide(question)? {
            Some(NextStep::Answer { need }) => {
                self.is_need_split = false;
                Ok(match self.write_call_for_part(question)? {
                    Some(NextStep::Answer { .. }) => Some(NextStep::Answer { need }),
                    step => step,
                })
            }
            step => Ok(step),
        }
    }

    /// Generates the call that waits for the results, or else the model's next decision. Returns
    /// `None` if the token limit was reached.
    fn step_after_results(&mut self, question: &OpenQuestion) -> Result<Option<NextStep>, ModelError> {
        if let Some(need) = self.unmet.deferred.take() {
            let step = self.write_call(need)?;
            if !matches!(step, Some(NextStep::Answer { .. })) {
                return Ok(step);
            }
        }
        self.decide(question)
    }

    /// Generates the step after `tool_calls`, the calls in this reply: the call for the next item
    /// of a list or for the next request, or else the model's next decision. Returns `None` if the
    /// token limit was reached.
    fn step_after_call(
        &mut self,
        question: &mut OpenQuestion,
        tool_calls: &[ToolCall],
    ) -> Result<Option<NextStep>, ModelError> {
        while let Some((item, earlier)) = question.next_item().zip(tool_calls.last()) {
            match self.write_call_for_item(question, item, earlier)? {
                Some(NextStep::NoMoreCalls) => {
                    // The item needs no call, but other requests may follow it.
                    let item = item.to_owned();
                    question.advance_past(&item, &[]);
                }
                step => return Ok(step),
            }
        }
        if !question.is_open() {
            return Ok(Some(NextStep::NoMoreCalls));
        }
        if let Some((sentence, earlier)) = question.elliptical_sentence().zip(tool_calls.last())
            && let Some(step) = self.write_continued_call(sentence, earlier)?
        {
            return Ok(Some(step));
        }
        match self.write_next_request(question, tool_calls)? {
            Some(step) => Ok(Some(step)),
            None => self.decide(question),
        }
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
                self.unmet.deferred = Some(need);
                NextStep::NoMoreCalls
            }
            Plan::Need(need) if stage == Stage::Call && question.is_planned_statement(&need) => {
                NextStep::PlannedStatement { need }
            }
            Plan::Need(need) => {
                let need = match stage {
                    Stage::AfterQuestion => question.with_question_after(question.with_sentence_start(&need)),
                    Stage::AfterResults | Stage::Call => need,
                };
                if let Some(step) = self.write_skipped_call(question, &need)? {
                    return Ok(Some(step));
                }
                if let Some((extended, choice)) = self.with_added_clause(question, &need)? {
                    return self.write_call_with(extended, Some(choice));
                }
                let part = if quotes { self.first_part(&need)? } else { None };
                self.is_need_split = part.is_some();
                return self.write_call(part.unwrap_or(need));
            }
        }))
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
}

/// Returns `true` if another request, or a sentence that continues the last one, follows in
/// `question`.
fn has_other_request(question: &OpenQuestion) -> bool {
    question.next_request().is_some() || question.elliptical_sentence().is_some()
}
