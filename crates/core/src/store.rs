//! Where the whole of a shortened result is kept.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use crate::{BoxError, ToolOutput, limits};

/// Keeps outputs that are too long for a model, by a handle.
#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Keeps an output and names it: a short text that a model can repeat.
    ///
    /// # Errors
    ///
    /// Fails when the output cannot be kept; the call's result is then not shortened.
    async fn put(&self, output: &ToolOutput) -> Result<String, BoxError>;

    /// The output of a handle; `None` when there is none, or it was forgotten.
    ///
    /// # Errors
    ///
    /// Fails when the store cannot be read.
    async fn get(&self, handle: &str) -> Result<Option<Arc<ToolOutput>>, BoxError>;
}

/// Keeps outputs in memory, and forgets the oldest when there are too many bytes of them.
#[derive(Debug)]
pub struct MemoryResultStore {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    outputs: HashMap<String, Arc<ToolOutput>>,
    /// Handles and sizes, oldest first.
    order: VecDeque<(String, usize)>,
    bytes: usize,
    count: u64,
}

impl MemoryResultStore {
    /// Makes a store that keeps at most this many bytes of text and data, but always the newest output.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { capacity: bytes, kept: Mutex::default() }
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
    async fn put(&self, output: &ToolOutput) -> Result<String, BoxError> {
        let size = output.content.iter().map(|piece| piece.as_text().len()).sum();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        let handle = format!("result_{}", kept.count);
        kept.outputs.insert(handle.clone(), Arc::new(output.clone()));
        kept.order.push_back((handle.clone(), size));
        kept.bytes += size;
        while kept.bytes > self.capacity && kept.order.len() > 1 {
            let Some((oldest, size)) = kept.order.pop_front() else { break };
            kept.outputs.remove(&oldest);
            kept.bytes -= size;
        }
        Ok(handle)
    }

    async fn get(&self, handle: &str) -> Result<Option<Arc<ToolOutput>>, BoxError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.outputs.get(handle).cloned())
    }
}
