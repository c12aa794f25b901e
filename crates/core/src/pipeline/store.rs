//! Where the whole of a shortened result is kept.

use std::{
    collections::{HashMap, VecDeque},
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

/// Keeps outputs that are too long for a model, by a handle.
///
/// An output belongs to the principal for whom it was kept, or to the run where there is none: nobody else can read it, whatever
/// handle he has. Callers without a principal and without a run are all the same: only those who know the handle can read it.
///
/// # Examples
///
/// ```
/// use std::{
///     collections::HashMap,
///     hash::{BuildHasher as _, RandomState},
///     sync::{Arc, Mutex, PoisonError},
/// };
///
/// use haft_core::{
///     ToolContext, ToolOutput, call::BoxError, export::async_trait, pipeline::ResultStore,
///     tool::Principal,
/// };
///
/// /// The rows of a table, by owner and handle.
/// #[derive(Default)]
/// struct Table {
///     rows: Mutex<HashMap<(String, String), Arc<ToolOutput>>>,
///     secret: RandomState,
/// }
///
/// fn owner(cx: &ToolContext) -> String {
///     match cx.principal() {
///         Some(principal) => format!("principal {}", principal.id),
///         None => format!("run {}", cx.run_id()),
///     }
/// }
///
/// #[async_trait]
/// impl ResultStore for Table {
///     async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError> {
///         let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
///         let handle = format!("result_{:016x}", self.secret.hash_one(rows.len()));
///         rows.insert((owner(cx), handle.clone()), Arc::new(output.clone()));
///         Ok(handle)
///     }
///
///     async fn get(
///         &self,
///         handle: &str,
///         cx: &ToolContext,
///     ) -> Result<Option<Arc<ToolOutput>>, BoxError> {
///         let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
///         Ok(rows.get(&(owner(cx), handle.to_owned())).cloned())
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let (store, cx) = (Table::default(), ToolContext::default());
/// let handle = store.put(&ToolOutput::from("a long text"), &cx).await?;
/// assert_eq!(store.get(&handle, &cx).await?.unwrap().text(), "a long text");
///
/// let ann = cx.with_principal(Principal { id: "ann".to_owned(), ..Principal::default() });
/// assert!(store.get(&handle, &ann).await?.is_none());
/// # Ok::<(), BoxError>(()) })?;
/// # Ok::<(), BoxError>(())
/// ```
#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Keeps an output for the caller of `cx` and names it: a short text that a model can repeat and nobody can
    /// guess, never used twice.
    ///
    /// # Errors
    ///
    /// Fails when the output cannot be kept; the call's result then says so.
    async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError>;

    /// The output of a handle; `None` when there is none for the caller of `cx`, or it was forgotten.
    ///
    /// # Errors
    ///
    /// Fails when the store cannot be read.
    async fn get(&self, handle: &str, cx: &ToolContext) -> Result<Option<Arc<ToolOutput>>, BoxError>;

    /// The handles of what is kept for the caller of `cx`, oldest first, so that who asks for another can be told. A store need not know,
    /// and tells nobody who has neither a principal nor a run.
    ///
    /// # Errors
    ///
    /// Fails when the store cannot be read.
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

/// Keeps outputs in memory, and forgets the oldest when there are too many bytes of them.
pub struct MemoryResultStore {
    capacity: usize,
    /// Makes handles that nobody can guess.
    handles: Option<RandomState>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<String, Entry>,
    /// Handles, oldest first.
    order: VecDeque<String>,
    bytes: usize,
    count: u64,
}

struct Entry {
    output: Arc<ToolOutput>,
    bytes: usize,
    owner: Owner,
}

/// Whom an output belongs to.
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
    /// Makes a store that keeps at most this many bytes of text, media and data, but always the newest output.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { capacity: bytes, handles: Some(RandomState::new()), kept: Mutex::default() }
    }

    /// Names outputs by number, the same in each process, so that a conversation in which a model reads on in a result is replayed as it was
    /// recorded.
    ///
    /// For tests: handles can be guessed then. Who has neither a principal nor a run is told apart from others by nothing else.
    #[must_use]
    pub fn with_numbered_handles(mut self) -> Self {
        self.handles = None;
        self
    }
}

/// Keeps [`limits::STORED_RESULT_BYTES`].
impl Default for MemoryResultStore {
    fn default() -> Self {
        Self::with_capacity(limits::STORED_RESULT_BYTES)
    }
}

#[async_trait]
impl ResultStore for MemoryResultStore {
    async fn put(&self, output: &ToolOutput, cx: &ToolContext) -> Result<String, BoxError> {
        let bytes = output.byte_len();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        let name = self.handles.as_ref().map_or(kept.count, |handles| handles.hash_one(kept.count));
        let handle = format!("result_{name:016x}");
        let entry = Entry { output: Arc::new(output.clone()), bytes, owner: Owner::of(cx) };
        kept.entries.insert(handle.clone(), entry);
        kept.order.push_back(handle.clone());
        kept.bytes += bytes;
        while kept.bytes > self.capacity && kept.order.len() > 1 {
            let Some(oldest) = kept.order.pop_front() else { break };
            let forgotten = kept.entries.remove(&oldest).map_or(0, |entry| entry.bytes);
            kept.bytes -= forgotten;
        }
        Ok(handle)
    }

    async fn get(&self, handle: &str, cx: &ToolContext) -> Result<Option<Arc<ToolOutput>>, BoxError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = kept.entries.get(handle).filter(|entry| entry.owner == Owner::of(cx));
        Ok(entry.map(|entry| Arc::clone(&entry.output)))
    }

    async fn handles(&self, cx: &ToolContext) -> Result<Vec<String>, BoxError> {
        // Of callers who have no name at all nobody knows whether they are the same: they must know the handle.
        if cx.principal().is_none() && cx.run_id().is_empty() {
            return Ok(Vec::new());
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = Owner::of(cx);
        let is_own = |handle: &&String| kept.entries.get(*handle).is_some_and(|entry| entry.owner == owner);
        Ok(kept.order.iter().filter(is_own).cloned().collect())
    }
}

impl fmt::Debug for MemoryResultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        write!(
            f,
            "MemoryResultStore({} outputs, {} of {} bytes)",
            kept.order.len(),
            kept.bytes,
            self.capacity
        )
    }
}
