use futures::stream::{self, BoxStream, StreamExt as _};

use haft_core::model::{ChatEvent, ChatResponse, ModelError};

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
            Self::Events(events) => {
                for event in events {
                    if let ChatEvent::Finished(response) = event? {
                        return Ok(*response);
                    }
                }
                Err(ModelError::failed("the stream ended before the reply"))
            }
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
