//! Generation of the calls of a reply.

use haft_core::{Schema, ToolCall, model::ModelError};
use serde_json::Value;
use tracing::debug;

use super::correction::Correction;
use super::dialogue::{NEED_LABEL, TOOL};
use super::follow_up::{continued_call, with_earlier_arguments};
use super::grounding::spaced_json;
use super::next_step::{NextStep, Stage};
use super::question::{OpenQuestion, first_item_need, has_reference, refers_to_result};
use super::repetition::repeats_known_result;
use super::repository::split_repository;
use super::{ExampleReply, texts_of};
use crate::engine::NextAction;
use crate::respond::call_id;

/// The maximum number of discarded calls for a need. Each of them costs the time of a call.
const MAX_DISCARDED_CALLS: usize = 2;
/// The maximum difference between the scores of the first and the second choice of a tool. If it is
/// larger, only the first tool fits the need.
const MAX_SCORE_DIFFERENCE: f32 = 3.5;

impl ExampleReply<'_> {
    /// Generates the call for the request at the beginning of the open text, if it needs another
    /// tool than `tool_calls`, the calls in this reply. Without this step, a small model ends the
    /// reply. Returns `None` if the model must decide.
    pub(super) fn write_next_request(
        &mut self,
        question: &OpenQuestion,
        tool_calls: &[ToolCall],
    ) -> Result<Option<NextStep>, ModelError> {
        if self.stage != Stage::Call || self.must_call() {
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
            // The call lacks an argument, which the results may contain: "send her an email".
            Some(_) if self.deferred_need.is_some() && has_reference(request) => {
                Ok(Some(NextStep::NoMoreCalls))
            }
            Some(_) => {
                self.deferred_need = None;
                self.lacks_argument = lacked_argument;
                Ok(None)
            }
        }
    }

    /// Generates the call for the request before `need` that the model skipped. Returns `None` if
    /// there is no such request, or if no tool fits it.
    pub(super) fn write_skipped_call(
        &mut self,
        question: &OpenQuestion,
        need: &str,
    ) -> Result<Option<NextStep>, ModelError> {
        if self.stage != Stage::AfterQuestion || self.must_call() {
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
    pub(super) fn write_follow_up(
        &mut self,
        question: &OpenQuestion,
    ) -> Result<Option<NextStep>, ModelError> {
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
    pub(super) fn write_call_for_item(
        &mut self,
        item: &str,
        earlier: &ToolCall,
    ) -> Result<Option<NextStep>, ModelError> {
        let Some(tool) = self.writer.request.tools.get(&earlier.name) else {
            return Ok(Some(NextStep::NoMoreCalls));
        };
        let schema = tool.definition().input_schema().clone();
        match self.choose_tool(item, &[])? {
            Some((best, _)) if best == earlier.name => {}
            // "The weather in Rome and the time in Tokyo" needs different tools.
            Some(_) => {
                return Ok(self.write_call(item.to_owned())?.map(|step| match step {
                    NextStep::Answer { .. } => NextStep::NoMoreCalls,
                    other => other,
                }));
            }
            None => return Ok(Some(NextStep::NoMoreCalls)),
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
    pub(super) fn write_call_for_part(
        &mut self,
        question: &OpenQuestion,
    ) -> Result<Option<NextStep>, ModelError> {
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
    pub(super) fn write_call(&mut self, need: String) -> Result<Option<NextStep>, ModelError> {
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

    /// Returns `true` if `call`, the call for `need`, repeats `made`, an earlier call of the same
    /// tool: it has the same arguments, apart from defaults, or a part of them that `need` does not
    /// contain.
    pub(super) fn is_repetition(&self, made: &ToolCall, need: &str, call: &ToolCall) -> bool {
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
        let need = need.to_lowercase();
        let is_repeated_word = texts_of(call).iter().any(|text| need.contains(text.as_str()));
        let has_all = known.keys().all(|name| arguments.contains_key(name));
        arguments.iter().all(|(name, value)| known.get(name) == Some(value) || is_default(name, value))
            && (has_all || !is_repeated_word)
    }
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

#[cfg(test)]
mod tests;
