use serde_json::Value;

use super::ToolDefinition;
use crate::{
    call::{ToolError, ToolOutput},
    content::Content,
    limits,
    schema::{Schema, exceeds_depth},
};

impl ToolDefinition {
    /// Checks that the JSON values in `output` are nested at most [`limits::VALUE_DEPTH`] levels
    /// deep. If the tool has an output schema, also checks that `output` has structured data that
    /// matches it.
    ///
    /// Unlike the arguments of a call, an output is never repaired.
    ///
    /// # Errors
    ///
    /// Fails with a [`ToolError::Failed`] that describes the problem. The model receives this error
    /// instead of the output.
    pub fn check_output(&self, output: &ToolOutput) -> Result<(), ToolError> {
        check(self, output)
    }
}

fn check(definition: &ToolDefinition, output: &ToolOutput) -> Result<(), ToolError> {
    let problem = if output_values(output).any(|value| exceeds_depth(value, limits::VALUE_DEPTH)) {
        format!("is nested more than {} levels deep", limits::VALUE_DEPTH)
    } else if let Some(problem) = definition.output_schema().and_then(|schema| mismatch(schema, output)) {
        format!("does not fit the tool's output schema: {problem}")
    } else {
        return Ok(());
    };
    let message = format!("the call did run, but its result {problem}");
    Err(ToolError::Failed { message, source: None })
}

fn output_values(output: &ToolOutput) -> impl Iterator<Item = &Value> {
    let content = output.content.iter().filter_map(|content| match content {
        Content::Json { value } => Some(value),
        _ => None,
    });
    output.structured.iter().chain(content)
}

fn mismatch(schema: &Schema, output: &ToolOutput) -> Option<String> {
    match &output.structured {
        None => Some("it has no structured content".to_owned()),
        Some(value) if schema.is_valid(value) => None,
        Some(value) => schema.validate(value).err().map(|violations| violations.to_string()),
    }
}
