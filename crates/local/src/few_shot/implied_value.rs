//! Values of enumerations that a need implies without their words, such as `price_asc` for
//! "cheapest first".
//!
//! [`KnownFacts`](super::grounding::KnownFacts) removes an optional argument if the conversation
//! does not have its words. The model then decides about the values of enumerations: an argument is
//! restored if its value is more probable after the need than after a question without content. The
//! model invents a value with about the same probability after both.

use haft_core::{Schema, ToolCall, model::ModelError};
use serde_json::{Map, Value};
use tracing::debug;

use super::dialogue::{NEED_LABEL, TOOL};
use super::grounding::{enumeration, spaced_json};
use super::tool_choice::{NEUTRAL_NEED, NEUTRAL_QUESTION};
use super::{ExampleReply, render_prompt};
use crate::respond::with_question;

/// The minimum difference between the two log-probabilities of an implied value.
const MIN_SUPPORT: f32 = 0.5;

impl ExampleReply<'_> {
    /// Returns `grounded` with the arguments of `written` that the need implies. `grounded` is
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
        let mut restored = Map::new();
        for (name, value) in all {
            if let Some(known) = kept.get(name) {
                restored.insert(name.clone(), known.clone());
                continue;
            }
            let property = schema.properties().find(|property| property.name == name);
            let names = property.map(|property| enumeration(schema.as_value(), property.schema));
            let names = names.unwrap_or_default();
            if value.is_string() && self.is_implied(lead, &written.name, &restored, (name, value), &names)? {
                restored.insert(name.clone(), value.clone());
            }
        }
        let restored = Value::Object(restored);
        if restored.as_object().is_none_or(|restored| restored.len() == kept.len())
            || !schema.is_valid(&restored)
        {
            return Ok(grounded);
        }
        Ok(ToolCall::new(grounded.id, grounded.name, spaced_json(&restored)))
    }

    /// Returns `true` if the need implies `value` of the argument `name`. `names` are the values
    /// that the schema permits, and `before` are the arguments before it.
    fn is_implied(
        &mut self,
        lead: &[u32],
        tool: &str,
        before: &Map<String, Value>,
        (name, value): (&str, &Value),
        names: &[&Value],
    ) -> Result<bool, ModelError> {
        let Some(index) = names.iter().position(|name| *name == value).filter(|_| names.len() > 1) else {
            return Ok(false);
        };
        let mut text = spaced_json(&Value::Object(before.clone()));
        text.pop();
        let separator = if before.is_empty() { "" } else { ", " };
        let beginning = format!("({text}{separator}{}:", Value::from(name));
        let candidates: Vec<_> = names.iter().map(|name| self.encode_choice(&format!(" {name}"))).collect();
        let prompt = [lead, &self.encode_choice(&beginning)].concat();
        let informed = self.writer.log_probabilities(&prompt, &candidates)?;
        let request = with_question(self.writer.request, NEUTRAL_QUESTION);
        let (_, mut prompt) = render_prompt(self.writer.engine, self.profile, &request)?;
        prompt.extend(self.encode_choice(&format!("{NEED_LABEL}{NEUTRAL_NEED}\n{TOOL}{tool}{beginning}")));
        let neutral = self.writer.log_probabilities(&prompt, &candidates)?;
        let (informed, neutral) = (normalized(&informed), normalized(&neutral));
        let (Some(informed), Some(neutral)) = (informed.get(index), neutral.get(index)) else {
            return Ok(false);
        };
        debug!(name, %value, informed, neutral, "compared the probabilities of a value");
        Ok(informed - neutral >= MIN_SUPPORT)
    }
}

/// Returns the log-probabilities of alternatives, the sum of whose probabilities is 1.
fn normalized(probabilities: &[f32]) -> Vec<f32> {
    let largest = probabilities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = probabilities.iter().map(|probability| (probability - largest).exp()).sum();
    probabilities.iter().map(|probability| probability - largest - sum.ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_normalized() {
        let normalized = normalized(&[-5.0, -5.0, -400.0]);
        let expected = [0.5_f32.ln(), 0.5_f32.ln()];
        assert!(
            normalized.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6),
            "{normalized:?}"
        );
    }
}
