//! The queue of requests to a model.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use haft_core::model::{ChatEvent, ModelError};
use tokio::sync::Semaphore;

use super::QueuedRequest;
use crate::respond::EventReceiver;

/// The maximum number of queued requests. [`Queue::push`] waits while the queue is full.
const QUEUE_CAPACITY: usize = 16;

/// A bounded queue, in the order of arrival. The order includes the callers that wait in
/// [`push`](Self::push).
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    /// Notified of each new item and of the end of the queue.
    changed: Condvar,
    /// The free places, as permits. Waiting callers get a permit in the order of arrival.
    places: Semaphore,
}

struct State<T> {
    items: VecDeque<(u64, T)>,
    next_id: u64,
    is_closed: bool,
}

/// The place of an item in the queue. Dropping the ticket removes the item, unless the receiver has
/// already taken it.
#[must_use]
pub(super) struct Ticket<T> {
    queue: Weak<Queue<T>>,
    id: u64,
}

/// The end of the queue on the thread of the model. Dropping it closes the queue.
pub(super) struct Receiver<T>(Arc<Queue<T>>);

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State { items: VecDeque::new(), next_id: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), places: Semaphore::new(QUEUE_CAPACITY) }
    }

    pub(super) fn receiver(self: &Arc<Self>) -> Receiver<T> {
        Receiver(Arc::clone(self))
    }

    /// Appends `item`. Waits while the queue is full. Returns `None` if the queue is closed.
    pub(super) async fn push(self: &Arc<Self>, item: T) -> Option<Ticket<T>> {
        self.places.acquire().await.ok()?.forget();
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.items.push_back((id, item));
        drop(state);
        self.changed.notify_one();
        Some(Ticket { queue: Arc::downgrade(self), id })
    }

    /// Closes the queue. The receiver gets the remaining items.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.places.close();
        self.changed.notify_one();
    }

    /// Removes the item with `id`, if it is still in the queue.
    fn remove(&self, id: u64) {
        let mut state = self.lock();
        let place = state.items.iter().position(|(other, _)| *other == id);
        let item = place.and_then(|place| state.items.remove(place));
        drop(state);
        if item.is_some() {
            self.places.add_permits(1);
        }
    }

    /// A panic never happens while the lock is held, so a poisoned lock has a consistent state.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Receiver<T> {
    /// Removes the first item. Blocks while the queue is empty. Returns `None` if the queue is
    /// empty and closed.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.0.lock();
        loop {
            if let Some((_, item)) = state.items.pop_front() {
                drop(state);
                self.0.places.add_permits(1);
                return Some(item);
            }
            if state.is_closed {
                return None;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
        // The remaining items are never processed. Their callers get an error.
        self.0.lock().items.clear();
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.remove(self.id);
        }
    }
}

/// The reply to a queued request. Dropping it removes the request from the queue, or cancels the
/// reply before its next token.
pub(crate) struct PendingReply {
    events: EventReceiver,
    _ticket: Ticket<QueuedRequest>,
}

impl PendingReply {
    pub(super) fn new(events: EventReceiver, ticket: Ticket<QueuedRequest>) -> Self {
        Self { events, _ticket: ticket }
    }

    /// Returns the next event of the reply, or `None` after the last one.
    pub(crate) async fn recv(&mut self) -> Option<Result<ChatEvent, ModelError>> {
        self.events.recv().await
    }
}
