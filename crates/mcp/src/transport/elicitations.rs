use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::future;
use rmcp::model::RequestId;
use serde_json::{Value, value::RawValue};
use tokio::time::timeout;

use super::{ElicitingRequest, EventForwarder, envelope::Envelope};
use crate::elicitation::Elicitation;

/// The maximum number of elicitations that the transport has read, and the client has not handled
/// yet. The oldest one is then dropped, and is cancelled.
const MAX_ELICITATIONS: usize = 64;
/// The maximum length of the parameters of an elicitation, in bytes.
const MAX_PARAMS_BYTES: usize = 256 << 10;
/// The maximum time to wait until only one of several calls is open. A person needs longer to
/// answer.
const MAX_ASSIGNMENT_DELAY: Duration = Duration::from_secs(1);

/// The elicitations that the transport has read, by request id.
///
/// The transport knows which call an elicitation belongs to, and the unchanged schema.
/// rmcp passes the same request to [`RequestHandler`](crate::session) afterwards, which takes the
/// elicitation from here.
#[derive(Default)]
pub(crate) struct Elicitations(Mutex<VecDeque<(RequestId, ReceivedElicitation)>>);

/// An elicitation, and the calls that it may belong to.
pub(crate) struct ReceivedElicitation {
    /// The elicitation, or the fault in its parameters.
    pub(crate) elicitation: Result<Elicitation, String>,
    /// The calls that it may belong to, the latest first.
    pub(crate) calls: Vec<EventForwarder>,
}

impl ReceivedElicitation {
    /// Assigns the elicitation to a call. A call without another elicitation is preferred. If there
    /// are several, waits until all but one have ended, and at most for [`MAX_ASSIGNMENT_DELAY`].
    /// Then chooses the latest. Returns no call if none is open.
    pub(crate) async fn assign(mut self) -> (Result<Elicitation, String>, Option<ElicitingRequest>) {
        let unambiguous = async {
            loop {
                self.calls.retain(EventForwarder::may_elicit);
                if self.calls.iter().filter(|call| !call.is_eliciting()).count() <= 1 {
                    return;
                }
                future::select_all(self.calls.iter().map(|call| Box::pin(call.closed()))).await;
            }
        };
        let _ = timeout(MAX_ASSIGNMENT_DELAY, unambiguous).await;
        self.calls.retain(EventForwarder::may_elicit);
        let first = self.calls.iter().find_map(EventForwarder::assign_first);
        let call = first.or_else(|| self.calls.first().map(EventForwarder::assign));
        (self.elicitation, call)
    }
}

impl Elicitations {
    /// Records the elicitation in `message`, which may belong to one of `calls`.
    pub(crate) fn record(&self, message: &Envelope<'_>, calls: Vec<EventForwarder>) {
        let Some(id) = message.id.clone() else { return };
        let params = message.params.map_or("null", RawValue::get);
        let elicitation = if params.len() > MAX_PARAMS_BYTES {
            Err(format!("the parameters exceed {MAX_PARAMS_BYTES} bytes"))
        } else {
            let params = serde_json::from_str::<Value>(params).map_err(|error| error.to_string());
            params.and_then(|params| Elicitation::parse(&params))
        };
        let received = ReceivedElicitation { elicitation, calls };
        let mut elicitations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if elicitations.len() >= MAX_ELICITATIONS {
            elicitations.pop_front();
        }
        elicitations.push_back((id, received));
    }

    pub(crate) fn remove(&self, id: &RequestId) -> Option<ReceivedElicitation> {
        let mut elicitations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = elicitations.iter().position(|(known, _)| known == id)?;
        elicitations.remove(index).map(|(_, received)| received)
    }
}
