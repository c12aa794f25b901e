//! The store for tool outputs that are too long for the model.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use crate::{
    call::{BoxError, ToolOutput},
    limits,
    tool::ToolContext,
};

/// A store for tool outputs that are too long for the model. Stored outputs are retrieved by
/// handle.
///
/// The owner of an output is the principal of its call, or the run if the call has no principal.
/// The store must return an output only to its owner. All callers without a principal and without a
/// run count as the same owner, so their outputs are protected only by unpredictable handles.
///
/// # Examples
///
/// A store that logs all handles:
///
/// ```
/// use std::sync::Arc;
/// use haft_core::{
///     Pipeline, ToolContext, ToolOutput,
///     call::BoxError,
///     export::async_trait,
///     pipeline::{MemoryResultStore, ResultStore},
/// };
///
/// #[derive(Default)]
/// struct LoggedStore(MemoryResultStore);
///
/// #[async_trait]
/// impl ResultStore for LoggedStore {
///     async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError> {
///         let handle = self.0.put(output, cx).await?;
///         println!("{handle}: {} bytes", output.byte_len());
///         Ok(handle)
///     }
///
///     async fn get(
///         &self,
///         handle: &str,
///         cx: &ToolContext,
///     ) -> Result<Option<Arc<ToolOutput>>, BoxError> {
///         self.0.get(handle, cx).await
///     }
/// }
///
/// let pipeline = Pipeline::new().with_store(LoggedStore::default());
/// assert!(pipeline.store().is_some());
/// ```
#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Stores `output` for the caller identified by `cx`, and returns its handle.
    ///
    /// The handle must be unique, short enough for a model to repeat, and unpredictable.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be stored. The result of the call then contains a note about the
    /// failure.
    async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError>;

    /// Returns the output stored under `handle`. `None` if the output does not exist, was evicted,
    /// or belongs to an owner other than the caller identified by `cx`.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    async fn get(&self, handle: &str, cx: &ToolContext) -> Result<Option<Arc<ToolOutput>>, BoxError>;

    /// Returns the handles of all outputs that belong to the caller identified by `cx`, oldest
    /// first. An error message about an unknown handle lists the newest of these handles.
    ///
    /// The default implementation returns no handles. A store must return no handles to callers
    /// without a principal and without a run.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    async fn handles(&self, _cx: &ToolContext) -> Result<Vec<String>, BoxError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl<S: ResultStore + ?Sized> ResultStore for Arc<S> {
    async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError> {
        S::put(self, output, cx).await
    }

    async fn get(&self, handle: &str, cx: &ToolContext) -> Result<Option<Arc<ToolOutput>>, BoxError> {
        S::get(self, handle, cx).await
    }

    async fn handles(&self, cx: &ToolContext) -> Result<Vec<String>, BoxError> {
        S::handles(self, cx).await
    }
}

/// An in-memory [`ResultStore`]. If its capacity is exceeded, the oldest outputs are evicted.
pub struct MemoryResultStore {
    max_bytes: usize,
    /// The randomly seeded hasher that makes handles unpredictable. `None` for numbered handles.
    hasher: Option<RandomState>,
    outputs: Mutex<StoredOutputs>,
}

#[derive(Default)]
struct StoredOutputs {
    /// The stored outputs, oldest first. A linear search is fast enough, because the outputs are
    /// large and therefore few: 2,048 texts of the default output limit fill a store of the default
    /// capacity.
    by_handle: VecDeque<StoredOutput>,
    bytes: usize,
    /// The number of outputs stored so far, including evicted outputs.
    put_count: u64,
}

struct StoredOutput {
    handle: String,
    output: Arc<ToolOutput>,
    bytes: usize,
    owner: Owner,
}

/// The owner of a stored output. Only this owner can read the output.
#[derive(PartialEq)]
enum Owner {
    Principal(String),
    Run(String),
}

impl Owner {
    fn of(cx: &ToolContext) -> Self {
        match cx.principal() {
            Some(principal) => Self::Principal(principal.id.clone()),
            None => Self::Run(cx.run_id().to_owned()),
        }
    }
}

impl MemoryResultStore {
    /// Creates a store with a capacity of `max_bytes` bytes. Text, media, structured data and
    /// warnings are counted.
    ///
    /// The newest output is kept even if it alone exceeds the capacity.
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self { max_bytes, hasher: Some(RandomState::new()), outputs: Mutex::default() }
    }

    /// Switches to numbered handles, for reproducible tests such as the replay of a recorded
    /// conversation.
    ///
    /// Numbered handles are predictable. Do not use them in production: the outputs of callers
    /// without a principal and without a run are protected only by unpredictable handles.
    #[must_use]
    pub fn with_numbered_handles(mut self) -> Self {
        self.hasher = None;
        self
    }
}

/// The default store has a capacity of [`limits::RESULT_STORE_BYTES`] bytes.
impl Default for MemoryResultStore {
    fn default() -> Self {
        Self::with_max_bytes(limits::RESULT_STORE_BYTES)
    }
}

#[async_trait]
impl ResultStore for MemoryResultStore {
    async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError> {
        let bytes = output.byte_len();
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.put_count += 1;
        let id = self.hasher.as_ref().map_or(outputs.put_count, |hasher| hasher.hash_one(outputs.put_count));
        let handle = format!("result_{id:016x}");
        let (output, owner) = (Arc::new(output.clone()), Owner::of(cx));
        outputs.by_handle.push_back(StoredOutput { handle: handle.clone(), output, bytes, owner });
        outputs.bytes += bytes;
        while outputs.bytes > self.max_bytes && outputs.by_handle.len() > 1 {
            let Some(evicted) = outputs.by_handle.pop_front() else { break };
            outputs.bytes -= evicted.bytes;
        }
        Ok(handle)
    }

    async fn get(&self, handle: &str, cx: &ToolContext) -> Result<Option<Arc<ToolOutput>>, BoxError> {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = Owner::of(cx);
        let entry = outputs.by_handle.iter().find(|entry| entry.handle == handle && entry.owner == owner);
        Ok(entry.map(|entry| Arc::clone(&entry.output)))
    }

    async fn handles(&self, cx: &ToolContext) -> Result<Vec<String>, BoxError> {
        // Callers without a principal and without a run share one owner, but may be different
        // users. They must not see each other's handles.
        if cx.principal().is_none() && cx.run_id().is_empty() {
            return Ok(Vec::new());
        }
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = Owner::of(cx);
        let own = outputs.by_handle.iter().filter(|entry| entry.owner == owner);
        Ok(own.map(|entry| entry.handle.clone()).collect())
    }
}

impl fmt::Debug for MemoryResultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, bytes) = (outputs.by_handle.len(), outputs.bytes);
        write!(f, "MemoryResultStore({count} outputs, {bytes} of {} bytes)", self.max_bytes)
    }
}
