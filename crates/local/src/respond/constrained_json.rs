//! Generation of JSON values that match a schema.

use haft_core::{Schema, model::ModelError};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;
use tracing::debug;

use super::ReplyWriter;
use crate::constraint::{Constraint, GrammarCompiler};
use crate::engine::{EngineError, GenerationJob};
use crate::grammar_schema::{SchemaDetail, grammar_schema};

/// The maximum number of attempts to generate a valid value. An attempt can fail, because the
/// grammar may permit values that the schema does not permit.
const MAX_ATTEMPTS: u64 = 6;

impl ReplyWriter<'_> {
    /// Generates a JSON value that matches `schema`, between the literal texts `before` and
    /// `after`. Returns `None` if the value is incomplete, for example at the token limit.
    ///
    /// The value is validated, because a grammar cannot express all of JSON Schema. An invalid
    /// value is discarded and generated again.
    ///
    /// # Errors
    ///
    /// Fails if all [`MAX_ATTEMPTS`] attempts result in invalid values, or if the engine fails.
    pub(crate) fn write_json(
        &mut self,
        schema: &Schema,
        before: &str,
        after: &str,
    ) -> Result<Option<String>, ModelError> {
        let start = self.prompt.len();
        let mut violation = String::new();
        let mut details = SchemaDetail::ALL.as_slice();
        let mut attempt = 0;
        while attempt < MAX_ATTEMPTS {
            self.prompt.truncate(start);
            let (constraint, simpler) =
                compile_schema(self.engine.grammars(), schema, details, before, after)?;
            let job = self.constrained_job(constraint, 0.0);
            let job = GenerationJob { sampler: self.sampler(attempt), is_json: true, ..job };
            let written = match self.generate(job) {
                // Some grammars exceed the limits of the engine only during the generation. The
                // attempt does not count, because it generated no value.
                Err(EngineError::Constraint(reason)) if !simpler.is_empty() => {
                    debug!(attempt, %reason, "simplifying the schema");
                    details = simpler;
                    continue;
                }
                written => written?,
            };
            if !written.is_complete {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&written.bytes);
            let text = text.strip_prefix(before).and_then(|text| text.strip_suffix(after));
            let text = text.unwrap_or_default().trim();
            violation = match violation_of(text, schema) {
                None => return Ok(Some(text.to_owned())),
                Some(violation) => violation,
            };
            debug!(attempt, %violation, "the value does not match its schema");
            attempt += 1;
        }
        Err(ModelError::InvalidResponse(format!(
            "no value matches the schema after {MAX_ATTEMPTS} attempts: {violation}"
        )))
    }
}

fn violation_of(text: &str, schema: &Schema) -> Option<String> {
    match serde_json::from_str::<Value>(text) {
        Err(error) => Some(error.to_string()),
        Ok(value) => schema.validate(&value).err().map(|violations| violations.to_string()),
    }
}

/// Compiles a grammar for a JSON value that matches `schema`, between the literal texts `before`
/// and `after`.
///
/// Uses the first level in `details` that the grammar engine accepts. Returns the constraint and
/// the remaining, less detailed levels.
fn compile_schema<'a>(
    grammars: &GrammarCompiler,
    schema: &Schema,
    details: &'a [SchemaDetail],
    before: &str,
    after: &str,
) -> Result<(Constraint, &'a [SchemaDetail]), EngineError> {
    let mut error = String::new();
    let mut left = details.iter();
    while let Some(detail) = left.next() {
        let value = GrammarWithLexer {
            name: Some("value".to_owned()),
            ..GrammarWithLexer::from_json_schema(grammar_schema(schema.as_value(), *detail))
        };
        let frame = GrammarWithLexer::from_lark(format!(
            "start: {} @value {}",
            lark_literal(before),
            lark_literal(after)
        ));
        match grammars.compile(TopLevelGrammar { grammars: vec![frame, value], max_tokens: None }) {
            Ok(constraint) => return Ok((constraint, left.as_slice())),
            Err(reason) => error = reason,
        }
        debug!(?detail, %error, "the schema is simplified");
    }
    Err(EngineError::Constraint(error))
}

/// Returns `literal` as a Lark string literal with JSON escapes. Returns an empty string if
/// `literal` is empty.
pub(super) fn lark_literal(literal: &str) -> String {
    match literal {
        "" => String::new(),
        literal => Value::from(literal).to_string(),
    }
}
