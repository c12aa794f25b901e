//! An LRU cache of model replies.

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

use crate::ttl_lru::{InsertTicket, TtlLru};

/// An LRU cache of model replies, for streamed and non-streamed requests. Clones share the cached
/// replies.
///
/// # Cache key
///
/// A request gets a cached reply if it has the same instructions, messages, tools, tool choice,
/// response format and settings as the original request. The messages are compared with their call
/// ids and provider data, but without timestamps and metadata.
///
/// Replies are cached at any temperature, even if the model would reply differently to each
/// request. Cached replies expire after the time to live, counted from the start of the original
/// request.
///
/// # Not cached
///
/// Replies that are empty, are refusals, or have a finish reason other than `Stop` and `ToolCalls`
/// are not cached. Failed and dropped requests have no reply to cache. Concurrent equal requests
/// are not coalesced: each one is sent.
///
/// # Cached replies
///
/// A cached reply has the same call ids and model name as the original reply. It also has the same
/// usage, so it counts towards the limits of a run. However, all its input tokens are [cached
/// tokens](Usage::cached_input_tokens), and its cost is zero. If a cached reply is streamed, its
/// text is a single event.
///
/// # Privacy
///
/// The cache key contains no principal, so all users share the cached replies. A user gets a cached
/// reply only for an equal request. However, the short response time reveals an earlier equal
/// request, possibly of another user. If this is a concern, use one cache per tenant.
///
/// # Placement
///
/// Each call to [`cached`](crate::ModelMiddleware::cached) returns a model with its own cached
/// replies, even if two models have the same name. Call `cached` only once per model, and share
/// clones of the returned model. Wrap each model of a [`FallbackModel`](super::FallbackModel)
/// separately: a cache around the `FallbackModel` would still return replies of the fallback after
/// the first model has recovered.
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
/// #         Ok(ChatResponse { usage: Usage::one_request(1_000, 100), ..ChatResponse::new(format!("Request {nth}.")) })
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

/// The cache key of a reply. `model` is the `owner_id` of the [`CachedModel`], and `request` is
/// the SHA-256 digest of the request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    model: u64,
    request: [u8; 32],
}

impl ReplyCache {
    /// Creates a cache in which replies expire after `time_to_live`. By default, it holds at most
    /// [`limits::REPLY_CACHE_ENTRIES`] replies with a total size of [`limits::REPLY_CACHE_BYTES`]
    /// bytes.
    pub fn new(time_to_live: Duration) -> Self {
        Self(TtlLru::new(time_to_live, limits::REPLY_CACHE_ENTRIES, limits::REPLY_CACHE_BYTES))
    }

    /// Sets the maximum number of cached replies.
    #[must_use]
    pub fn with_max_entries(self, entries: usize) -> Self {
        Self(self.0.with_max_entries(entries))
    }

    /// Sets the maximum total size of the cached replies, in bytes of JSON. A single reply above
    /// this size is not cached.
    #[must_use]
    pub fn with_max_bytes(self, bytes: usize) -> Self {
        Self(self.0.with_max_bytes(bytes))
    }

    /// Removes all cached replies. Replies to requests in progress will not be cached either.
    pub fn clear(&self) {
        self.0.clear();
    }

    fn get(&self, key: &Key) -> Option<ChatResponse> {
        let (response, age) = self.0.get(key)?;
        tracing::debug!(?age, "returned a cached reply");
        let mut response = Arc::unwrap_or_clone(response);
        let requests = response.usage.requests.max(1);
        let cached_input_tokens = response.usage.input_tokens;
        let cost = Cost::ZERO;
        response.usage =
            Usage { requests, cached_input_tokens, cost, priced_requests: requests, ..response.usage };
        Some(response)
    }

    fn insert(&self, key: Key, response: &ChatResponse, ticket: InsertTicket) {
        let is_done = matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
        if !is_done || response.message.refusal.is_some() || response.message.is_empty() {
            return;
        }
        let Ok(text) = serde_json::to_vec(response) else { return };
        self.0.insert_if_current(key, text.len(), ticket, || response.clone());
    }
}

/// A model that returns cached replies, created by
/// [`ModelMiddleware::cached`](crate::ModelMiddleware::cached).
#[derive(Clone)]
pub struct CachedModel<M> {
    model: M,
    cache: ReplyCache,
    /// A number that identifies this model in the cache.
    owner_id: u64,
}

impl<M: ChatModel> CachedModel<M> {
    pub(super) fn new(model: M, cache: &ReplyCache) -> Self {
        Self { model, cache: cache.clone(), owner_id: cache.0.next_owner() }
    }

    fn cache_key(&self, request: &ChatRequest) -> Key {
        let text = json!([request.to_canonical_json(), provider_parts(request)]).to_string();
        Key { model: self.owner_id, request: Sha256::digest(text).into() }
    }

    /// Returns the cached reply to `request`. If there is none, the `Err` contains the key and the
    /// ticket with which a new reply is inserted.
    fn look_up(&self, request: &ChatRequest) -> Result<ChatResponse, (Key, InsertTicket)> {
        let key = self.cache_key(request);
        self.cache.get(&key).ok_or_else(|| (key, self.cache.0.issue_ticket()))
    }
}

/// Returns the parts of `request` that complete its cache key. They are sent to the server, but
/// [`ChatRequest::to_canonical_json`] omits or replaces them: call ids and provider data.
fn provider_parts(request: &ChatRequest) -> Vec<Value> {
    let of_message = |body: &MessageBody| match body {
        MessageBody::Assistant(reply) => {
            let ids: Vec<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
            Some(json!([ids, reply.provider_data]))
        }
        MessageBody::Tool(result) => Some(json!(result.call_id)),
        MessageBody::System { .. } | MessageBody::User { .. } => None,
    };
    request.messages.iter().filter_map(|message| of_message(message.body())).collect()
}

#[async_trait]
impl<M: ChatModel> ChatModel for CachedModel<M> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.look_up(request) {
            Ok(response) => Ok(response),
            Err((key, ticket)) => {
                let response = self.model.chat(request).await?;
                self.cache.insert(key, &response, ticket);
                Ok(response)
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = move || match self.look_up(request) {
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
        stream::once(async move { events() }).flatten().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

impl<M> std::fmt::Debug for CachedModel<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedModel").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
