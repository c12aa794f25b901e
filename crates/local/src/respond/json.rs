//! A JSON value that fits a schema, or nothing.

use haft_core::{Schema, model::ModelError};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;
use tracing::debug;

use super::Writer;
use crate::constraint::{Constraint, Grammars};
use crate::engine::EngineError;
use crate::guide::{Detail, guide};

/// How often a value that the grammar allows may turn out not to fit the schema.
const ATTEMPTS: u64 = 6;

impl Writer<'_> {
    /// Writes a value between two fixed texts. `None` when the limit came first.
    ///
    /// What the grammar cannot express is checked on the finished value, which is written anew if it does not fit.
    pub(super) fn json(
        &mut self,
        schema: &Schema,
        before: &str,
        behind: &str,
    ) -> Result<Option<String>, ModelError> {
        let start = self.prompt.len();
        let mut complaint = String::new();
        let mut details = Detail::ALL.as_slice();
        for attempt in 0..ATTEMPTS {
            self.prompt.truncate(start);
            let (constraint, simpler) = compile(self.engine.grammars(), schema, details, before, behind)?;
            let written = match self.write(constraint, self.sampler(attempt), 0.0) {
                // Some grammars turn out too large only where the value leads.
                Err(EngineError::Constraint(reason)) if !simpler.is_empty() => {
                    debug!(attempt, %reason, "the schema is simplified");
                    complaint = reason;
                    details = simpler;
                    continue;
                }
                written => written?,
            };
            if !written.complete {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&written.bytes);
            let text = text.strip_prefix(before).and_then(|text| text.strip_suffix(behind));
            let text = text.unwrap_or_default().trim();
            complaint = match complaint_about(text, schema) {
                None => return Ok(Some(text.to_owned())),
                Some(complaint) => complaint,
            };
            debug!(attempt, %complaint, "the value does not fit its schema");
        }
        Err(ModelError::InvalidResponse(format!(
            "no value fits the schema after {ATTEMPTS} attempts: {complaint}"
        )))
    }
}

fn complaint_about(text: &str, schema: &Schema) -> Option<String> {
    match serde_json::from_str::<Value>(text) {
        Err(error) => Some(error.to_string()),
        Ok(value) => schema.validate(&value).err().map(|violations| violations.to_string()),
    }
}

/// The most detailed grammar of a schema that the engine can work with, and what is less detailed.
fn compile<'a>(
    grammars: &Grammars,
    schema: &Schema,
    details: &'a [Detail],
    before: &str,
    behind: &str,
) -> Result<(Constraint, &'a [Detail]), EngineError> {
    let mut refusal = String::new();
    let mut left = details.iter();
    while let Some(detail) = left.next() {
        let value = GrammarWithLexer {
            name: Some("value".to_owned()),
            ..GrammarWithLexer::from_json_schema(guide(schema.as_value(), *detail))
        };
        let frame =
            GrammarWithLexer::from_lark(format!("start: {} @value {}", quoted(before), quoted(behind)));
        match grammars.compile(TopLevelGrammar { grammars: vec![frame, value], max_tokens: None }) {
            Ok(constraint) => return Ok((constraint, left.as_slice())),
            Err(reason) => refusal = reason,
        }
        debug!(?detail, %refusal, "the schema is simplified");
    }
    Err(EngineError::Constraint(refusal))
}

/// A literal of the grammar language, whose escapes are those of JSON.
fn quoted(literal: &str) -> String {
    match literal {
        "" => String::new(),
        literal => Value::from(literal).to_string(),
    }
}
