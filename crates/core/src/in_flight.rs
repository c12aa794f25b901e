//! What a call and whoever runs it know of each other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{Pipeline, StateType, ToolDefinition};

/// Lives as long as a call runs: whoever does a part of its work holds it.
pub(crate) struct InFlight {
    pipeline: Pipeline,
    /// The tool, as it was called.
    definition: ToolDefinition,
    /// The call that this one is a part of.
    outer: Option<Arc<Self>>,
    is_abandoned: AtomicBool,
    is_cached: AtomicBool,
    reads_unlisted: AtomicBool,
}

impl InFlight {
    /// What runs the call.
    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Notes that a value of the state is read, `None` where nobody knows which.
    pub(crate) fn reads(&self, state: Option<StateType>) {
        if state.is_none_or(|state| !self.definition.state().contains(&state)) {
            self.reads_unlisted.store(true, Ordering::Relaxed);
        }
        if let Some(outer) = &self.outer {
            outer.reads(state);
        }
    }

    /// Whether state was read that the tool does not list.
    pub(crate) fn reads_unlisted(&self) -> bool {
        self.reads_unlisted.load(Ordering::Relaxed)
    }

    /// Notes that the result is one of an earlier call.
    pub(crate) fn answered_from_cache(&self) {
        self.is_cached.store(true, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if *self.is_abandoned.get_mut() {
            self.pipeline.abandoned().fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The caller's side of a call. Dropped before the call [`ended`](Self::ended), it counts the call until what is left
/// of it ends.
pub(crate) struct Watch(Option<Arc<InFlight>>);

impl Watch {
    pub(crate) fn new(pipeline: Pipeline, definition: ToolDefinition, outer: Option<Arc<InFlight>>) -> Self {
        let (is_abandoned, is_cached, reads_unlisted) = Default::default();
        let call = InFlight { pipeline, definition, outer, is_abandoned, is_cached, reads_unlisted };
        Self(Some(Arc::new(call)))
    }

    /// What the call holds.
    pub(crate) fn token(&self) -> Option<Arc<InFlight>> {
        self.0.clone()
    }

    /// Whether the result is one of an earlier call.
    pub(crate) fn is_cached(&self) -> bool {
        self.0.as_ref().is_some_and(|call| call.is_cached.load(Ordering::Relaxed))
    }

    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.pipeline.abandoned().fetch_add(1, Ordering::Relaxed);
            // Where nothing is left of the call, this is the last token, and dropping it counts down again.
            call.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}
