//! Replies to earlier requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

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

use crate::ttl_lru::{Began, Kept};

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
#[derive(Clone)]
pub struct ReplyCache {
    kept: Kept<Key, ChatResponse>,
    /// How many models there are.
    models: Arc<AtomicU64>,
}

/// What an earlier request must have had in common with this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    model: u64,
    request: [u8; 32],
}

impl ReplyCache {
    /// Makes a cache whose replies last this long. It keeps [`limits::CACHED_REPLIES`] in [`limits::CACHED_REPLY_BYTES`].
    pub fn new(time_to_live: Duration) -> Self {
        let kept = Kept::new(time_to_live, limits::CACHED_REPLIES, limits::CACHED_REPLY_BYTES);
        Self { kept, models: Arc::default() }
    }

    /// Sets how many replies are kept.
    #[must_use]
    pub fn with_entries(mut self, entries: usize) -> Self {
        self.kept.entries = entries;
        self
    }

    /// Sets how many bytes of replies are kept, as JSON. A reply that is larger by itself is not.
    #[must_use]
    pub fn with_bytes(mut self, bytes: usize) -> Self {
        self.kept.bytes = bytes;
        self
    }

    /// Forgets all replies, also those that are under way.
    pub fn clear(&self) {
        self.kept.clear();
    }

    fn find(&self, key: &Key) -> Option<ChatResponse> {
        let (response, age) = self.kept.find(key)?;
        tracing::debug!(?age, "a reply comes from the reply cache");
        let mut response = Arc::unwrap_or_clone(response);
        let requests = response.usage.requests.max(1);
        let cached_input_tokens = response.usage.input_tokens;
        let cost = Cost::ZERO;
        response.usage = Usage { requests, cached_input_tokens, cost, priced: requests, ..response.usage };
        Some(response)
    }

    fn keep(&self, key: Key, response: &ChatResponse, began: Began) {
        let is_done = matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
        if !is_done || response.message.refusal.is_some() || response.message.is_empty() {
            return;
        }
        let Ok(text) = serde_json::to_vec(response) else { return };
        self.kept.keep(key, text.len(), began, || response.clone());
    }
}

/// A model whose replies are kept, as [`ModelMiddleware::cached`](crate::ModelMiddleware::cached) makes it.
#[derive(Clone)]
pub struct CachedReplies<M> {
    model: M,
    cache: ReplyCache,
    number: u64,
}

impl<M: ChatModel> CachedReplies<M> {
    pub(super) fn new(model: M, cache: &ReplyCache) -> Self {
        let number = cache.models.fetch_add(1, Ordering::Relaxed);
        Self { model, cache: cache.clone(), number }
    }

    fn key(&self, request: &ChatRequest) -> Key {
        let told = json!([request.to_canonical_json(), unnumbered(request)]).to_string();
        Key { model: self.number, request: Sha256::digest(told).into() }
    }

    /// The reply that is known, or else when the model is asked.
    fn find(&self, request: &ChatRequest) -> Result<ChatResponse, (Key, Began)> {
        let key = self.key(request);
        self.cache.find(&key).ok_or_else(|| (key, self.cache.kept.begin()))
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
        match self.find(request) {
            Ok(response) => Ok(response),
            Err((key, began)) => {
                let response = self.model.chat(request).await?;
                self.cache.keep(key, &response, began);
                Ok(response)
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let found = move || match self.find(request) {
            Ok(response) => stream::iter(response.into_events().map(Ok).collect::<Vec<_>>()).boxed(),
            Err((key, began)) => {
                let keep = move |event: &Result<ChatEvent, ModelError>| {
                    if let Ok(ChatEvent::Finished(response)) = event {
                        self.cache.keep(key, response, began);
                    }
                };
                self.model.stream(request).inspect(keep).boxed()
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

impl std::fmt::Debug for ReplyCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplyCache").finish_non_exhaustive()
    }
}

impl<M> std::fmt::Debug for CachedReplies<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedReplies").finish_non_exhaustive()
    }
}
