use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tower_layer::Layer;

use haft_core::{Tool, ToolDefinition, ToolName, toolset::Adaptor};

use crate::{
    service::ServiceTemplate,
    tool_layer::{CallService, LayeredTool, ToolService},
};

/// Puts a layer around each tool, for [`ToolSourceExt::layered`](haft_core::toolset::ToolSourceExt::layered).
pub(crate) struct Layered<L: Layer<ToolService>> {
    layer: L,
    made: Mutex<HashMap<ToolName, Vec<Made<L::Service>>>>,
}

/// Layers that were made for a definition, as long as a tool has them.
type Made<S> = (ToolDefinition, Weak<ServiceTemplate<S>>);

impl<L: Layer<ToolService>> Layered<L> {
    pub(crate) fn new(layer: L) -> Self {
        Self { layer, made: Mutex::default() }
    }

    /// The layers of a definition. They hold no tool: two callers may have each his own of one definition.
    fn service(&self, definition: &ToolDefinition) -> Arc<ServiceTemplate<L::Service>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() == made.capacity() {
            made.retain(|_, made| made.iter().any(|(_, service)| service.strong_count() > 0));
        }
        let made = made.entry(definition.name().clone()).or_default();
        made.retain(|(_, service)| service.strong_count() > 0);
        let known = made.iter().find(|(of, _)| of == definition);
        if let Some(service) = known.and_then(|(_, service)| service.upgrade()) {
            return service;
        }
        let service = Arc::new(ServiceTemplate::new(self.layer.layer(ToolService::shared())));
        made.push((definition.clone(), Arc::downgrade(&service)));
        service
    }
}

impl<L> Adaptor for Layered<L>
where
    L: Layer<ToolService, Service: CallService> + Send + Sync,
{
    /// A tool that was there before keeps its layers: a limit is not begun anew because another tool came or went, or because an
    /// adaptor or a server made it once more.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let service = self.service(tool.definition());
        Some(Arc::new(LayeredTool::sharing(Arc::clone(tool), service)))
    }
}
