use futures::stream::{self, BoxStream, StreamExt as _};

use haft_core::{
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, ModelError},
};

/// The reply to a model request, from a script or a cassette.
pub(super) enum ScriptedReply {
    /// A complete reply or an error. It is available immediately.
    Complete(Result<Box<ChatResponse>, ModelError>),
    /// The events of a streamed reply. The sequence may be malformed: for example, the final event
    /// may be missing.
    Events(Vec<Result<ChatEvent, ModelError>>),
    /// A reply that never completes. A stream yields these events and then stays pending until it
    /// is dropped. A call to `chat` stays pending from the start.
    Hangs(Vec<Result<ChatEvent, ModelError>>),
}

impl ScriptedReply {
    pub(super) async fn into_response(self) -> Result<ChatResponse, ModelError> {
        match self {
            Self::Complete(reply) => reply.map(|response| *response),
            Self::Hangs(_) => std::future::pending().await,
            Self::Events(events) => complete_reply(events),
        }
    }

    pub(super) fn into_stream(self) -> BoxStream<'static, Result<ChatEvent, ModelError>> {
        match self {
            Self::Complete(Ok(response)) => {
                let events: Vec<_> = response.into_events().map(Ok).collect();
                stream::iter(events).boxed()
            }
            Self::Complete(Err(error)) => stream::iter([Err(error)]).boxed(),
            Self::Events(events) => stream::iter(events).boxed(),
            Self::Hangs(events) => stream::iter(events).chain(stream::pending()).boxed(),
        }
    }
}

/// Returns the complete reply in `events`. Like an agent that reads the stream, returns
/// [`ModelError::Truncated`] if `events` has no end, or if a temporary error follows another event.
fn complete_reply(events: Vec<Result<ChatEvent, ModelError>>) -> Result<ChatResponse, ModelError> {
    let mut received: Option<String> = None;
    for event in events {
        match (event, &received) {
            (Ok(ChatEvent::Finished(response)), _) => return Ok(*response),
            (Ok(event), _) => {
                let text = received.get_or_insert_default();
                if let ChatEvent::TextDelta { text: delta } = event {
                    text.push_str(&delta);
                }
            }
            (
                Err(
                    error @ (ModelError::Server { .. }
                    | ModelError::RateLimited { permanent: false, .. }
                    | ModelError::Unreachable { .. }),
                ),
                Some(received),
            ) => return Err(truncated_error(error.to_string(), received.clone())),
            (Err(error), _) => return Err(error),
        }
    }
    Err(truncated_error("the stream ended before the reply".to_owned(), received.unwrap_or_default()))
}

fn truncated_error(reason: String, received: String) -> ModelError {
    let partial = if received.is_empty() { AssistantMessage::default() } else { received.into() };
    ModelError::Truncated { reason, partial: Box::new(partial) }
}
