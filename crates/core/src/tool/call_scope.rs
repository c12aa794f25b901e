//! The state of a running call, shared by the call, its nested calls and its pipeline.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::{StateType, ToolDefinition};

/// The state of a running call. Each [`ToolContext`](super::ToolContext) of the call holds a
/// reference to it.
pub(crate) struct CallScope {
    /// The settings of the pipeline that runs the call. They are type-erased, because this module
    /// must not depend on the pipeline.
    pipeline: Arc<dyn Any + Send + Sync>,
    /// The pipeline's counter of abandoned calls. When the scope of an abandoned call is dropped,
    /// it decrements the counter.
    abandoned: Arc<AtomicUsize>,
    definition: ToolDefinition,
    /// The scope of the enclosing call, if this is a nested call.
    outer: Option<Arc<Self>>,
    is_abandoned: AtomicBool,
    is_cached: AtomicBool,
    reads_undeclared: AtomicBool,
    /// `true` if the code of the call has access to the cancellation token.
    is_listening: AtomicBool,
    /// `true` if the call shuts down its subtasks before it returns, for example the tools of an
    /// agent.
    is_cooperative: AtomicBool,
    /// The number of nested calls in progress.
    nested_calls: AtomicUsize,
}

impl CallScope {
    pub(crate) fn pipeline(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.pipeline
    }

    /// Returns the retry budget of the tool.
    pub(crate) fn retries(&self) -> u32 {
        self.definition.policy().retries
    }

    /// Records a read of host state of the type `state` in this scope and in the scopes of all
    /// enclosing calls. `None` stands for an unknown type. Only reads of undeclared types have an
    /// effect.
    pub(crate) fn record_read(&self, state: Option<StateType>) {
        if state.is_none_or(|state| !self.definition.state_types().contains(&state)) {
            self.reads_undeclared.store(true, Ordering::Relaxed);
        }
        if let Some(outer) = &self.outer {
            outer.record_read(state);
        }
    }

    pub(crate) fn reads_undeclared(&self) -> bool {
        self.reads_undeclared.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_cached(&self) {
        self.is_cached.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_listening(&self) {
        self.is_listening.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_cooperative(&self) {
        self.is_cooperative.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the call can notice a cancellation and end by itself.
    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    /// Returns `true` if the call has work of its own, such as nested calls, that must end first.
    pub(crate) fn is_cooperative(&self) -> bool {
        self.is_cooperative.load(Ordering::Relaxed) || self.nested_calls.load(Ordering::Relaxed) > 0
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
        definition: ToolDefinition,
        outer: Option<Arc<CallScope>>,
    ) -> Self {
        if let Some(outer) = &outer {
            outer.nested_calls.fetch_add(1, Ordering::Relaxed);
        }
        Self(Some(Arc::new(CallScope {
            pipeline,
            abandoned,
            definition,
            outer,
            is_abandoned: AtomicBool::default(),
            is_cached: AtomicBool::default(),
            reads_undeclared: AtomicBool::default(),
            is_listening: AtomicBool::default(),
            is_cooperative: AtomicBool::default(),
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
