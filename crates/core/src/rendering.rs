//! A place where an adapter keeps what it made of a value.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

/// One typed, unserialised slot beside a value that never changes.
///
/// The first adapter to ask keeps its rendering here, so that a message or a list of tools is put into a
/// wire format once and not at every step. Any other adapter renders afresh.
#[derive(Clone, Default)]
pub(crate) struct RenderingSlot(OnceLock<Arc<dyn Any + Send + Sync>>);

impl RenderingSlot {
    pub(crate) fn get_or_render<T: Send + Sync + 'static>(&self, render: impl FnOnce() -> T) -> Arc<T> {
        match self.0.get().map(|kept| Arc::clone(kept).downcast::<T>()) {
            Some(Ok(kept)) => kept,
            Some(Err(_of_another)) => Arc::new(render()),
            None => {
                let rendered = Arc::new(render());
                // Losing the race to another thread costs one rendering, nothing else.
                let _ = self.0.set(rendered.clone());
                rendered
            }
        }
    }
}

impl fmt::Debug for RenderingSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "rendered" } else { "empty" })
    }
}

/// Renderings are derived: two values are equal whatever was made of them.
impl PartialEq for RenderingSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
