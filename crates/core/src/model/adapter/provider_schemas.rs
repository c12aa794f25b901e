use crate::{
    schema::{ProviderSchema, SchemaTarget},
    tool::ToolDefinition,
    toolset::ToolList,
};

/// The maximum number of tools named in a warning about `strict`.
const MAX_NAMED_TOOLS: usize = 5;

/// Converts the input schema of `definition` to the JSON Schema subset `target`. Changes to the
/// schema are logged.
pub fn provider_schema(definition: &ToolDefinition, target: SchemaTarget) -> ProviderSchema {
    let schema = definition.input_schema().for_provider(target);
    for change in &schema.changes {
        tracing::debug!(tool = %definition.name(), %change, "a tool schema is sent with a change");
    }
    schema
}

/// Converts the input schemas of the tools in `list` to the JSON Schema subset `target`. If tools
/// cannot be sent with `strict`, a single warning names the first five.
pub fn provider_schemas(list: &ToolList, target: SchemaTarget) -> Vec<(&ToolDefinition, ProviderSchema)> {
    let tools = list.tools().iter().map(|tool| tool.definition());
    let schemas: Vec<_> = tools.map(|definition| (definition, provider_schema(definition, target))).collect();
    let obstacle = |(definition, schema): &(&ToolDefinition, ProviderSchema)| {
        schema.strict_obstacle().map(|obstacle| format!("{}: {obstacle}", definition.name()))
    };
    let obstacles: Vec<_> = schemas.iter().filter_map(obstacle).collect();
    if !obstacles.is_empty() {
        let tools = obstacles.get(..MAX_NAMED_TOOLS).unwrap_or(&obstacles).join("; ");
        tracing::warn!(count = obstacles.len(), tools, "some tools cannot be sent with `strict`");
    }
    schemas
}
