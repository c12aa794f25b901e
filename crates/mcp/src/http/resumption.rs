use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::call_data::RequestHeaders;

/// The maximum number of streams with headers of a call. The oldest one is forgotten first.
const MAX_STREAMS: usize = 256;

/// The headers of the calls whose response streams can be resumed, by the id of the latest event.
///
/// rmcp resumes a broken stream with a request that has this id (`Last-Event-ID`), but not the
/// headers of the call. Without them, the server would reject the request, or assign it to another
/// user.
#[derive(Default)]
pub(super) struct ResumableStreams(Mutex<VecDeque<(String, RequestHeaders)>>);

impl ResumableStreams {
    /// Records the event `id` of a stream of a call with `headers`. `previous` is the id of the
    /// event before it.
    pub(super) fn record(&self, id: String, previous: Option<&str>, headers: RequestHeaders) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(previous) = previous {
            streams.retain(|(known, _)| known != previous);
        }
        if streams.len() >= MAX_STREAMS {
            streams.pop_front();
        }
        streams.push_back((id, headers));
    }

    /// Returns the headers of the call whose stream had the latest event `id`.
    pub(super) fn headers(&self, id: &str) -> Option<RequestHeaders> {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().rev().find(|(known, _)| known == id).map(|(_, headers)| headers.clone())
    }
}
