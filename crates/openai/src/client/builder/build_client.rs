use std::sync::Arc;

use haft_core::model::{CallIds, ModelProfile, adapter::Origin};

use super::{BuildError, ClientSettings, ModelBuilder};
use crate::{
    client::{
        Api, Client, Model,
        profile::{needs_thought_signatures, profile_of},
        provider::Provider,
    },
    format::{EncodingOptions, WarnOnce},
};

impl<M> ModelBuilder<M> {
    /// Builds the client for the API `A`. `api` creates the [`Api`] implementation from the
    /// settings of the client and the name of the model.
    pub(in crate::client) fn build_client<A: Api>(
        mut self,
        api: impl FnOnce(&ClientSettings, &str) -> A,
    ) -> Result<Model<A>, BuildError> {
        self.http.check_extra_fields(A::BODY_FIELDS)?;
        let target = self.resolve_server()?;
        let key = (target.key_header(), &target.key);
        let connection = self.http.connect(&target.url, key, &[], not_found_hint)?;
        let defaults = ClientSettings {
            cache: self.cache_settings(target.provider)?,
            ..self.client_settings(target.provider)
        };
        let usual = ModelProfile {
            supports_json_schema: defaults.quirks.accepts_json_schema,
            hosted_tools: if A::HAS_HOSTED_TOOLS {
                defaults.quirks.hosted_tools.to_vec()
            } else {
                Vec::new()
            },
            ..profile_of(&self.model)
        };
        let mut profile = self.profile.unwrap_or(usual);
        profile.supports_images = self.sends_images.unwrap_or(profile.supports_images);
        let unmarked_encoding = Arc::new(EncodingOptions {
            sends_images: profile.supports_images,
            sends_audio: profile.supports_audio,
            sends_documents: profile.supports_files,
            reasoning_field: defaults.quirks.reasoning,
            server_stores_reasoning: self.options.stores_responses(),
            // A fixed thought signature is sent only to Google and to unknown servers. Other known
            // providers of Gemini models, such as OpenRouter, handle thought signatures themselves.
            needs_signatures: target.provider.is_none_or(|it| it == Provider::Gemini)
                && needs_thought_signatures(&profile.name),
            call_ids: CallIds::new(
                defaults.quirks.call_ids.with_maximum(A::MAX_CALL_ID_BYTES),
                format!("{} {}", connection.address(), profile.name),
            ),
            cache_breakpoints: None,
            has_one_system_message: defaults.quirks.has_one_system_message,
            origin: Origin::Server(connection.address().into()),
            media_warning: WarnOnce::default(),
        });
        let cache_breakpoints = defaults.cache_breakpoint();
        let encoding = match cache_breakpoints {
            Some(_) => {
                Arc::new(EncodingOptions { cache_breakpoints, ..EncodingOptions::clone(&unmarked_encoding) })
            }
            None => Arc::clone(&unmarked_encoding),
        };
        let api = api(&defaults, &profile.name);
        Ok(Model::new(Client { api, profile, defaults, encoding, unmarked_encoding }, connection))
    }

    /// Returns the name of the model that is sent to the server.
    pub(super) fn model_name(&self) -> &str {
        self.profile.as_ref().map_or(&self.model, |profile| &profile.name)
    }
}

/// Returns a question about the base URL for the error 404, because a wrong base URL is its usual
/// cause.
fn not_found_hint(url: &str) -> &'static str {
    let is_usual = ["/v1/chat/completions", "/v1/responses"].iter().any(|path| url.ends_with(path));
    if is_usual { "" } else { " (should the base URL end in /v1?)" }
}
