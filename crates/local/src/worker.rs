//! The thread of a model.

mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use haft_core::model::{ChatRequest, ModelError};
use tokio::sync::oneshot;
use tracing::debug;

pub(crate) use self::queue::PendingReply;
use self::queue::Queue;
use crate::LoadError;
use crate::engine::{Engine, EngineOptions};
use crate::profile::PromptProfile;
use crate::respond::{EventSender, encode_with_other_question, respond};
use crate::store::identify_model;

/// The stack size of the model thread in bytes. The size is large because the grammar and schema
/// libraries are recursive. Memory is allocated only for the used part of the stack.
const STACK_BYTES: usize = 64 << 20;

/// A handle to the thread of a model. After the handle is dropped, the thread processes the queued
/// requests and ends.
pub(crate) struct Worker {
    queue: Arc<Queue<QueuedRequest>>,
    context: usize,
}

/// A request that waits for the thread of the model.
pub(crate) struct QueuedRequest {
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
        options: EngineOptions,
        mut progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let queue = Arc::new(Queue::new());
        let requests = queue.receiver();
        let (loaded, loading) = oneshot::channel();
        let run = move || match Engine::load(&path, options, &mut progress) {
            Ok(engine) => {
                let profile = profile.unwrap_or_else(|| {
                    identify_model(&path).map_or(PromptProfile::template(), PromptProfile::for_model)
                });
                debug!(?profile, "loaded");
                drop(progress);
                if loaded.send(Ok(engine.context_length())).is_ok() {
                    serve(engine, &profile, &requests);
                }
            }
            Err(error) => drop(loaded.send(Err(error))),
        };
        let thread = thread::Builder::new().name("haft-local".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|source| LoadError::ThreadNotSpawned { source })?;
        let context = loading.await.unwrap_or(Err(LoadError::Crashed))?;
        Ok(Self { queue, context })
    }

    /// Returns the size of the context window in tokens.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Queues `request` and returns its pending reply. Waits while the queue is full. Dropping the
    /// pending reply cancels the request.
    pub(crate) async fn submit(&self, request: ChatRequest) -> Result<PendingReply, ModelError> {
        let (sender, events) = EventSender::new(self.context);
        let request = QueuedRequest { request, events: sender };
        let ticket = self.queue.push(request).await.ok_or_else(worker_stopped)?;
        Ok(PendingReply::new(events, ticket))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Returns the error for a request to a model whose thread has ended. While the [`Worker`] exists,
/// the thread ends only if it crashes.
pub(crate) fn worker_stopped() -> ModelError {
    ModelError::Failed { message: "the thread of the model has ended".to_owned(), source: None }
}

fn serve(mut engine: Engine, profile: &PromptProfile, requests: &queue::Receiver<QueuedRequest>) {
    while let Some(QueuedRequest { request, events }) = requests.pop() {
        // A panic in a dependency fails only this request. The key-value cache is cleared, because
        // the panic may have left it inconsistent.
        let reply = catch_unwind(AssertUnwindSafe(|| {
            let reply = respond(&mut engine, profile, &request, &events);
            store_prefix(&mut engine, profile, &request);
            reply
        }));
        let reply = reply.unwrap_or_else(|_| {
            engine.clear_cache();
            Err(ModelError::Failed { message: "the model crashed on this request".to_owned(), source: None })
        });
        events.finish(reply);
    }
}

/// Stores the instructions and tools of `request` in the prefix cache, if many of their tokens were
/// evaluated. All text of the reply has been sent. The end of the reply is sent afterwards, because
/// a program may exit when it receives the end.
fn store_prefix(engine: &mut Engine, profile: &PromptProfile, request: &ChatRequest) {
    if engine.has_prefix_to_store() {
        let prompt = encode_with_other_question(engine, profile, request);
        engine.store_prefix(prompt.as_deref());
    }
}
