//! Events of an open request: progress, and requests of the server that belong to it.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_core::{text::without_hidden_chars, tool::Progress};
use rmcp::model::{
    ClientRequest, GetExtensions as _, GetMeta as _, ProgressNotificationParam, ProgressToken,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::elicitation::Elicitation;

/// The maximum number of queued events per request. Progress reports are dropped while the queue is
/// full.
const EVENT_CAPACITY: usize = 16;

/// An event between a request and its response. The variants are boxed, because the queue of each
/// request has space for several events.
pub(crate) enum CallEvent {
    Progress(Box<Progress>),
    Elicitation(Box<PendingElicitation>),
}

/// An elicitation that the server waits for. Dropping it sends the action `cancel`.
pub(crate) struct PendingElicitation {
    pub(crate) elicitation: Elicitation,
    /// The sender of the `ElicitResult`.
    pub(crate) response: oneshot::Sender<Value>,
}

/// The events of a request in flight.
pub(crate) struct CallEvents {
    receiver: mpsc::Receiver<CallEvent>,
    /// Keeps the channel open. The transport drops its sender just before it delivers the response,
    /// and a closed channel would wake the task of the call an additional time.
    _sender: mpsc::Sender<CallEvent>,
}

impl CallEvents {
    /// Subscribes to the events of `request`.
    ///
    /// Must be called before `request` is sent, because the first event may arrive immediately.
    /// Events are queued before the response is delivered, unless the queue is full.
    pub(crate) fn subscribe(request: &mut ClientRequest) -> Self {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        request.extensions_mut().insert(EventSender(sender.clone()));
        Self { receiver, _sender: sender }
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> CallEvent {
        match self.receiver.recv().await {
            Some(event) => event,
            None => future::pending().await,
        }
    }
}

/// The sender of the events of a [`ClientRequest`]. It is an extension of the request, so it is not
/// serialized. The transport reads the extension when it sends the request.
#[derive(Clone)]
struct EventSender(mpsc::Sender<CallEvent>);

/// The recipient of the events of an open request.
#[derive(Clone)]
pub(crate) struct EventForwarder {
    token: ProgressToken,
    sender: mpsc::Sender<CallEvent>,
    /// `true` if an elicitation may belong to the request.
    is_call: bool,
    /// The number of elicitations of the request without a response.
    elicitations: Arc<AtomicUsize>,
}

/// A request that an elicitation was assigned to.
pub(crate) struct ElicitingRequest(EventForwarder);

impl EventForwarder {
    pub(crate) fn from_request(request: &ClientRequest) -> Option<Self> {
        let EventSender(sender) = request.extensions().get()?;
        let token = request.get_meta().get_progress_token()?;
        let is_call = matches!(
            request,
            ClientRequest::CallToolRequest(_)
                | ClientRequest::ReadResourceRequest(_)
                | ClientRequest::GetPromptRequest(_)
        );
        Some(Self { token, sender: sender.clone(), is_call, elicitations: Arc::default() })
    }

    #[cfg(feature = "http")]
    pub(crate) fn token(&self) -> &ProgressToken {
        &self.token
    }

    /// Returns `true` if the request has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns `true` if an elicitation may belong to this request: it is an open call.
    pub(crate) fn may_elicit(&self) -> bool {
        self.is_call && !self.is_closed()
    }

    /// Returns `true` if an elicitation of this request has no response.
    pub(crate) fn is_eliciting(&self) -> bool {
        self.elicitations.load(Ordering::Relaxed) > 0
    }

    /// Assigns an elicitation to this request, if it has no other one.
    pub(crate) fn assign_first(&self) -> Option<ElicitingRequest> {
        let assigned = self.elicitations.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        assigned.is_ok().then(|| ElicitingRequest(self.clone()))
    }

    /// Assigns an elicitation to this request.
    pub(crate) fn assign(&self) -> ElicitingRequest {
        self.elicitations.fetch_add(1, Ordering::Relaxed);
        ElicitingRequest(self.clone())
    }

    /// Waits until the request has ended.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Forwards `report` if its progress token belongs to the open request.
    pub(crate) fn forward(&self, report: &ProgressNotificationParam) {
        if report.progress_token == self.token {
            let ProgressNotificationParam { progress, total, message, .. } = report;
            let message = message.as_deref().map(|message| without_hidden_chars(message).into_owned());
            let report = Progress { progress: *progress, total: *total, message };
            let _ = self.sender.try_send(CallEvent::Progress(Box::new(report)));
        }
    }
}

impl ElicitingRequest {
    /// Passes `elicitation` to the caller of the request, and waits for the `ElicitResult`. Returns
    /// `None` if the caller drops the elicitation, or if the request ends.
    pub(crate) async fn elicit(self, elicitation: Elicitation) -> Option<Value> {
        let (response, received) = oneshot::channel();
        let event = CallEvent::Elicitation(Box::new(PendingElicitation { elicitation, response }));
        self.0.sender.send(event).await.ok()?;
        received.await.ok()
    }
}

impl Drop for ElicitingRequest {
    fn drop(&mut self) {
        self.0.elicitations.fetch_sub(1, Ordering::Relaxed);
    }
}
