//! Replies to earlier requests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use haft_core::{
    ChatModel, limits,
    message::MessageBody,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError, ModelProfile},
    usage::{Cost, Usage},
};

use crate::ttl_lru::{Ticket, TtlLru};

/// Answers a request with the reply to an earlier one that was equal, whole or streamed. Clones share what is kept.
///
/// Equal are requests that tell the model the same: instructions, messages with the ids of their calls and what only the provider
/// understands, tools, what may be called, the form of the reply, the settings. When a message was made and what the host
/// noted does not count. So a reply that was drawn freely, at a high temperature, is the same one again within its time to live, which
/// counts from when its request began.
///
/// Kept are whole replies: none that failed, was dropped before its end, reached a limit of tokens, was stopped by a filter, is a
/// refusal or stopped for a reason that only the server knows. Of requests that are made at the same time each is asked. What is asked for least
/// recently is forgotten first. A reply comes with the ids and the model that it had; streamed, it comes in as few pieces as possible.
///
/// Its usage is that of the request that was made, so that a run goes the way that it went then, with all of the input as read
/// [from a cache](Usage::cached_input_tokens), and a cost of nothing.
///
/// A request does not say for whom it is made: who asks the same is told the same. It contains nothing that was not in the request, but that
/// somebody asked can be told from how fast it comes. Where tenants must not know that of each other, give each a cache of its own.
///
/// Each model that it is put around has replies of its own, also if another has the same name: put it around a model once, and share that. Around a
/// [`FallbackModel`](super::FallbackModel) it would keep what the second said when the first is back: put it around each.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use haft_core::{ChatModel, Message, model::{ChatModelExt, ChatRequest}};
/// use haft_middleware::ModelMiddleware;
/// use haft_middleware::ReplyCache;
/// # use haft_core::{export::async_trait, model::{ChatResponse, ModelError, ModelProfile}, usage::Usage};
/// # struct Small(ModelProfile, std::sync::atomic::AtomicU64);
/// # #[async_trait]
/// # impl ChatModel for Small {
/// #     async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
/// #         let nth = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
/// #         Ok(ChatResponse { usage: Usage::of_request(1_000, 100), ..ChatResponse::new(format!("Request {nth}.")) })
/// #     }
/// #     fn profile(&self) -> &ModelProfile {
/// #         &self.0
/// #     }
/// # }
/// # let small = Small(ModelProfile::new("small"), Default::default());
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let cache = ReplyCache::new(Duration::from_secs(600));
/// let model = small.cached(&cache);
/// let request = ChatRequest::new([Message::user("Hi")]);
/// assert_eq!(model.chat(&request).await?.message.text(), "Request 1.");
/// assert_eq!(model.chat(&request).await?.message.text(), "Request 1.");
///
/// cache.clear();
/// assert_eq!(model.chat(&request).await?.message.text(), "Request 2.");
/// # Ok::<(), haft_core::model::ModelError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReplyCache(TtlLru<Key, ChatResponse>);

/// What an earlier request must have had in common with this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    model: u64,
    request: [u8; 32],
}

impl ReplyCache {
    /// Makes a cache whose replies last this long. It keeps [`limits::CACHED_REPLIES`] in [`limits::CACHED_REPLY_BYTES`].
    pub fn new(time_to_live: Duration) -> Self {
        Self(TtlLru::new(time_to_live, limits::CACHED_REPLIES, limits::CACHED_REPLY_BYTES))
    }

    /// Sets how many replies are kept.
    #[must_use]
    pub fn with_entries(self, entries: usize) -> Self {
        Self(self.0.with_max_entries(entries))
    }

    /// Sets how many bytes of replies are kept, as JSON. A reply that is larger by itself is not.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self(self.0.with_max_bytes(bytes))
    }

    /// Forgets all replies, also those that are under way.
    pub fn clear(&self) {
        self.0.clear();
    }

    fn get(&self, key: &Key) -> Option<ChatResponse> {
        let (response, age) = self.0.get(key)?;
        tracing::debug!(?age, "a reply comes from the reply cache");
        let mut response = Arc::unwrap_or_clone(response);
        let requests = response.usage.requests.max(1);
        let cached_input_tokens = response.usage.input_tokens;
        let cost = Cost::ZERO;
        response.usage = Usage { requests, cached_input_tokens, cost, priced: requests, ..response.usage };
        Some(response)
    }

    fn insert(&self, key: Key, response: &ChatResponse, ticket: Ticket) {
        let is_done = matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
        if !is_done || response.message.refusal.is_some() || response.message.is_empty() {
            return;
        }
        let Ok(text) = serde_json::to_vec(response) else { return };
        self.0.insert(key, text.len(), ticket, || response.clone());
    }
}

/// A model whose replies are kept, as [`ModelMiddleware::cached`](crate::ModelMiddleware::cached) makes it.
#[derive(Clone)]
pub struct CachedReplies<M> {
    model: M,
    cache: ReplyCache,
    owner: u64,
}

impl<M: ChatModel> CachedReplies<M> {
    pub(super) fn new(model: M, cache: &ReplyCache) -> Self {
        Self { model, cache: cache.clone(), owner: cache.0.next_owner() }
    }

    fn key(&self, request: &ChatRequest) -> Key {
        let told = json!([request.to_canonical_json(), unnumbered(request)]).to_string();
        Key { model: self.owner, request: Sha256::digest(told).into() }
    }

    /// The reply that is known, or else when the model is asked.
    fn get(&self, request: &ChatRequest) -> Result<ChatResponse, (Key, Ticket)> {
        let key = self.key(request);
        self.cache.get(&key).ok_or_else(|| (key, self.cache.0.ticket()))
    }
}

/// What a provider is sent besides what [`described`] tells: ids as they are, what is its own, all that is said of a result.
fn unnumbered(request: &ChatRequest) -> Vec<Value> {
    let of_message = |body: &MessageBody| match body {
        MessageBody::Assistant(said) => {
            let ids: Vec<_> = said.tool_calls.iter().map(|call| &call.id).collect();
            Some(json!([ids, said.provider_data]))
        }
        MessageBody::Tool(result) => Some(json!([result.call_id, result.model_text()])),
        MessageBody::System { .. } | MessageBody::User { .. } => None,
    };
    request.messages.iter().filter_map(|message| of_message(message.body())).collect()
}

#[async_trait]
impl<M: ChatModel> ChatModel for CachedReplies<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.get(request) {
            Ok(response) => Ok(response),
            Err((key, ticket)) => {
                let response = self.model.chat(request).await?;
                self.cache.insert(key, &response, ticket);
                Ok(response)
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let found = move || match self.get(request) {
            Ok(response) => stream::iter(response.into_events().map(Ok).collect::<Vec<_>>()).boxed(),
            Err((key, ticket)) => {
                let insert = move |event: &Result<ChatEvent, ModelError>| {
                    if let Ok(ChatEvent::Finished(response)) = event {
                        self.cache.insert(key, response, ticket);
                    }
                };
                self.model.stream(request).inspect(insert).boxed()
            }
        };
        stream::once(async move { found() }).flatten().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

#[cfg(test)]
mod tests;

impl<M> std::fmt::Debug for CachedReplies<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedReplies").finish_non_exhaustive()
    }
}
