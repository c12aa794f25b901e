use crate::{ToolDefinition, ToolError, ToolOutput};

/// Holds an output against the tool's output schema. It is never repaired: the call did run, and what it
/// returned is what it returned.
pub(super) fn check(definition: &ToolDefinition, output: &ToolOutput) -> Result<(), ToolError> {
    let Some(schema) = definition.output_schema() else { return Ok(()) };
    let problem = match &output.structured {
        None => "it has no structured content".to_owned(),
        Some(value) if schema.is_valid(value) => return Ok(()),
        Some(value) => match schema.validate(value) {
            Ok(()) => return Ok(()),
            Err(violations) => violations.to_string(),
        },
    };
    let message =
        format!("the call did run, but its result does not fit the tool's output schema: {problem}");
    Err(ToolError::Failed { message, source: None })
}
