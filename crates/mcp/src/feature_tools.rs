//! Tools for the resources and the prompts of a server.

use std::collections::HashSet;

use haft_core::{Schema, ToolDefinition, ToolName, text::without_hidden_chars, tool::Annotations};
use serde_json::{Value, json};

use crate::{
    connection::Connection,
    connection_handle::ConnectionHandle,
    tool::{McpTool, Operation, TEMPLATES},
};

/// The features of a server that are available as tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureTools {
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl FeatureTools {
    /// Returns the features that the server at `connection` has.
    pub(crate) fn supported_by(self, connection: &Connection) -> Self {
        let capabilities = connection.server_capabilities().unwrap_or_default();
        Self {
            resources: self.resources && capabilities.resources.is_some(),
            prompts: self.prompts && capabilities.prompts.is_some(),
        }
    }

    /// Returns the tools. Their names begin with the name of the server, and differ from `taken`.
    pub(crate) fn tools(self, handle: &ConnectionHandle, taken: &HashSet<ToolName>) -> Vec<McpTool> {
        let resources = [
            (Operation::ListResources, "list_resources", LIST_RESOURCES),
            (Operation::ReadResource, "read_resource", READ_RESOURCE),
        ];
        let prompts = [
            (Operation::ListPrompts, "list_prompts", LIST_PROMPTS),
            (Operation::GetPrompt, "get_prompt", GET_PROMPT),
        ];
        let label = handle.label();
        let server = without_hidden_chars(label.strip_prefix("mcp:").unwrap_or(label));
        let resources = resources.into_iter().filter(|_| self.resources);
        let tools = resources.chain(prompts.into_iter().filter(|_| self.prompts));
        let tool = |(operation, name, description): (Operation, &str, &str)| {
            let name = free_name(&format!("{server}_{name}"), taken);
            let schema = Schema::for_arguments(arguments(operation)).ok()?;
            let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
            let definition = ToolDefinition::new(name.clone(), schema)
                .with_description(format!("{description} Server: {server}."))
                .with_annotations(annotations);
            Some(McpTool::new(definition, name.to_string(), handle.clone(), operation))
        };
        tools.filter_map(tool).collect()
    }
}

const LIST_RESOURCES: &str = "Lists the resources, such as files and database rows, that can be read.";
const READ_RESOURCE: &str = "Reads a resource. Its URI is from the list of resources, from a template, or \
                             from a link in another result.";
const LIST_PROMPTS: &str = "Lists the prompts: texts for a purpose, with their arguments.";
const GET_PROMPT: &str = "Returns the messages of a prompt.";

/// Returns `name`, or a variant with a number that is not in `taken`.
fn free_name(name: &str, taken: &HashSet<ToolName>) -> ToolName {
    let first = ToolName::sanitize(name);
    if !taken.contains(&first) {
        return first;
    }
    let mut variants = (2..).map(|number: u64| ToolName::sanitize(&format!("{name}_{number}")));
    variants.find(|variant| !taken.contains(variant)).unwrap_or(first)
}

/// Returns the schema of the arguments of `operation`.
fn arguments(operation: Operation) -> Value {
    let cursor = json!({"type": "string", "description": "`nextCursor` of the previous page."});
    let (properties, required) = match operation {
        Operation::ListResources => {
            let kind = json!({
                "enum": ["resources", TEMPLATES], "default": "resources",
                "description": "`templates` lists the URI templates (RFC 6570) of further resources.",
            });
            (json!({"kind": kind, "cursor": cursor}), json!([]))
        }
        Operation::ListPrompts => (json!({"cursor": cursor}), json!([])),
        Operation::ReadResource => {
            (json!({"uri": {"type": "string", "minLength": 1, "description": "The URI."}}), json!(["uri"]))
        }
        Operation::GetPrompt => {
            let arguments = json!({
                "type": "object", "additionalProperties": {"type": "string"},
                "description": "The arguments of the prompt, as texts.",
            });
            let name = json!({"type": "string", "minLength": 1, "description": "The name of the prompt."});
            (json!({"name": name, "arguments": arguments}), json!(["name"]))
        }
        Operation::CallTool => (json!({}), json!([])),
    };
    json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
