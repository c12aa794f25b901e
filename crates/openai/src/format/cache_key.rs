use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use haft_core::{Message, model::ChatRequest};

/// The hash of a message, cached in the message.
struct MessageHash(u64);

/// Returns the value of `prompt_cache_key` for `request`: equal for all requests of a conversation,
/// whose instructions and first message stay the same. OpenAI sends requests with the same key and
/// prefix to the same machine, at most about 15 requests a minute, so conversations have keys of
/// their own.
///
/// Source: OpenAI's guide to prompt caching.
pub(crate) fn cache_key(request: &ChatRequest) -> String {
    let mut hasher = DefaultHasher::new();
    let first = request.messages.iter().next();
    for message in request.instructions.iter().chain(first) {
        message.memoize(MessageHash::new).0.hash(&mut hasher);
    }
    format!("haft-{:016x}", hasher.finish())
}

impl MessageHash {
    fn new(message: &Message) -> Self {
        let mut hasher = DefaultHasher::new();
        message.text().hash(&mut hasher);
        Self(hasher.finish())
    }
}
