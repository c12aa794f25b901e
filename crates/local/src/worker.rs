//! The thread that a model runs on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;

use haft_core::{ChatEvent, ChatRequest, ModelError};
use tokio::sync::{mpsc, oneshot};

use crate::LoadError;
use crate::engine::Engine;
use crate::respond::{Outlet, respond};

/// Requests that wait for their turn; more wait in their callers.
const QUEUE: usize = 16;
/// Events that a slow reader may be behind.
const EVENTS: usize = 64;

/// The events of one reply.
pub(crate) type Events = mpsc::Receiver<Result<ChatEvent, ModelError>>;

/// A handle to the thread. When it is dropped, the thread ends.
pub(crate) struct Worker {
    orders: mpsc::Sender<Order>,
}

struct Order {
    request: ChatRequest,
    outlet: Outlet,
}

impl Worker {
    /// Starts the thread and loads the model on it. Returns the handle and the size of the model's context.
    pub(crate) async fn start(
        path: PathBuf,
        mut progress: impl FnMut(f32) + Send + 'static,
    ) -> Result<(Self, usize), LoadError> {
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
        let thread = thread::Builder::new().name("haft-local".to_owned());
        thread.spawn(run).map_err(|source| LoadError::Thread { source })?;
        let context = loading.await.unwrap_or(Err(LoadError::Crashed))?;
        Ok((Self { orders }, context))
    }

    /// Hands in a request. Dropping the events gives it up.
    pub(crate) async fn ask(&self, request: ChatRequest) -> Result<Events, ModelError> {
        let (sender, events) = mpsc::channel(EVENTS);
        let order = Order { request, outlet: Outlet::new(sender) };
        self.orders.send(order).await.map_err(|_| gone())?;
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
