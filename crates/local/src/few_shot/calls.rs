//! Generation of the calls of a reply.

use haft_core::{
    Schema, ToolCall,
    model::{ChatRequest, ModelError},
    schema::Property,
};
use serde_json::Value;
use tracing::debug;

use super::ExampleReply;
use super::correction::Correction;
use super::dialogue::{NEED_LABEL, TOOL};
use super::follow_up::{continued_call, with_earlier_arguments};
use super::grounding::{KnownWords, is_composed, is_identifier, spaced_json, spaced_words};
use super::list_call::ListArgument;
use super::next_step::{NextStep, Stage, callable_tools};
use super::question::{
    OpenQuestion, first_item_need, has_reference, is_name, refers_to_noun, refers_to_result,
};
use super::repetition::{is_repetition, repeats_known_result, reverts};
use super::repository::split_repository;
use super::tool_choice::ScoredTool;
use crate::engine::NextAction;
use crate::respond::call_id;

/// The maximum number of discarded calls for a need. Each of them costs the time of a call.
const MAX_DISCARDED_CALLS: usize = 2;
/// The first words in the names of tools that retrieve data.
const FIND_VERBS: [&str; 7] = ["fetch", "find", "get", "list", "lookup", "query", "search"];
/// The maximum difference between the scores of the first and the second choice of a tool. If it is
/// larger, only the first tool fits the need.
const MAX_SCORE_DIFFERENCE: f32 = 3.5;

impl ExampleReply<'_> {
    /// Generates the call for the request at the beginning of the open text, if it needs another
    /// tool or other arguments than `tool_calls`, the calls in this reply. Without this step, a
    /// small model ends the reply. Returns `None` if the model must decide.
    pub(super) fn write_next_request(
        &mut self,
        question: &OpenQuestion,
        tool_calls: &[ToolCall],
    ) -> Result<Option<NextStep>, ModelError> {
        if self.must_call() {
            return Ok(None);
        }
        let Some(request) = question.next_request() else { return Ok(None) };
        let before = question.whole().split_once(request).map_or("", |(before, _)| before);
        let is_found = tool_calls.last().is_some_and(|call| has_find_verb(&call.name));
        if refers_to_result(request) || is_found && refers_to_noun(request, before) {
            self.unmet.deferred = Some(request.to_owned());
            return Ok(Some(NextStep::NoMoreCalls));
        }
        let Some(choice) = self.choose_tool(request)? else { return Ok(None) };
        let same_tool: Vec<_> = tool_calls.iter().filter(|call| call.name == choice.0).collect();
        let earlier = self.unmet.clone();
        let (start, tokens_left) = (self.writer.prompt.len(), self.writer.tokens_left);
        let step = self.write_call_with(request.to_owned(), Some(choice))?;
        match &step {
            Some(NextStep::Call { call, .. })
                if same_tool.is_empty() || self.has_new_argument(call, request, &same_tool) =>
            {
                return Ok(step);
            }
            Some(_) => {
                self.writer.prompt.truncate(start);
                self.writer.tokens_left = tokens_left;
            }
            None => return Ok(None),
        }
        if !same_tool.is_empty() {
            self.unmet = earlier;
            return Ok(None);
        }
        // The discarded call changes neither the answer nor the next reply.
        let discarded = std::mem::replace(&mut self.unmet, earlier).deferred;
        if self.unmet.deferred.is_some() || !has_reference(request) {
            return Ok(None);
        }
        // The results may contain the argument that the call lacks: "send her an email".
        self.unmet.deferred = discarded;
        Ok(self.unmet.deferred.is_some().then_some(NextStep::NoMoreCalls))
    }

    /// Returns `true` if a required argument of `call` is in `request` and in none of `made`.
    fn has_new_argument(&self, call: &ToolCall, request: &str, made: &[&ToolCall]) -> bool {
        let Some(tool) = self.writer.request.tools.get(&call.name) else { return false };
        let schema = tool.definition().input_schema();
        let arguments = call.arguments.value_or_string();
        let made: Vec<_> = made.iter().map(|call| call.arguments.value_or_string()).collect();
        let words = KnownWords::new(request);
        let is_new = |property: &Property<'_>| {
            let value = arguments.get(property.name);
            let is_stated = match value {
                Some(Value::String(text)) => words.mentions(&text.to_lowercase()),
                Some(Value::Number(number)) => words.has_words(&number.to_string()),
                _ => false,
            };
            is_stated && made.iter().all(|made| made.get(property.name) != value)
        };
        let mut required =
            schema.properties().filter(|property| property.is_required && !is_composed(property.name));
        required.any(|property| is_new(&property))
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
        let earlier = self.unmet.clone();
        let step = self.write_call(skipped)?;
        self.is_need_split = matches!(step, Some(NextStep::Call { .. }));
        if self.is_need_split {
            return Ok(step);
        }
        self.unmet = earlier;
        Ok(None)
    }

    /// Extends `need` by a clause that adds to the request, if both need the same tool: "turn on
    /// the light and dim it to 30 percent". Returns the longer need, and the choice of the tool.
    pub(super) fn with_added_clause(
        &mut self,
        question: &OpenQuestion,
        need: &str,
    ) -> Result<Option<(String, ScoredTool)>, ModelError> {
        let Some((clause, extended)) = question.added_clause(need) else { return Ok(None) };
        let Some(choice) = self.choose_tool(need)? else { return Ok(None) };
        let has_one_tool = callable_tools(self.writer.request).len() == 1;
        if !has_one_tool && !self.is_best_tool(clause, &choice.0)? {
            return Ok(None);
        }
        Ok(Some((extended, choice)))
    }

    /// Generates the call for a question that continues an earlier question; see [`follow_up`].
    /// Returns `None` if `question` does not, or if the call is invalid or known.
    pub(super) fn write_follow_up(
        &mut self,
        question: &OpenQuestion,
    ) -> Result<Option<NextStep>, ModelError> {
        let text = question.text();
        let Some(earlier) = continued_call(self.writer.request, text) else { return Ok(None) };
        self.write_continued_call(text, earlier)
    }

    /// Generates the call for `text`, which continues the part of the question for `earlier`: a
    /// call of the same tool, if no other tool fits better. Returns `None` if the call is invalid
    /// or known.
    pub(super) fn write_continued_call(
        &mut self,
        text: &str,
        earlier: &ToolCall,
    ) -> Result<Option<NextStep>, ModelError> {
        let request = self.writer.request;
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
            if !is_known && !self.facts.lacks_argument(&call, schema) {
                return Ok(Some(NextStep::Call { need, call }));
            }
        }
        self.writer.prompt.truncate(start);
        self.writer.tokens_left = tokens_left;
        Ok(None)
    }

    /// Generates the call for `item`, an item of a list in `question`: a call of the tool of
    /// `earlier`, the call for the item before it, if no other tool fits better. If the item is a
    /// name, no other tool is tried. Returns `None` if the token limit was reached.
    pub(super) fn write_call_for_item(
        &mut self,
        question: &OpenQuestion,
        item: &str,
        earlier: &ToolCall,
    ) -> Result<Option<NextStep>, ModelError> {
        let Some(tool) = self.writer.request.tools.get(&earlier.name) else {
            return Ok(Some(NextStep::NoMoreCalls));
        };
        let schema = tool.definition().input_schema().clone();
        let argument = ListArgument::find(question.whole(), item, earlier, &schema);
        // A word without a capital may need another tool: "the garage and the blinds".
        let is_proper = item.split(' ').any(is_name);
        let is_name = question.is_name(item) || argument.is_some() && is_proper;
        // "The weather in Rome and the time in Tokyo" needs different tools.
        let choice = if is_name { None } else { self.choose_tool(item)? };
        if !is_name && choice.as_ref().is_none_or(|(best, _)| *best != earlier.name) {
            return Ok(self.write_call_with(item.to_owned(), choice)?.map(|step| match step {
                NextStep::Answer { .. } => NextStep::NoMoreCalls,
                other => other,
            }));
        }
        let start = self.writer.prompt.len();
        self.writer.prefill(&format!("{NEED_LABEL}{item}\n{TOOL}{}", earlier.name));
        let derived = argument
            .as_ref()
            .filter(|argument| argument.others_are_common(question.whole(), earlier, &schema))
            .and_then(|argument| argument.replace_in(earlier));
        debug!(item, ?argument, is_derived = derived.is_some(), "chose the tool of the item before");
        if let Some(call) = derived {
            self.writer.prefill(&format!("({})\n", &*call.arguments));
            return Ok(Some(NextStep::Call { need: item.to_owned(), call }));
        }
        let replace = |call: &ToolCall| match &argument {
            Some(argument) => argument.replace_in(call),
            None if call.arguments == earlier.arguments => with_item(earlier, item, &schema),
            None => None,
        };
        let Some(call) = self.write_arguments(item, &earlier.name, &schema, &replace)? else {
            return Ok(None);
        };
        if call.arguments == earlier.arguments || self.facts.lacks_argument(&call, &schema) {
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
        self.unmet.deferred = None;
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
    pub(super) fn write_call(&mut self, need: String) -> Result<Option<NextStep>, ModelError> {
        let choice = self.choose_tool(&need)?;
        self.write_call_with(need, choice)
    }

    /// Generates the call for `need` of the tool in `choice`, the result of
    /// [`choose_tool`](Self::choose_tool). Returns `None` if the token limit was reached.
    ///
    /// A request for a text, without a file, needs no call. A call with a required argument that
    /// the user did not state, and a call that repeats a known result, is discarded. Another tool
    /// may then fit, such as one that finds the missing identifier.
    pub(super) fn write_call_with(
        &mut self,
        need: String,
        mut choice: Option<ScoredTool>,
    ) -> Result<Option<NextStep>, ModelError> {
        let (start, tokens_left) = (self.writer.prompt.len(), self.writer.tokens_left);
        let best_score = choice.as_ref().map_or(0.0, |(_, score)| *score);
        let mut discarded = Vec::new();
        while let Some((tool, _)) = choice.take() {
            let Some(definition) = self.writer.request.tools.get(&tool).map(|tool| tool.definition().clone())
            else {
                break;
            };
            let schema = definition.input_schema();
            if self.stage == Stage::AfterQuestion && !self.must_call() && self.facts.wants_text(schema) {
                break;
            }
            let lead = format!("{NEED_LABEL}{need}\n{TOOL}{tool}");
            self.writer.prefill(&lead);
            let end_of_lead = self.writer.prompt.len();
            let Some(mut call) = self.write_arguments(&need, &tool, schema, &|_| None)? else {
                return Ok(None);
            };
            let mut missing = self.facts.first_invented(&call, schema);
            if let Some(narrowed) =
                missing.as_deref().and_then(|name| self.facts.with_known_ids(schema, name))
            {
                self.writer.prompt.truncate(start);
                self.writer.prefill(&lead);
                let Some(other) = self.write_arguments(&need, &tool, &narrowed, &|_| None)? else {
                    return Ok(None);
                };
                call = other;
                missing = self.facts.first_invented(&call, schema);
            }
            // The tool fits if the conversation has all values of the call, also if one of them
            // belongs to another argument.
            let fits = missing.is_none();
            if fits && !self.must_call() {
                missing = match self.facts.first_unstated(&call, schema) {
                    None => self.unsupported_choice(end_of_lead, &call, schema)?,
                    unstated => unstated,
                };
            }
            let repeats = repeats_known_result(self.writer.request, &call);
            debug!(tool, ?missing, repeats, "wrote a call");
            if self.must_call() || (missing.is_none() && !repeats) {
                return Ok(Some(NextStep::Call { need, call }));
            }
            self.writer.prompt.truncate(start);
            self.writer.tokens_left = tokens_left;
            if repeats {
                break;
            }
            self.unmet.discard_call(&need);
            discarded.push(tool);
            // The result of an earlier call in this reply may be the missing argument.
            if fits || self.stage == Stage::Call || discarded.len() == MAX_DISCARDED_CALLS {
                break;
            }
            let finder = missing.as_deref().and_then(|name| self.finder_of(name, &discarded));
            choice = self.choose_other_tool(&need, &discarded, best_score - MAX_SCORE_DIFFERENCE)?;
            let needs_it = |tool: &str| missing.as_deref().is_some_and(|name| self.requires(tool, name));
            if choice.as_ref().is_none_or(|(tool, _)| finder.is_some() && needs_it(tool)) {
                choice = finder;
            }
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
        debug!(%written, corrected = %call.arguments, "wrote arguments");
        let lead = self.writer.prompt.get(..end_of_lead).unwrap_or_default().to_vec();
        let grounded = self.facts.without_invented(&call, schema).unwrap_or_else(|| call.clone());
        call = self.with_implied_values(&lead, &call, grounded, schema)?;
        call = revise(&call).unwrap_or(call);
        if *call.arguments != *written {
            // A further call must follow the corrected arguments.
            self.writer.prompt.truncate(end_of_lead);
            self.writer.prefill(&format!("({})\n", &*call.arguments));
        }
        Ok(Some(call))
    }

    /// Returns the tool that finds the identifier `parameter`, unless it is in `discarded` or needs
    /// the same identifier. Its score is 0.
    fn finder_of(&self, parameter: &str, discarded: &[String]) -> Option<ScoredTool> {
        let finds_it = |tool: &String| {
            finds_identifier(tool, parameter) && !discarded.contains(tool) && !self.requires(tool, parameter)
        };
        callable_tools(self.writer.request).into_iter().find(finds_it).map(|tool| (tool, 0.0))
    }

    /// Returns `true` if `tool` has the required parameter `parameter`.
    fn requires(&self, tool: &str, parameter: &str) -> bool {
        let tool = self.writer.request.tools.get(tool);
        let schema = tool.map(|tool| tool.definition().input_schema());
        schema
            .into_iter()
            .flat_map(Schema::properties)
            .any(|property| property.is_required && property.name == parameter)
    }

    /// Returns `true` if `call`, the call for `need`, repeats one of `made`, the calls in this
    /// reply.
    pub(super) fn repeats_call(&self, made: &[ToolCall], need: &str, call: &ToolCall) -> bool {
        let Some(tool) = self.writer.request.tools.get(&call.name) else { return false };
        let schema = tool.definition().input_schema();
        made.iter().any(|made| is_repetition(made, need, call, schema) || reverts(made, call, &self.facts))
    }
}

/// Returns the texts and numbers among the arguments of `call`, in lower case.
pub(super) fn texts_of(call: &ToolCall) -> Vec<String> {
    texts_in(&call.arguments.value_or_string())
}

/// Returns the texts and numbers in `value`, in lower case.
pub(super) fn texts_in(value: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    add_texts(value, &mut texts);
    texts
}

/// Adds the texts and numbers in `value` to `texts`.
fn add_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.values().for_each(|member| add_texts(member, texts)),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        value => texts.extend(argument_text(value)),
    }
}

/// Returns the text of `value`, a string or a number, in lower case. Returns `None` for other
/// values and for an empty string.
pub(super) fn argument_text(value: &Value) -> Option<String> {
    let text = match value {
        // The values of enumerations have underscores instead of spaces: `upper_floor`.
        Value::String(text) => text.to_lowercase().replace('_', " "),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the other values of the enumerations in `call`, in lower case: `overnight` and `ground`
/// if its argument is `express`.
pub(super) fn alternatives_to(call: &ToolCall, request: &ChatRequest) -> Vec<String> {
    let Some(tool) = request.tools.get(&call.name) else { return Vec::new() };
    let schema = tool.definition().input_schema();
    let arguments = call.arguments.value_or_string();
    let given = |property: &Property<'_>| arguments.get(property.name).is_some();
    let values = schema.properties().filter(given).filter_map(|property| property.schema.get("enum"));
    let texts = values.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    let texts = texts.map(|text| text.to_lowercase().replace('_', " "));
    let used = texts_of(call);
    texts.filter(|text| !used.contains(text)).collect()
}

/// Returns `true` if `tool` is the name of a tool that retrieves data.
fn has_find_verb(tool: &str) -> bool {
    spaced_words(tool).split_whitespace().next().is_some_and(|verb| FIND_VERBS.contains(&verb))
}

/// Returns `true` if `tool` is the name of a tool that finds the identifier `parameter`:
/// `search_tracks` for `track_id`.
fn finds_identifier(tool: &str, parameter: &str) -> bool {
    let (words, parameter_words) = (spaced_words(tool), spaced_words(parameter));
    let Some(noun) = parameter_words.rsplit(' ').nth(1).filter(|_| is_identifier(parameter)) else {
        return false;
    };
    let mut words = words.split_whitespace().skip(1);
    has_find_verb(tool) && words.any(|word| word.trim_end_matches('s') == noun)
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
