//! Response schemas, in the form that a server accepts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{
    Schema, ToolName,
    schema::{ProviderSchema, SchemaTarget},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::raw;

/// The property for a value that is wrapped in an object, because the server accepts no other root.
pub(crate) const PROPERTY: &str = "value";

/// The part of response schemas that a server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnswerProfile {
    pub(crate) schemas: SchemaTarget,
    /// Requires an object without alternatives as the root.
    pub(crate) object_root: bool,
}

/// An encoded response schema.
#[derive(Serialize)]
pub(crate) struct AnswerSchema {
    schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    /// Set if the value is the [`PROPERTY`] of an object.
    #[serde(skip)]
    pub(crate) is_wrapped: bool,
}

/// The cache beside a schema.
#[derive(Default)]
struct Rendered(Mutex<HashMap<AnswerProfile, Arc<AnswerSchema>>>);

impl AnswerSchema {
    /// Encodes a schema, once for each profile. Losses are logged with the name.
    pub(crate) fn of(schema: &Schema, name: &ToolName, profile: AnswerProfile) -> Arc<Self> {
        let rendered = schema.rendering(|_| Rendered::default());
        let mut rendered = rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(rendered.entry(profile).or_insert_with(|| Arc::new(Self::new(schema, name, profile))))
    }

    /// Returns `true` if the server enforces the schema. Omitted properties are null then.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict.is_some()
    }

    fn new(schema: &Schema, name: &ToolName, profile: AnswerProfile) -> Self {
        let wants_object = profile.object_root
            || matches!(profile.schemas, SchemaTarget::OpenAiStrict | SchemaTarget::Gemini);
        let (root, is_wrapped) = if wants_object { object_root(schema) } else { (schema.clone(), false) };
        let wire = match profile.schemas {
            SchemaTarget::OpenAiStrict | SchemaTarget::Gemini => root.for_provider(profile.schemas),
            // The schema constrains the reply, and the model does not read it: no simplification.
            _ => return Self { schema: raw(&root), strict: None, is_wrapped },
        };
        tell(&wire, name);
        Self { schema: raw(&wire.value), strict: wire.strict.then_some(true), is_wrapped }
    }
}

/// The schema, or one that wraps it in an object, without alternatives at the root.
fn object_root(schema: &Schema) -> (Schema, bool) {
    const REFUSED: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"];
    let root = schema.as_value();
    let is_object = root.get("type").map_or(root.get("properties").is_some(), |it| it == "object");
    let is_plain = is_object && !REFUSED.iter().any(|keyword| root.get(*keyword).is_some());
    let typed = || schema.clone().into_arguments().ok().map(|root| (root, false));
    let wrapped = || Schema::new(schema.wrapped_in_object(PROPERTY)).ok().map(|root| (root, true));
    let root = if is_plain { typed() } else { wrapped() };
    // Too large to wrap: sent unchanged.
    root.unwrap_or_else(|| (schema.clone(), false))
}

fn tell(wire: &ProviderSchema, name: &ToolName) {
    for change in &wire.changes {
        tracing::debug!(schema = %name, %change, "the schema of a reply is not sent as it is");
    }
    if let Some(obstacle) = wire.obstacle() {
        tracing::warn!(schema = %name, %obstacle, "the schema of a reply cannot be sent with `strict`");
    }
}
