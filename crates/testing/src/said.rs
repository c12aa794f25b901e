use futures::stream::{self, BoxStream, StreamExt as _};

use haft_core::model::{ChatEvent, ChatResponse, ModelError};

/// What a model in a test says to one request.
pub(super) enum Said {
    /// All of it at once.
    Reply(Result<Box<ChatResponse>, ModelError>),
    /// Exactly these pieces.
    Events(Vec<Result<ChatEvent, ModelError>>),
    /// These pieces, and then nothing until the request is dropped.
    Hangs(Vec<Result<ChatEvent, ModelError>>),
}

impl Said {
    pub(super) async fn whole(self) -> Result<ChatResponse, ModelError> {
        match self {
            Self::Reply(reply) => reply.map(|response| *response),
            Self::Hangs(_) => std::future::pending().await,
            Self::Events(events) => {
                for event in events {
                    if let ChatEvent::Finished(response) = event? {
                        return Ok(*response);
                    }
                }
                Err(ModelError::failed("the reply has no end"))
            }
        }
    }

    pub(super) fn stream(self) -> BoxStream<'static, Result<ChatEvent, ModelError>> {
        match self {
            Self::Reply(Ok(response)) => {
                let events: Vec<_> = response.into_events().map(Ok).collect();
                stream::iter(events).boxed()
            }
            Self::Reply(Err(error)) => stream::iter([Err(error)]).boxed(),
            Self::Events(events) => stream::iter(events).boxed(),
            Self::Hangs(events) => stream::iter(events).chain(stream::pending()).boxed(),
        }
    }
}
