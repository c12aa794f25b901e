use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::awaited::AwaitedResponse;
use crate::call_data::RequestHeaders;

/// The maximum number of streams that are known. The oldest one is forgotten first.
const MAX_STREAMS: usize = 256;

/// The requests whose response streams can be resumed, by the id of the latest event.
///
/// rmcp resumes a broken stream with a request that has this id (`Last-Event-ID`), but not the
/// headers of the call. Without them, the server would reject the request, or assign it to another
/// user.
#[derive(Default)]
pub(super) struct ResumableStreams(Mutex<VecDeque<(String, StreamOwner)>>);

/// The request that an event stream belongs to.
#[derive(Clone)]
pub(super) struct StreamOwner {
    pub(super) awaited: AwaitedResponse,
    /// The headers of the call.
    pub(super) headers: Option<RequestHeaders>,
}

impl ResumableStreams {
    /// Records the event `id` of the stream of `owner`. `previous` is the id of the event before
    /// it.
    pub(super) fn record(&self, id: String, previous: Option<&str>, owner: StreamOwner) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(previous) = previous {
            streams.retain(|(known, _)| known != previous);
        }
        if streams.len() >= MAX_STREAMS {
            streams.pop_front();
        }
        streams.push_back((id, owner));
    }

    /// Returns the request whose stream had the latest event `id`. Returns `None` if there are
    /// several: ids are unique in a session (specification 2025-11-25, transports, "Resumability
    /// and Redelivery"), but some servers number the events of each stream. The headers of one call
    /// must not open the stream of another.
    pub(super) fn owner(&self, id: &str) -> Option<StreamOwner> {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut owners = streams.iter().filter(|(known, _)| known == id).map(|(_, owner)| owner);
        owners.next().filter(|_| owners.next().is_none()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, PingRequest, RequestId};

    use super::{AwaitedResponse, ResumableStreams, StreamOwner};

    #[test]
    fn event_id_of_two_streams_has_no_owner() {
        let owner = |id: i64| {
            let ping = PingRequest::default();
            let message: ClientJsonRpcMessage = JsonRpcMessage::request(ping.into(), RequestId::Number(id));
            StreamOwner { awaited: AwaitedResponse::to(&message).unwrap(), headers: None }
        };
        let streams = ResumableStreams::default();
        streams.record("1".to_owned(), None, owner(1));
        assert!(streams.owner("1").is_some());
        streams.record("1".to_owned(), None, owner(2));
        assert!(streams.owner("1").is_none());
    }
}
