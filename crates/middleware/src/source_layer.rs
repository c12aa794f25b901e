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

/// The adaptor that [`ToolsetMiddleware::layered`](crate::ToolsetMiddleware::layered) applies.
pub(crate) struct LayerAdaptor<L: Layer<ToolService>> {
    layer: L,
    services: Mutex<HashMap<ToolName, Vec<DefinedService<L::Service>>>>,
}

/// A tool definition and the layered service for tools with this definition. The service is dropped
/// when no tool uses it any more.
type DefinedService<S> = (ToolDefinition, Weak<ServiceTemplate<S>>);

impl<L: Layer<ToolService>> LayerAdaptor<L> {
    pub(crate) fn new(layer: L) -> Self {
        Self { layer, services: Mutex::default() }
    }

    /// Returns the layered service for tools with `definition`, and creates it if there is none.
    /// The service does not contain a tool, because callers may have different tools with equal
    /// definitions.
    fn service(&self, definition: &ToolDefinition) -> Arc<ServiceTemplate<L::Service>> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if services.len() == services.capacity() {
            services.retain(|_, of_name| of_name.iter().any(|(_, service)| service.strong_count() > 0));
        }
        let of_name = services.entry(definition.name().clone()).or_default();
        of_name.retain(|(_, service)| service.strong_count() > 0);
        let known = of_name.iter().find(|(known, _)| known == definition);
        if let Some(service) = known.and_then(|(_, service)| service.upgrade()) {
            return service;
        }
        let service = Arc::new(ServiceTemplate::new(self.layer.layer(ToolService::without_tool())));
        of_name.push((definition.clone(), Arc::downgrade(&service)));
        service
    }
}

impl<L> Adaptor for LayerAdaptor<L>
where
    L: Layer<ToolService, Service: CallService> + Send + Sync,
{
    /// Wraps `tool` in the layer. A recreated tool with an equal definition gets the same service,
    /// so that the state of the service, such as a rate limit, survives a change of the tool list.
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let service = self.service(tool.definition());
        Some(Arc::new(LayeredTool::with_shared_service(Arc::clone(tool), service)))
    }
}
