//! Derivation of schemas for providers that accept a subset of JSON Schema.

mod change;
mod description_notes;
mod flatten;
mod gemini;
mod inline;
mod json_types;
mod limits;
mod root_object;
mod small_model;
mod strict;

use serde_json::Value;

use super::Schema;

pub use self::change::{SchemaChange, SchemaChangeKind};
pub(super) use self::flatten::is_assertion;

/// The subset of JSON Schema that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaTarget {
    /// Function parameters at OpenAI, without `strict`.
    ///
    /// All of JSON Schema is allowed, but the root has the type `object` and none of `anyOf`,
    /// `oneOf`, `allOf`, `enum`, `const` and `not`. The rule is not documented; its source is the
    /// [error response](https://github.com/langchain-ai/langchainjs/issues/9804).
    OpenAi,
    /// OpenAI's Structured Outputs (`strict: true`): the arguments are always valid for the derived
    /// schema.
    ///
    /// The rules are those of [Supported schemas][supported], as of 2026:
    ///
    /// - Objects are closed, and all properties are required. An optional property becomes
    ///   nullable, and [`repair`](super::repair()) removes the `null`, as does a pipeline without
    ///   [`RepairPolicy::Strict`](super::RepairPolicy::Strict).
    /// - `anyOf`, but not at the root; `$defs` and `$ref`, also recursive. No other combinators.
    /// - `enum` and `const`; `pattern` and nine `format`s of strings; bounds and `multipleOf` of
    ///   numbers; `minItems` and `maxItems` of arrays.
    /// - At most 5,000 properties, 10 levels, 1,000 enum values, and 120,000 characters in names
    ///   and enum values.
    ///
    /// Other constraints are moved to the `description`. A schema with a constraint that cannot be
    /// dropped, such as a map with arbitrary keys, is derived for [`OpenAi`](SchemaTarget::OpenAi)
    /// instead.
    ///
    /// [supported]:
    ///     https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    OpenAiStrict,
    /// The subset of OpenAPI 3.0 that Gemini accepts as
    /// [`Schema`](https://ai.google.dev/api/caching#Schema) in the `parameters` of a function, also
    /// through a gateway. A request with any other keyword fails.
    ///
    /// - A single `type` with an optional `nullable`, or `anyOf` with annotations only. The root is
    ///   an object.
    /// - No references: targets are inlined. A recursive reference becomes any value of its type.
    /// - `enum` of non-empty strings; four formats of numbers, and `date-time`; `minimum` and
    ///   `maximum`; `pattern`; bounds of lengths and sizes; `required` for declared properties.
    ///   Every array has `items`.
    ///
    /// Other constraints are moved to the `description` if they are short.
    Gemini,
    /// A reduced JSON Schema for small models. Long schemas distract them.
    ///
    /// - No references: targets are inlined. A recursive reference becomes any value of its type.
    /// - No titles, no identifiers, and no keywords for validators only, such as `if`, `not` or
    ///   `additionalProperties: false`.
    /// - Optional properties are not nullable.
    /// - Descriptions have at most 300 bytes, cut at the end of a sentence if possible.
    Small,
}

/// A schema for a provider, derived by [`Schema::for_provider`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProviderSchema {
    /// The schema to send.
    pub value: Value,
    /// Set if the schema follows the rules of a strict mode. Otherwise send it without strict mode.
    pub strict: bool,
    /// All differences from the original.
    pub changes: Vec<SchemaChange>,
}

impl ProviderSchema {
    /// Returns the reason why the schema is not strict, if the target was a strict mode.
    pub fn obstacle(&self) -> Option<&SchemaChange> {
        self.changes.iter().find(|change| matches!(change.kind, SchemaChangeKind::NotStrict { .. }))
    }
}

impl Schema {
    /// Derives the schema for a provider.
    ///
    /// Arguments are still validated against the original schema: a lost constraint makes invalid
    /// calls more likely, but never accepts them. The result is deterministic and not cached.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::{Schema, SchemaTarget};
    /// use serde_json::json;
    ///
    /// let schema = Schema::arguments(json!({
    ///     "properties": {
    ///         "path": {"type": "string", "minLength": 1},
    ///         "depth": {"type": "integer"},
    ///     },
    ///     "required": ["path"],
    /// }))?;
    /// let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(derived.strict);
    /// assert_eq!(
    ///     derived.value,
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
    /// assert_eq!(
    ///     derived.changes[0].to_string(),
    ///     "`minLength` at /properties/path: stated only in the description"
    /// );
    ///
    /// let map = Schema::arguments(json!({"additionalProperties": {"type": "integer"}}))?;
    /// let derived = map.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(!derived.strict);
    /// assert_eq!(&derived.value, map.as_value());
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn for_provider(&self, target: SchemaTarget) -> ProviderSchema {
        let open = |changes| root_object::derive(self.as_value(), changes);
        let lossy = |(value, changes)| ProviderSchema { value, strict: false, changes };
        match target {
            SchemaTarget::OpenAi => open(Vec::new()),
            SchemaTarget::OpenAiStrict => match strict::derive(self.as_value()) {
                Ok((value, changes)) => ProviderSchema { value, strict: true, changes },
                Err(obstacle) => open(vec![obstacle]),
            },
            SchemaTarget::Gemini => lossy(gemini::derive(self.as_value())),
            SchemaTarget::Small => lossy(small_model::derive(self.as_value())),
        }
    }
}
