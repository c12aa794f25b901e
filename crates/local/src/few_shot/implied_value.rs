//! Values of enumerations and flags that a need implies without their words, such as `price_asc`
//! for "cheapest first".
//!
//! [`KnownFacts`](super::grounding::KnownFacts) compares the words of an argument with the
//! conversation. Where the words do not decide, the model does: a value is implied if its
//! probability is higher after the need than after a question without content. The model invents a
//! value with about the same probability after both.

use haft_core::{Schema, ToolCall, model::ModelError, schema::Property};
use serde_json::{Map, Value};
use tracing::debug;

use super::dialogue::{NEED_LABEL, TOOL};
use super::grounding::{enumeration, is_format, is_order, spaced_json};
use super::tool_choice::{NEUTRAL_NEED, NEUTRAL_QUESTION};
use super::{ExampleReply, render_prompt};
use crate::respond::with_question;

/// The maximum number of values that are compared. Each of them costs the time of its tokens.
const MAX_ALTERNATIVES: usize = 12;
/// The minimum length of a value of an enumeration that the model omitted: a word, or a code with
/// an uppercase letter.
const MIN_WORD_LENGTH: usize = 4;
const MIN_CODE_LENGTH: usize = 3;
/// The minimum log-odds of a required value without support by the need, such as the method `GET`.
const CERTAIN_ODDS: f32 = 4.0;
/// The minimum support of a flag whose description has a word of the conversation; see
/// [`Odds::support`]. The 1.5B model had -1.5 to -0.2 for invented flags and more than
/// 1.5 for implied flags; the 0.5B model had -0.3 to 2.3 for implied flags.
const MIN_FLAG_SUPPORT: f32 = -0.5;
/// The minimum support of an order of the results, if the conversation has a word for an order. The
/// 0.5B model had 1.7 for `price_asc` and "cheapest first".
const MIN_ORDER_SUPPORT: f32 = 1.0;

impl ExampleReply<'_> {
    /// Returns `grounded` with the values of enumerations and the flags that the need implies, also
    /// those that the model omitted, and without the flags that it does not imply. `grounded` is
    /// `written` without the arguments that are not in the conversation. `lead` is the prompt
    /// before the arguments of the call.
    pub(super) fn with_implied_values(
        &mut self,
        lead: &[u32],
        written: &ToolCall,
        grounded: ToolCall,
        schema: &Schema,
    ) -> Result<ToolCall, ModelError> {
        let (all, kept) = (written.arguments.value_or_string(), grounded.arguments.value_or_string());
        let (Some(all), Some(kept)) = (all.as_object(), kept.as_object()) else { return Ok(grounded) };
        let mut implied = Map::new();
        for (name, value) in all {
            let Some(property) = schema.properties().find(|property| property.name == name) else {
                implied.extend(kept.get(name).map(|known| (name.clone(), known.clone())));
                continue;
            };
            let known = kept.get(name);
            let alternatives = match (known, value) {
                (None, Value::String(text)) if !self.facts.mentions_name(text) => {
                    enumeration(schema.as_value(), property.schema)
                }
                (_, Value::Bool(true)) if self.is_unclear_flag(&written.name, &property) => {
                    vec![&Value::Bool(true), &Value::Bool(false)]
                }
                _ => Vec::new(),
            };
            let argument = Argument { tool: &written.name, before: &implied, name, value };
            let value = match self.odds(lead, argument, &alternatives)? {
                Some(odds) => {
                    let minimum = match known {
                        Some(_) => MIN_FLAG_SUPPORT,
                        None if is_order(&property) && self.facts.has_order() => MIN_ORDER_SUPPORT,
                        None => self.profile.min_implied_support,
                    };
                    Some(value).filter(|_| odds.support() >= minimum)
                }
                None => known,
            };
            implied.extend(value.map(|value| (name.clone(), value.clone())));
        }
        let omitted = schema.properties().filter(|property| !all.contains_key(property.name));
        for property in omitted.filter(|property| !property.is_required) {
            let alternatives = enumeration(schema.as_value(), property.schema);
            let Some(value) = self.only_named(&alternatives, &implied, &property) else { continue };
            let argument = Argument { tool: &written.name, before: &implied, name: property.name, value };
            let odds = self.odds(lead, argument, &alternatives)?;
            if odds.is_some_and(|odds| odds.support() >= self.profile.min_implied_support) {
                implied.insert(property.name.to_owned(), value.clone());
            }
        }
        let implied = Value::Object(implied);
        if implied.as_object() == Some(kept) || !schema.is_valid(&implied) {
            return Ok(grounded);
        }
        Ok(ToolCall::new(grounded.id, grounded.name, spaced_json(&implied)))
    }

    /// Returns the name of the first required enumeration in `call` with an unsupported value: the
    /// conversation neither names nor implies it. `schema` is the input schema of the tool, and the
    /// prompt before the arguments has `end_of_lead` tokens.
    pub(super) fn unsupported_choice(
        &mut self,
        end_of_lead: usize,
        call: &ToolCall,
        schema: &Schema,
    ) -> Result<Option<String>, ModelError> {
        let arguments = call.arguments.value_or_string();
        let Some(arguments) = arguments.as_object() else { return Ok(None) };
        let lead = self.writer.prompt.get(..end_of_lead).unwrap_or_default().to_vec();
        let mut before = Map::new();
        for (name, value) in arguments {
            let property = schema.properties().find(|property| property.name == name && property.is_required);
            let is_unnamed = value.as_str().is_some_and(|text| !self.facts.mentions_name(text));
            let has_usual_value = |property: &Property<'_>| {
                property.schema.get("default") == Some(value) || is_format(property.name)
            };
            if let Some(property) = property.filter(|property| is_unnamed && !has_usual_value(property)) {
                let alternatives = enumeration(schema.as_value(), property.schema);
                let argument = Argument { tool: &call.name, before: &before, name, value };
                let is_unstated = |odds: Odds| {
                    let is_unsupported = odds.support() < self.profile.min_required_support;
                    is_unsupported && odds.informed < CERTAIN_ODDS
                        || odds.informed < self.profile.min_required_odds
                };
                if self.odds(&lead, argument, &alternatives)?.is_some_and(is_unstated) {
                    return Ok(Some(name.clone()));
                }
            }
            before.insert(name.clone(), value.clone());
        }
        Ok(None)
    }

    /// Returns the only one of `alternatives`, the values of the enumeration `property`, that the
    /// conversation names. Returns `None` if it is the default, or in the other `arguments`.
    fn only_named<'v>(
        &self,
        alternatives: &[&'v Value],
        arguments: &Map<String, Value>,
        property: &Property<'_>,
    ) -> Option<&'v Value> {
        let is_name = |text: &str| {
            text.len() >= MIN_WORD_LENGTH
                || text.len() >= MIN_CODE_LENGTH && text.contains(char::is_uppercase)
        };
        let names = |text: &str| is_name(text) && self.facts.names(text);
        let mut named = alternatives.iter().filter(|value| value.as_str().is_some_and(names));
        let (Some(value), None) = (named.next(), named.next()) else { return None };
        let is_default = property.schema.get("default") == Some(value);
        let is_used = arguments.values().any(|argument| argument == *value);
        (!is_default && !is_used).then_some(*value)
    }

    /// Returns `true` if the words of the conversation do not decide about `property`, an optional
    /// boolean with the value `true`.
    fn is_unclear_flag(&self, tool: &str, property: &Property<'_>) -> bool {
        let is_default = property.schema.get("default").is_some_and(|default| *default == true);
        !property.is_required && !is_default && self.facts.lacks_name_of_flag(tool, property)
    }

    /// Returns the odds of `argument` among `alternatives`. `lead` is the prompt before the
    /// arguments. Returns `None` if there is no alternative, if there are more than
    /// [`MAX_ALTERNATIVES`], or if the alternatives do not fit into the context window.
    fn odds(
        &mut self,
        lead: &[u32],
        argument: Argument<'_>,
        alternatives: &[&Value],
    ) -> Result<Option<Odds>, ModelError> {
        let Argument { tool, before, name, value } = argument;
        let position = alternatives.iter().position(|alternative| *alternative == value);
        let is_choice = (2..=MAX_ALTERNATIVES).contains(&alternatives.len());
        let Some(index) = position.filter(|_| is_choice) else { return Ok(None) };
        let mut text = spaced_json(&Value::Object(before.clone()));
        text.pop();
        let separator = if before.is_empty() { "" } else { ", " };
        let beginning = format!("({text}{separator}{}:", Value::from(name));
        let candidates: Vec<_> =
            alternatives.iter().map(|alternative| self.encode_choice(&format!(" {alternative}"))).collect();
        let prompt = [lead, &self.encode_choice(&beginning)].concat();
        let Some(informed) = self.writer.log_probabilities(&prompt, &candidates)? else { return Ok(None) };
        let request = with_question(self.writer.request, NEUTRAL_QUESTION);
        let (_, mut prompt) = render_prompt(self.writer.engine, self.profile, &request)?;
        prompt.extend(self.encode_choice(&format!("{NEED_LABEL}{NEUTRAL_NEED}\n{TOOL}{tool}{beginning}")));
        let Some(neutral) = self.writer.log_probabilities(&prompt, &candidates)? else { return Ok(None) };
        let odds = Odds { informed: log_odds(&informed, index), neutral: log_odds(&neutral, index) };
        debug!(name, %value, ?odds, "compared the probabilities of a value");
        Ok(Some(odds))
    }
}

/// The log-odds of a value among its alternatives.
#[derive(Debug, Clone, Copy)]
struct Odds {
    /// After the need.
    informed: f32,
    /// After a question without content.
    neutral: f32,
}

impl Odds {
    /// Returns the support of the value by the need.
    fn support(self) -> f32 {
        self.informed - self.neutral
    }
}

/// An argument of a call.
#[derive(Clone, Copy)]
struct Argument<'a> {
    tool: &'a str,
    /// The arguments before it.
    before: &'a Map<String, Value>,
    name: &'a str,
    value: &'a Value,
}

/// Returns the logarithm of the odds of the alternative at `index` against the others.
/// `probabilities` are the log-probabilities of all alternatives.
fn log_odds(probabilities: &[f32], index: usize) -> f32 {
    let mut own = f32::NEG_INFINITY;
    let mut others = Vec::new();
    for (position, probability) in probabilities.iter().enumerate() {
        if position == index { own = *probability } else { others.push(*probability) }
    }
    let largest = others.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = others.iter().map(|probability| (probability - largest).exp()).sum();
    own - largest - sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_compare_a_value_with_all_others() {
        let quarter = 0.25_f32.ln();
        assert!((log_odds(&[0.5_f32.ln(), quarter, quarter], 0)).abs() < 1e-6);
        assert!((log_odds(&[quarter - 40.0, quarter - 40.0, quarter - 40.0], 1) - 0.5_f32.ln()).abs() < 1e-6);
    }
}
