use haft_core::schema::SchemaTarget;
use serde_json::{Map, Value};

use super::ModelBuilder;
use crate::{
    client::provider::{Provider, Quirks, REASONING_CONTENT_FIELD},
    format::ReasoningField,
};

/// The settings that a client applies to all its requests: the quirks of the server and the user's
/// options.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::client) struct ClientSettings {
    pub(in crate::client) provider: Option<Provider>,
    pub(in crate::client) quirks: Quirks,
    /// The reasoning effort, such as `low`. `None` omits the request field.
    pub(in crate::client) reasoning_effort: Option<String>,
    /// Additional fields of the request body.
    pub(in crate::client) extra_fields: Map<String, Value>,
}

impl<M> ModelBuilder<M> {
    /// Returns the settings of the client. Options of the builder take precedence over quirks of
    /// `provider`.
    pub(super) fn client_settings(&self, provider: Option<Provider>) -> ClientSettings {
        let usual = Provider::quirks_for_model(provider, self.model_name());
        // Fine-tuned models do not support all keywords of strict schemas.
        let is_fine_tuned = self.model_name().starts_with("ft:");
        let usual_schemas = if is_fine_tuned { SchemaTarget::OpenAi } else { usual.schema_target };
        let quirks = Quirks {
            uses_max_completion_tokens: self
                .uses_max_completion_tokens
                .unwrap_or(usual.uses_max_completion_tokens),
            reasoning: match self.sends_reasoning {
                None => usual.reasoning,
                Some(false) => ReasoningField::Omitted,
                Some(true) if usual.reasoning == ReasoningField::Omitted => {
                    ReasoningField::Optional(REASONING_CONTENT_FIELD)
                }
                Some(true) => usual.reasoning,
            },
            schema_target: self.schema_target.unwrap_or(usual_schemas),
            ..usual
        };
        ClientSettings {
            provider,
            quirks,
            reasoning_effort: self.effort.clone(),
            extra_fields: self.http.extra_fields.clone(),
        }
    }
}
