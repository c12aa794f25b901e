//! The HTTP client for the Chat Completions API and the Responses API.
//!
//! An implementation of [`Api`] builds the request bodies of one API and accumulates its replies.
//! [`Client`] sends them, and omits parameters that the server rejects. [`ModelClient`] provides
//! everything else.

mod builder;
mod chat_completions;
mod profile;
mod provider;
mod responses;
mod unsupported_params;

use std::{mem::replace, sync::Arc};

use haft_core::model::{ChatRequest, ChatResponse, ModelError, ModelProfile, adapter::ResponseSchemaOptions};
use haft_http::model::{
    Connection, ModelApi, ModelClient, ReplyStream, RequestError, RequestTimer, StreamAccumulator,
};
use serde::Serialize;

use self::{
    builder::ClientSettings,
    unsupported_params::{OptionalParam, OptionalParams},
};
use crate::format::{EncodingOptions, check_settings};

pub use haft_http::model::{HttpService, Timeouts};

pub use builder::{BuildError, ModelBuilder};
pub use chat_completions::{ChatCompletions, ChatCompletionsBuilder};
#[cfg(feature = "async-openai")]
pub(crate) use profile::profile_of;
pub use provider::{Provider, UnknownProvider};
pub use responses::{Responses, ResponsesBuilder};

/// The parts of a model client that differ between Chat Completions and Responses.
trait Api: Sized + Send + Sync {
    /// The path of the API, relative to the base URL.
    const PATH: &'static str;

    /// The fields that this client may send in a request body. `extra_fields` must not contain
    /// them.
    const BODY_FIELDS: &'static [&'static str];

    /// The maximum length of the id of a call that OpenAI accepts in this API, in bytes.
    const MAX_CALL_ID_BYTES: usize;

    /// `true` if the API has hosted tools.
    const HAS_HOSTED_TOOLS: bool;

    /// The settings of one HTTP request, such as streaming and the parameters to omit. If the
    /// server rejects an optional parameter, the next HTTP request has different settings.
    type Variant: Send + Sync;

    /// The accumulator that builds a reply from a body or from stream events.
    type Accumulator: StreamAccumulator;

    /// Returns the settings for the first HTTP request of a model request or of a retry. After a
    /// rejection, [`variant_without_rejected`](Self::variant_without_rejected) returns the settings
    /// for the next HTTP request.
    fn first_variant(&self, is_streamed: bool) -> Self::Variant;

    /// Returns `variant` without the parameter that caused `rejection`, or with a replacement for
    /// it. `None` if no optional parameter caused `rejection`.
    fn variant_without_rejected(
        &self,
        variant: &Self::Variant,
        rejection: &RequestError,
    ) -> Option<Self::Variant>;

    /// Remembers the parameter that caused the last rejection, so that later requests omit it from
    /// the start. The last rejected request (`rejected`) contained this parameter, and the next
    /// request (`accepted`) succeeded without it.
    fn remember_rejected(&self, accepted: &Self::Variant, rejected: &Self::Variant);

    /// Returns the HTTP body for `request`, and a function that creates the accumulator for the
    /// reply. Updates `variant` to match the body, for example if the conversation does not
    /// continue a stored response.
    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut Self::Variant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> Self::Accumulator + Send + 'a);
}

/// The requests to one model. `A` is the API: Chat Completions or Responses.
struct Client<A> {
    api: A,
    profile: ModelProfile,
    defaults: ClientSettings,
    encoding: Arc<EncodingOptions>,
    /// The encoding without cache breakpoints, for servers that reject them.
    unmarked_encoding: Arc<EncodingOptions>,
}

impl<A> Client<A> {
    /// Returns the encoding of the messages for a request that omits the parameters `omitted`.
    fn encoding_without(&self, omitted: OptionalParams) -> &Arc<EncodingOptions> {
        if omitted.has(OptionalParam::CacheBreakpoints) { &self.unmarked_encoding } else { &self.encoding }
    }
}

/// A model with its connection.
type Model<A> = ModelClient<Client<A>>;

impl<A: Api> ModelApi for Client<A> {
    type Accumulator = A::Accumulator;

    fn provider(&self) -> &str {
        // An unknown server is assumed to implement OpenAI's API, so the span names OpenAI as the
        // provider.
        self.defaults.provider.unwrap_or(Provider::OpenAi).telemetry_name()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn response_schema_options(&self) -> ResponseSchemaOptions {
        self.defaults.quirks.response_schema_options()
    }

    /// Sends `request` and waits for the whole reply, or for the first event of a streamed reply.
    /// If the server rejects an optional parameter, by its status or in place of the reply, sends
    /// the request again without this parameter.
    async fn send(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<(ReplyStream<A::Accumulator>, Option<ChatResponse>), ModelError> {
        check_settings(&request.hosted_tools)?;
        let mut variant = self.api.first_variant(is_streamed);
        let mut rejected: Option<A::Variant> = None;
        loop {
            let (body, accumulator) = A::build_request(self, request, &mut variant);
            let rejection = match connection.post(A::PATH, &body, timer).await {
                Ok(reply) => match ReplyStream::open(reply, accumulator(), is_streamed).await {
                    Ok(reply) => {
                        if let Some(rejected) = rejected {
                            self.api.remember_rejected(&variant, &rejected);
                        }
                        return Ok(reply);
                    }
                    Err(error) => error.into(),
                },
                Err(rejection) => rejection,
            };
            let Some(next) = self.api.variant_without_rejected(&variant, &rejection) else {
                return Err(rejection.error);
            };
            let error = connection.redact(rejection.error);
            tracing::warn!(%error, "retrying without the parameter rejected by the model's server");
            rejected = Some(replace(&mut variant, next));
        }
    }
}
