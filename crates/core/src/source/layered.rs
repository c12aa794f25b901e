use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tower_layer::Layer;

use super::Adaptor;
use crate::{CallService, LayeredTool, Tool, ToolService};

/// Puts a layer around each tool, for [`ToolSourceExt::layered`](crate::ToolSourceExt::layered).
pub struct Layered<L> {
    layer: L,
    /// What was made of tools that are still on offer, by where they are. A layered tool holds the one in it, so that its
    /// place is not taken by another.
    made: Mutex<HashMap<usize, Weak<dyn Tool>>>,
}

impl<L> Layered<L> {
    pub(super) fn new(layer: L) -> Self {
        Self { layer, made: Mutex::default() }
    }
}

impl<L> Adaptor for Layered<L>
where
    L: Layer<ToolService, Service: CallService> + Send + Sync,
{
    /// A tool that was there before keeps its layers: a limit is not begun anew because another tool came or went.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let place = Arc::as_ptr(tool).cast::<()>() as usize;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layered) = made.get(&place).and_then(Weak::upgrade) {
            return Some(layered);
        }
        let service = self.layer.layer(ToolService::new(Arc::clone(tool)));
        let layered: Arc<dyn Tool> = Arc::new(LayeredTool::new(tool.definition().clone(), service));
        if made.len() == made.capacity() {
            made.retain(|_, tool| tool.strong_count() > 0);
        }
        made.insert(place, Arc::downgrade(&layered));
        Some(layered)
    }
}
