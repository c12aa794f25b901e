//! The thread that a model runs on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;

use haft_core::model::{ChatRequest, ModelError};
use tokio::sync::{mpsc, oneshot};

use crate::LoadError;
use crate::engine::Engine;
use crate::respond::{Events, Outlet, respond};

/// Requests that wait for their turn; more wait in their callers.
const QUEUE: usize = 16;
/// The libraries walk schemas and grammars by recursion. Memory is taken only where it is touched.
const STACK: usize = 64 << 20;

/// A handle to the thread. When it is dropped, the thread ends.
pub(crate) struct Worker {
    orders: mpsc::Sender<Order>,
    context: usize,
}

struct Order {
    request: ChatRequest,
    outlet: Outlet,
}

impl Worker {
    /// Starts the thread and loads the model on it.
    pub(crate) async fn start(
        path: PathBuf,
        mut progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let (loaded, loading) = oneshot::channel();
        let run = move || match Engine::load(&path, &mut progress) {
            Ok(engine) => {
                // The progress may hold a bar that is to disappear now.
                drop(progress);
                if loaded.send(Ok(engine.context())).is_ok() {
                    work(engine, queue);
                }
            }
            Err(error) => drop(loaded.send(Err(error))),
        };
        let thread = thread::Builder::new().name("haft-local".to_owned()).stack_size(STACK);
        thread.spawn(run).map_err(|source| LoadError::Thread { source })?;
        let context = loading.await.unwrap_or(Err(LoadError::Crashed))?;
        Ok(Self { orders, context })
    }

    /// How many tokens a prompt and its reply can have together.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Hands in a request. Dropping the events gives it up.
    pub(crate) async fn ask(&self, request: ChatRequest) -> Result<Events, ModelError> {
        let (outlet, events) = Outlet::new(self.context);
        self.orders.send(Order { request, outlet }).await.map_err(|_| gone())?;
        Ok(events)
    }
}

/// The thread of the model has ended, which only a crash does while a handle is there.
pub(crate) fn gone() -> ModelError {
    ModelError::Failed { message: "the thread of the model has ended".to_owned(), source: None }
}

fn work(mut engine: Engine, mut queue: mpsc::Receiver<Order>) {
    while let Some(Order { request, outlet }) = queue.blocking_recv() {
        // A panic in the libraries below costs the request, not the model. What it left in the cache is forgotten.
        let reply = catch_unwind(AssertUnwindSafe(|| respond(&mut engine, &request, &outlet)));
        let reply = reply.unwrap_or_else(|_| {
            engine.forget();
            Err(ModelError::Failed { message: "the model crashed on this request".to_owned(), source: None })
        });
        outlet.finish(reply);
    }
}
