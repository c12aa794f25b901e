//! What of a schema is sent to a provider that knows only a part of JSON Schema.

mod change;
mod flat;
mod gemini;
mod inline;
mod kinds;
mod limits;
mod open;
mod small;
mod strict;
mod told;

use serde_json::Value;

use super::Schema;

pub use self::change::{SchemaChange, SchemaChangeKind};
pub(super) use self::flat::is_assertion;

/// What a provider can read of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaTarget {
    /// The parameters of a function at OpenAI, without `strict`. All of JSON Schema may be used, but the root has the
    /// type `object` and none of `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not`. That is in no documentation
    /// but in the [reply that refuses the request](https://github.com/langchain-ai/langchainjs/issues/9804).
    OpenAi,
    /// OpenAI's Structured Outputs, `strict: true`: what the model writes always fits what is sent. The rules are those
    /// under [Supported schemas](https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas),
    /// as of 2026:
    ///
    /// - Each object is closed and all of its properties are required. One that is optional may be `null` instead,
    ///   which [`repair`](super::repair()) takes as absent. So does a pipeline, unless it has
    ///   [`RepairPolicy::Strict`](super::RepairPolicy::Strict).
    /// - `anyOf` but not at the root; `$defs` and `$ref`, also recursive. No other combination of schemas.
    /// - `enum` and `const`; `pattern` and nine `format`s of strings; the bounds and `multipleOf` of numbers;
    ///   `minItems` and `maxItems` of arrays.
    /// - At most 5,000 properties, 10 levels, 1,000 values of enums, and 120,000 characters of names and such values.
    ///
    /// Each rule beyond that is told in the `description`. A schema that would lose what may be said with it, such as
    /// one with a free map, is sent as [`OpenAi`](SchemaTarget::OpenAi).
    OpenAiStrict,
    /// The subset of OpenAPI 3.0 that Gemini's API takes as [`Schema`](https://ai.google.dev/api/caching#Schema), in the
    /// `parameters` of a function, and whatever passes a request on to it. What it does not know fails the request there, so
    /// that nothing else is sent:
    ///
    /// - One `type`, with `nullable` beside it, or `anyOf` and nothing else but what describes it. The root is one object.
    /// - No references: what they lead to is written out. Where one leads back to itself, any value of its type is offered.
    /// - `enum` of texts that are not empty; four formats of numbers, and `date-time`; `minimum` and `maximum`; `pattern` and the
    ///   bounds of lengths and sizes; `required` of declared properties. Each array has `items`.
    ///
    /// Each rule beyond that is told in the `description`, if it is short.
    Gemini,
    /// For a small model, which reads each word of a schema and is distracted by many: a smaller JSON Schema.
    ///
    /// - No references: what they lead to is written out. Where one leads back to itself, any value of its type is offered.
    /// - No titles, no names of schemas, nothing of what only a validator can use, such as `if`, `not` or
    ///   `additionalProperties: false`.
    /// - A property that may be absent is not `null` as well.
    /// - At most 300 bytes of each description, by whole sentences where there is one.
    Small,
}

/// A schema as a provider is sent it, derived by [`Schema::for_provider`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProviderSchema {
    /// What is sent.
    pub value: Value,
    /// Whether it follows the rules of a strict mode. If not, it is to be sent without one.
    pub strict: bool,
    /// What it does not say of the original.
    pub changes: Vec<SchemaChange>,
}

impl ProviderSchema {
    /// Why it is not strict, where it was to be.
    pub fn obstacle(&self) -> Option<&SchemaChange> {
        self.changes.iter().find(|change| matches!(change.kind, SchemaChangeKind::NotStrict { .. }))
    }
}

impl Schema {
    /// Derives what is sent of this schema to a provider.
    ///
    /// Arguments are always checked against the original, so that what is lost here makes a wrong call likelier and
    /// never lets one pass. The same schema gives the same result; nothing is kept, so keep it where it is sent again.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::{Schema, SchemaTarget};
    /// use serde_json::json;
    ///
    /// let schema = Schema::arguments(json!({
    ///     "properties": {"path": {"type": "string", "minLength": 1}, "depth": {"type": "integer"}},
    ///     "required": ["path"],
    /// }))?;
    /// let sent = schema.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(sent.strict);
    /// assert_eq!(
    ///     sent.value,
    ///     json!({
    ///         "type": "object",
    ///         "properties": {
    ///             "path": {"type": "string", "description": "minLength: 1"},
    ///             "depth": {"type": ["integer", "null"]},
    ///         },
    ///         "required": ["path", "depth"],
    ///         "additionalProperties": false,
    ///     })
    /// );
    /// assert_eq!(sent.changes[0].to_string(), "`minLength` at /properties/path: only told in the description");
    ///
    /// let map = Schema::arguments(json!({"additionalProperties": {"type": "integer"}}))?;
    /// let sent = map.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(!sent.strict);
    /// assert_eq!(&sent.value, map.as_value());
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn for_provider(&self, target: SchemaTarget) -> ProviderSchema {
        let open = |changes| open::wire(self.as_value(), changes);
        let lossy = |(value, changes)| ProviderSchema { value, strict: false, changes };
        match target {
            SchemaTarget::OpenAi => open(Vec::new()),
            SchemaTarget::OpenAiStrict => match strict::derive(self.as_value()) {
                Ok((value, changes)) => ProviderSchema { value, strict: true, changes },
                Err(obstacle) => open(vec![obstacle]),
            },
            SchemaTarget::Gemini => lossy(gemini::derive(self.as_value())),
            SchemaTarget::Small => lossy(small::derive(self.as_value())),
        }
    }
}
