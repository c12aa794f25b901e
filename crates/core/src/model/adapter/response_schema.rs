//! Encoding of response schemas in a form that the server accepts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    Schema, ToolName,
    schema::{ProviderSchema, SchemaTarget},
};

/// The name of the property in the wrapper object. The wrapper is used if the server accepts only
/// objects as the root of a reply.
pub(super) const WRAPPER_PROPERTY: &str = "value";

/// The restrictions that a server imposes on response schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseSchemaOptions {
    /// The JSON Schema subset that the server supports.
    pub target: SchemaTarget,
    /// `true` if the root of a response schema must be an object without alternatives such as
    /// `anyOf`.
    pub needs_object_root: bool,
}

/// The encoded `schema` and `strict` fields of a response format.
#[derive(Debug, Serialize)]
pub struct ResponseSchema {
    schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    /// `true` if the schema is wrapped in an object with the property [`WRAPPER_PROPERTY`].
    #[serde(skip)]
    pub(super) is_wrapped: bool,
}

/// A cache in a schema: the encoded form of the schema for each [`ResponseSchemaOptions`].
#[derive(Default)]
struct SchemaCache(Mutex<HashMap<ResponseSchemaOptions, Arc<ResponseSchema>>>);

impl ResponseSchema {
    /// Returns `schema`, encoded for `options`. The encoded form is cached. Changes to the schema
    /// are logged under the name `name`.
    pub fn of(schema: &Schema, name: &ToolName, options: ResponseSchemaOptions) -> Arc<Self> {
        let cache = schema.memoize(|_| SchemaCache::default());
        let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(cached.entry(options).or_insert_with(|| Arc::new(Self::new(schema, name, options))))
    }

    /// Returns the JSON text of the schema.
    pub fn json(&self) -> &RawValue {
        &self.schema
    }

    /// Returns `true` if the schema follows the rules of the strict mode of the provider. In OpenAI's
    /// strict mode, the model writes null instead of omitting a property.
    pub fn is_strict(&self) -> bool {
        self.strict.is_some()
    }

    fn new(schema: &Schema, name: &ToolName, options: ResponseSchemaOptions) -> Self {
        let wants_object = options.needs_object_root
            || matches!(
                options.target,
                SchemaTarget::OpenAiStrict | SchemaTarget::AnthropicStrict | SchemaTarget::Gemini
            );
        let (root, is_wrapped) = if wants_object { to_object_root(schema) } else { (schema.clone(), false) };
        let converted = match options.target {
            SchemaTarget::OpenAiStrict | SchemaTarget::AnthropicStrict | SchemaTarget::Gemini => {
                root.for_provider(options.target)
            }
            // For other targets, the schema is not simplified, because most servers use it only to
            // constrain the decoding of the reply.
            _ => root.for_reply(options.target),
        };
        log_changes(&converted, name);
        Self {
            schema: to_raw_value(&converted.value).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            strict: converted.is_strict.then_some(true),
            is_wrapped,
        }
    }
}

/// Returns a schema whose root is a plain object, and `true` if `schema` was wrapped. The wrapper
/// is an object whose only property has the schema `schema`. A schema that is too large to be
/// wrapped is returned unchanged, with `false`.
fn to_object_root(schema: &Schema) -> (Schema, bool) {
    const UNSUPPORTED: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"];
    let root = schema.as_value();
    let is_object = root.get("type").map_or(root.get("properties").is_some(), |it| it == "object");
    let is_plain = is_object && !UNSUPPORTED.iter().any(|keyword| root.get(*keyword).is_some());
    let typed = || schema.clone().into_arguments().ok().map(|root| (root, false));
    let wrapped = || Schema::new(schema.wrapped_in_object(WRAPPER_PROPERTY)).ok().map(|root| (root, true));
    let root = if is_plain { typed() } else { wrapped() };
    // A schema that would be too large after wrapping is sent unchanged.
    root.unwrap_or_else(|| (schema.clone(), false))
}

fn log_changes(schema: &ProviderSchema, name: &ToolName) {
    for change in &schema.changes {
        tracing::debug!(schema = %name, %change, "a response schema is sent with a change");
    }
    if let Some(obstacle) = schema.strict_obstacle() {
        tracing::warn!(schema = %name, %obstacle, "a response schema cannot be sent with `strict`");
    }
}
