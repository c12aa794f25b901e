//! Tool definitions of operations.

use haft_core::{
    Schema, ToolDefinition, ToolName,
    text::{truncate_with_ellipsis, without_hidden_chars},
    tool::{Annotations, Deprecation},
};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::{
    document::Document,
    operation::{Operation, OperationHead},
};

/// The maximum length of the description of a tool, in bytes. Longer text is truncated.
const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Builds the tool definition of `operation`.
///
/// # Errors
///
/// Fails with a description of the fault in the schema of the arguments.
pub(crate) fn build(
    document: &Document,
    head: &OperationHead<'_>,
    operation: &Operation,
) -> Result<ToolDefinition, String> {
    let schema = document.compile(operation.arguments.schema.clone()).and_then(Schema::into_arguments);
    let schema = schema.map_err(|error| format!("its arguments: {error}"))?;
    let mut definition = ToolDefinition::new(ToolName::sanitize(&head.id), schema)
        .with_description(description(head))
        .with_annotations(annotations(&operation.method))
        .with_metadata(metadata(head));
    if let Some(title) = head.text("summary") {
        definition = definition.with_title(without_hidden_chars(title));
    }
    if head.is_deprecated() {
        definition = definition.with_deprecation(Deprecation::default());
    }
    match operation.responses.output_schema.clone() {
        Some(schema) => Ok(definition.with_output_schema(schema)),
        None => Ok(definition),
    }
}

/// Returns the summary and the description of the operation, or its method and path.
fn description(head: &OperationHead<'_>) -> String {
    let text = match (head.text("summary"), head.text("description")) {
        (Some(summary), Some(description)) if !description.starts_with(summary) => {
            format!("{summary}\n\n{description}")
        }
        (_, Some(description)) => description.to_owned(),
        (Some(summary), None) => summary.to_owned(),
        (None, None) => format!("{} {}", head.method, head.path),
    };
    truncate_with_ellipsis(&without_hidden_chars(&text), MAX_DESCRIPTION_BYTES).into_owned()
}

/// Returns the hints for `method` (RFC 9110, section 9.2).
fn annotations(method: &Method) -> Annotations {
    Annotations {
        read_only: Some(method.is_safe()),
        destructive: match *method {
            Method::PUT | Method::PATCH | Method::DELETE => Some(true),
            _ if method.is_safe() => Some(false),
            // A request with another method may add, change or delete data.
            _ => None,
        },
        idempotent: Some(method.is_idempotent()),
        open_world: Some(true),
    }
}

fn metadata(head: &OperationHead<'_>) -> Map<String, Value> {
    let tags: Vec<_> = head.tags().collect();
    let operation = json!({"method": head.method.as_str(), "path": head.path, "tags": tags});
    Map::from_iter([("openapi".to_owned(), operation)])
}
