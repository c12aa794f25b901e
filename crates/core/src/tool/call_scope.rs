//! The state of a running call, shared by the call, its nested calls and its pipeline.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// The state of a running call. Each [`ToolContext`](super::ToolContext) of the call holds a
/// reference to it.
pub(crate) struct CallScope {
    /// The settings of the pipeline that runs the call. They are type-erased, because this module
    /// must not depend on the pipeline.
    pipeline: Arc<dyn Any + Send + Sync>,
    /// The pipeline's counter of abandoned calls. When the scope of an abandoned call is dropped,
    /// it decrements the counter.
    abandoned: Arc<AtomicUsize>,
    /// The retry budget of the tool.
    retries: u32,
    /// The scope of the enclosing call, if this is a nested call.
    outer: Option<Arc<Self>>,
    is_abandoned: AtomicBool,
    is_cached: AtomicBool,
    /// The number of nested calls in progress.
    nested_calls: AtomicUsize,
}

impl CallScope {
    pub(crate) fn pipeline(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.pipeline
    }

    /// Returns the retry budget of the tool.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    pub(crate) fn mark_cached(&self) {
        self.is_cached.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if nested calls are in progress.
    pub(crate) fn has_nested_calls(&self) -> bool {
        self.nested_calls.load(Ordering::Relaxed) > 0
    }
}

impl Drop for CallScope {
    fn drop(&mut self) {
        if *self.is_abandoned.get_mut() {
            self.abandoned.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(outer) = &self.outer {
            outer.nested_calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The pipeline's reference to a [`CallScope`].
///
/// If the guard is dropped without a call to [`finish`](Self::finish), the call counts as abandoned
/// until all references to its scope are dropped.
pub(crate) struct ScopeGuard(Option<Arc<CallScope>>);

impl ScopeGuard {
    pub(crate) fn new(
        pipeline: Arc<dyn Any + Send + Sync>,
        abandoned: Arc<AtomicUsize>,
        retries: u32,
        outer: Option<Arc<CallScope>>,
    ) -> Self {
        if let Some(outer) = &outer {
            outer.nested_calls.fetch_add(1, Ordering::Relaxed);
        }
        Self(Some(Arc::new(CallScope {
            pipeline,
            abandoned,
            retries,
            outer,
            is_abandoned: AtomicBool::default(),
            is_cached: AtomicBool::default(),
            nested_calls: AtomicUsize::default(),
        })))
    }

    pub(crate) fn scope(&self) -> Option<Arc<CallScope>> {
        self.0.clone()
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.0.as_ref().is_some_and(|scope| scope.is_cached.load(Ordering::Relaxed))
    }

    pub(crate) fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        if let Some(scope) = self.0.take() {
            scope.abandoned.fetch_add(1, Ordering::Relaxed);
            // If the code of the call has already ended, this is the last reference to the scope.
            // Dropping the reference then decrements the counter again.
            scope.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}
