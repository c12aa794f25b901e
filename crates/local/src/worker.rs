//! The thread of a model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;

use haft_core::model::{ChatRequest, ModelError};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use crate::LoadError;
use crate::engine::Engine;
use crate::profile::PromptProfile;
use crate::respond::{EventReceiver, EventSender, respond};
use crate::store::identify_model;

/// The maximum number of queued requests. [`Worker::submit`] waits while the queue is full.
const QUEUE_CAPACITY: usize = 16;
/// The stack size of the model thread in bytes. The size is large because the grammar and schema
/// libraries are recursive. Memory is allocated only for the used part of the stack.
const STACK_BYTES: usize = 64 << 20;

/// A handle to the thread of a model. After the handle is dropped, the thread processes the queued
/// requests and ends.
pub(crate) struct Worker {
    queue: mpsc::Sender<QueuedRequest>,
    context: usize,
}

struct QueuedRequest {
    request: ChatRequest,
    events: EventSender,
}

impl Worker {
    /// Starts the thread and loads the model on it. Calls `progress` with the fraction of the
    /// weights loaded so far, from 0 to 1. If `profile` is `None`, the thread uses the profile of
    /// the catalogue model with the SHA-256 of the file, or [`PromptProfile::template`] if there is
    /// no such model.
    pub(crate) async fn start(
        path: PathBuf,
        profile: Option<PromptProfile>,
        mut progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (loaded, loading) = oneshot::channel();
        let run = move || match Engine::load(&path, &mut progress) {
            Ok(engine) => {
                let profile = profile.unwrap_or_else(|| {
                    identify_model(&path).map_or(PromptProfile::template(), PromptProfile::for_model)
                });
                debug!(?profile, "loaded");
                drop(progress);
                if loaded.send(Ok(engine.context_length())).is_ok() {
                    serve(engine, &profile, queue);
                }
            }
            Err(error) => drop(loaded.send(Err(error))),
        };
        let thread = thread::Builder::new().name("haft-local".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|source| LoadError::ThreadNotSpawned { source })?;
        let context = loading.await.unwrap_or(Err(LoadError::Crashed))?;
        Ok(Self { queue: sender, context })
    }

    /// Returns the size of the context window in tokens.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Queues `request` and returns the receiver of its events. Dropping the receiver cancels the
    /// request.
    pub(crate) async fn submit(&self, request: ChatRequest) -> Result<EventReceiver, ModelError> {
        let (sender, events) = EventSender::new(self.context);
        let request = QueuedRequest { request, events: sender };
        self.queue.send(request).await.map_err(|_| worker_stopped())?;
        Ok(events)
    }
}

/// Returns the error for a request to a model whose thread has ended. While the [`Worker`] exists,
/// the thread ends only if it crashes.
pub(crate) fn worker_stopped() -> ModelError {
    ModelError::Failed { message: "the thread of the model has ended".to_owned(), source: None }
}

fn serve(mut engine: Engine, profile: &PromptProfile, mut queue: mpsc::Receiver<QueuedRequest>) {
    while let Some(QueuedRequest { request, events }) = queue.blocking_recv() {
        // A panic in a dependency fails only this request. The key-value cache is cleared, because
        // the panic may have left it inconsistent.
        let reply = catch_unwind(AssertUnwindSafe(|| respond(&mut engine, profile, &request, &events)));
        let reply = reply.unwrap_or_else(|_| {
            engine.clear_cache();
            Err(ModelError::Failed { message: "the model crashed on this request".to_owned(), source: None })
        });
        events.finish(reply);
    }
}
