use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use rmcp::model::RequestId;
use serde_json::{Value, value::RawValue};

use super::{EventForwarder, envelope::Envelope};
use crate::elicitation::Elicitation;

/// The maximum number of elicitations that the transport has read, and the client has not handled
/// yet. Further elicitations are cancelled.
const MAX_ELICITATIONS: usize = 256;

/// The elicitations that the transport has read, by request id.
///
/// The transport knows which call an elicitation belongs to, and the unchanged schema. The
/// [handler](crate::session) of the client receives the same request from rmcp afterwards, and
/// takes the elicitation from this map.
#[derive(Default)]
pub(crate) struct Elicitations(Mutex<HashMap<RequestId, ReceivedElicitation>>);

/// An elicitation, and the call that it belongs to.
pub(crate) struct ReceivedElicitation {
    /// The elicitation, or the fault in its parameters.
    pub(crate) elicitation: Result<Elicitation, String>,
    /// The call. `None` if no call is open.
    pub(crate) call: Option<EventForwarder>,
}

impl Elicitations {
    /// Records the elicitation in `message`, which belongs to `call`.
    pub(crate) fn record(&self, message: &Envelope<'_>, call: impl FnOnce() -> Option<EventForwarder>) {
        let Some(id) = message.id.clone() else { return };
        let params = message.params.map_or("null", RawValue::get);
        let params = serde_json::from_str::<Value>(params).map_err(|error| error.to_string());
        let elicitation = params.and_then(|params| Elicitation::parse(&params));
        let received = ReceivedElicitation { elicitation, call: call() };
        let mut elicitations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if elicitations.len() < MAX_ELICITATIONS {
            elicitations.insert(id, received);
        }
    }

    pub(crate) fn remove(&self, id: &RequestId) -> Option<ReceivedElicitation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}
