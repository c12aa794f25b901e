//! Derivation of schemas for model providers with limited support for JSON Schema.

mod change;
mod description_notes;
mod flatten;
mod gemini;
mod inliner;
mod json_types;
mod lone_references;
mod portable;
mod root_object;
mod small_model;
mod strict;
mod strict_limits;

use serde_json::Value;

use self::{portable::Subset, strict::StrictMode};

use super::Schema;

pub use self::change::{SchemaChange, SchemaChangeKind};
pub(super) use self::flatten::is_assertion;

/// The target of a derived schema: a provider or a kind of model, and the subset of JSON Schema
/// that it supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaTarget {
    /// The parameters of a function in OpenAI's API, without `strict: true`.
    ///
    /// The root must have the type `object`, and must not contain `anyOf`, `oneOf`, `allOf`,
    /// `enum`, `const` or `not`. Below the root, each array has `items`, also beside `prefixItems`,
    /// and no property, alternative or `items` is a boolean. OpenAI does not document these rules.
    /// The sources are error responses of
    /// [OpenAI](https://github.com/langchain-ai/langchainjs/issues/9804) ("array schema missing
    /// items") and of servers in Go, such as Ollama ("cannot unmarshal bool").
    OpenAi,
    /// The subset of JSON Schema that Moonshot accepts for its Kimi models, directly or through a
    /// gateway.
    ///
    /// The rules are those of [`OpenAi`](SchemaTarget::OpenAi). In addition, the types are in the
    /// alternatives of `anyOf`, and not beside it; each alternative has a type; `oneOf` becomes
    /// `anyOf`, and so does a list of types; no keyword is beside a `$ref`; a tuple is an array of
    /// alternatives. The source is an error response: "type should be defined in anyOf items
    /// instead of the parent schema".
    Moonshot,
    /// OpenAI's Structured Outputs (`strict: true`): the arguments written by the model are always
    /// valid for the derived schema.
    ///
    /// The rules are those of [Supported schemas][supported], as of 2026:
    ///
    /// - Objects are closed, and all their properties are required. An optional property becomes
    ///   nullable. [`repair`](super::repair()) removes a `null` that the original schema does not
    ///   allow, unless the policy is [`RepairPolicy::Strict`](super::RepairPolicy::Strict). The
    ///   pipelines of `haft-core` repair arguments in the same way.
    /// - The only combinator is `anyOf`, which is not allowed at the root. A `$ref` leads to the
    ///   root or into `$defs`, and may be recursive.
    /// - The supported constraints are `enum` and `const`; `pattern` and nine values of `format`
    ///   for strings; bounds and `multipleOf` for numbers; `minItems` and `maxItems` for arrays.
    /// - A schema has at most 5,000 properties, 10 levels, 1,000 enum values, and 120,000
    ///   characters in names and enum values. An enum with more than 250 values has at most 15,000
    ///   characters.
    ///
    /// Other constraints are moved to the `description` if they are short, and dropped if they are
    /// long. A schema that has no strict form, for example because it is a map with arbitrary keys,
    /// is derived for [`OpenAi`](SchemaTarget::OpenAi) instead.
    ///
    /// [supported]:
    ///     https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
    OpenAiStrict,
    /// Anthropic's structured outputs and strict tools: the JSON written by the model is always valid
    /// for the derived schema.
    ///
    /// - Objects are closed. Optional properties remain optional.
    /// - The only combinator is `anyOf`, which is not allowed at the root. A `$ref` leads into
    ///   `$defs`, and is not recursive.
    /// - The supported constraints are `enum` and `const` with scalars; ten values of `format` for
    ///   strings; a `minItems` of 0 or 1.
    ///
    /// Other constraints are moved to the `description` if they are short, and dropped if they are
    /// long. A schema that has no strict form is derived for [`OpenAi`](SchemaTarget::OpenAi)
    /// instead. Anthropic also limits the strict tools, optional properties and unions in a request.
    /// These limits are not checked here.
    AnthropicStrict,
    /// The subset of OpenAPI 3.0 that Gemini accepts as
    /// [`Schema`](https://ai.google.dev/api/caching#Schema) in the `parameters` of a function,
    /// directly or through a gateway. Gemini rejects a request with any other keyword.
    ///
    /// - A schema has either a single `type`, or an `anyOf` beside annotations only. It may be
    ///   `nullable`. The root is an object.
    /// - References are replaced with their targets. A recursive reference becomes a schema for any
    ///   value of the target's type.
    /// - The supported constraints are `enum` with non-empty strings; the formats `int32`, `int64`,
    ///   `float`, `double` and `date-time`; `minimum` and `maximum`; `pattern`; bounds on lengths
    ///   and sizes; `required` for declared properties. Every array has `items`.
    ///
    /// Other constraints are moved to the `description` if they are short, and dropped if they are
    /// long. `additionalProperties: false` is always dropped.
    Gemini,
    /// The JSON Schema that Gemini accepts in the fields `parametersJsonSchema` and
    /// `responseJsonSchema`, and in the Interactions API.
    ///
    /// The schema is unchanged, except that only keywords with the prefix `$` are beside a `$ref`.
    /// A reference with other keywords is moved into an `anyOf`. The source is an error response:
    /// "If a schema node has Schema.ref set, then only description and default can be set alongside
    /// it".
    GeminiJsonSchema,
    /// A reduced JSON Schema for small models, which are distracted by long schemas.
    ///
    /// - References are replaced with their targets. A recursive reference becomes a schema for any
    ///   value of the target's type.
    /// - Titles, identifiers and keywords that only matter to validators are omitted, for example
    ///   `if`, `not` or `additionalProperties: false`.
    /// - `null` is removed from the types and alternatives of optional properties.
    /// - Descriptions are shortened to at most 300 bytes, at the end of a sentence if possible.
    SmallModel,
}

/// A schema derived for a provider by [`Schema::for_provider`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProviderSchema {
    /// The schema to send to the provider.
    pub value: Value,
    /// `true` if `value` follows the rules of the provider's strict mode. If `false`, `value` must
    /// be sent without strict mode.
    pub is_strict: bool,
    /// The lossy changes from the original schema to `value`, and the obstacle to strict mode, if
    /// there is one. Lossless changes, such as an inlined reference, are not listed.
    pub changes: Vec<SchemaChange>,
}

impl ProviderSchema {
    /// Returns the change that prevents strict mode, or `None` if the schema is strict or the
    /// target has no strict mode.
    pub fn strict_obstacle(&self) -> Option<&SchemaChange> {
        self.changes.iter().find(|change| matches!(change.kind, SchemaChangeKind::NotStrict { .. }))
    }
}

impl Schema {
    /// Derives the schema to send to the provider or model `target`.
    ///
    /// Arguments must still be validated against the original schema. If a constraint is lost in
    /// the derived schema, invalid calls become more likely, but they are still rejected. The
    /// derivation is deterministic. The derived schema is not cached.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::{Schema, SchemaTarget};
    /// use serde_json::json;
    ///
    /// let schema = Schema::for_arguments(json!({
    ///     "properties": {
    ///         "path": {"type": "string", "minLength": 1},
    ///         "depth": {"type": "integer"},
    ///     },
    ///     "required": ["path"],
    /// }))?;
    /// let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(derived.is_strict);
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
    /// let map = Schema::for_arguments(json!({"additionalProperties": {"type": "integer"}}))?;
    /// let derived = map.for_provider(SchemaTarget::OpenAiStrict);
    /// assert!(!derived.is_strict);
    /// assert_eq!(&derived.value, map.as_value());
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn for_provider(&self, target: SchemaTarget) -> ProviderSchema {
        let lossy = |(value, changes)| ProviderSchema { value, is_strict: false, changes };
        match target {
            SchemaTarget::OpenAi => self.derive_open(Vec::new(), Subset::Any),
            SchemaTarget::Moonshot => self.derive_open(Vec::new(), Subset::Moonshot),
            SchemaTarget::OpenAiStrict => self.derive_strict(StrictMode::OpenAi),
            SchemaTarget::AnthropicStrict => self.derive_strict(StrictMode::Anthropic),
            SchemaTarget::Gemini => lossy(gemini::derive(self.as_value())),
            SchemaTarget::GeminiJsonSchema => lossy(lone_references::derive(self.as_value())),
            SchemaTarget::SmallModel => lossy(small_model::derive(self.as_value())),
        }
    }

    /// Derives the schema of a reply to send to the provider `target`. Unlike the schema of
    /// [`for_provider`](Self::for_provider), its root can be any value for the targets
    /// [`OpenAi`](SchemaTarget::OpenAi) and [`Moonshot`](SchemaTarget::Moonshot). The root is always
    /// unchanged for [`GeminiJsonSchema`](SchemaTarget::GeminiJsonSchema).
    pub fn for_reply(&self, target: SchemaTarget) -> ProviderSchema {
        let subset = match target {
            SchemaTarget::OpenAi => Subset::Any,
            SchemaTarget::Moonshot => Subset::Moonshot,
            _ => return self.for_provider(target),
        };
        let (mut value, mut changes) = (self.as_value().clone(), Vec::new());
        portable::adjust(&mut value, subset, &mut changes);
        ProviderSchema { value, is_strict: false, changes }
    }

    fn derive_strict(&self, mode: StrictMode) -> ProviderSchema {
        match strict::derive(self.as_value(), mode) {
            Ok((value, changes)) => ProviderSchema { value, is_strict: true, changes },
            Err(obstacle) => self.derive_open(vec![obstacle], Subset::Any),
        }
    }

    fn derive_open(&self, changes: Vec<SchemaChange>, subset: Subset) -> ProviderSchema {
        let mut derived = root_object::derive(self.as_value(), changes);
        portable::adjust(&mut derived.value, subset, &mut derived.changes);
        derived
    }
}
