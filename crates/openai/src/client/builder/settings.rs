use std::{borrow::Cow, time::Duration};

use haft_core::{model::ChatRequest, schema::SchemaTarget};
use serde_json::{Map, Value};

use super::{BuildError, ModelBuilder};
use crate::{
    HttpBuildError,
    client::profile::accepts_cache_breakpoints,
    client::provider::{Provider, Quirks, REASONING_CONTENT_FIELD},
    format::{CacheBreakpoint, ReasoningField, cache_key},
};

/// The settings that a client applies to all its requests: the quirks of the server and the user's
/// options.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::client) struct ClientSettings {
    pub(in crate::client) provider: Option<Provider>,
    pub(in crate::client) quirks: Quirks,
    /// The reasoning effort, such as `low`. `None` omits the request field.
    pub(in crate::client) reasoning_effort: Option<String>,
    pub(super) cache: CacheSettings,
    /// Additional fields of the request body.
    pub(in crate::client) extra_fields: Map<String, Value>,
}

/// The settings of OpenAI's prompt cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::client) struct CacheSettings {
    /// `true` if the server has a prompt cache with keys.
    is_enabled: bool,
    /// The cache breakpoint of each message. `None` if the model finds the prefix by itself.
    pub(super) breakpoint: Option<CacheBreakpoint>,
    /// The key of the program.
    key: Option<String>,
}

impl ClientSettings {
    /// Returns the `prompt_cache_key` of `request`: the key of the program, or else a key for the
    /// conversation. `None` if the server has no such field.
    pub(in crate::client) fn cache_key_of(&self, request: &ChatRequest) -> Option<Cow<'_, str>> {
        match &self.cache.key {
            Some(key) => Some(Cow::Borrowed(key)),
            None => self.cache.is_enabled.then(|| cache_key(request).into()),
        }
    }

    pub(in crate::client) fn cache_breakpoint(&self) -> Option<CacheBreakpoint> {
        self.cache.breakpoint
    }
}

impl<M> ModelBuilder<M> {
    /// Returns the settings of the prompt cache of `provider`.
    pub(super) fn cache_settings(&self, provider: Option<Provider>) -> Result<CacheSettings, BuildError> {
        const EXPECTED: &str = "use 30 minutes or 12 hours";
        let ttl = match self.prompt_cache_ttl {
            None => None,
            Some(ttl) if ttl == Duration::from_secs(30 * 60) => Some("30m"),
            Some(ttl) if ttl == Duration::from_secs(12 * 60 * 60) => Some("12h"),
            Some(ttl) => {
                let (name, value) = ("prompt_cache_ttl", format!("{ttl:?}"));
                return Err(HttpBuildError::InvalidSetting { name, value, expected: EXPECTED }.into());
            }
        };
        let has_cache = matches!(provider, Some(Provider::OpenAi | Provider::Azure));
        let is_enabled = self.prompt_cache && has_cache;
        let takes_breakpoints = is_enabled && accepts_cache_breakpoints(self.model_name());
        let breakpoint = takes_breakpoints.then(|| CacheBreakpoint::new(ttl));
        Ok(CacheSettings { is_enabled, breakpoint, key: self.prompt_cache_key.clone() })
    }

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
            cache: CacheSettings::default(),
            provider,
            quirks,
            reasoning_effort: self.effort.clone(),
            extra_fields: self.http.extra_fields.clone(),
        }
    }
}
