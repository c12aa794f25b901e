use haft_core::{
    ToolDefinition, ToolOutput, ToolResult,
    call::{Failure, Outcome},
    content::{Content, ResourceBody},
};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use super::definition::has_object_root;
use crate::metadata;

/// Encodes `result` as a `CallToolResult`. `definition` is the definition of the called tool.
pub(super) fn encode_result(definition: &ToolDefinition, result: ToolResult) -> CallToolResult {
    let warnings = result.warnings.iter().map(|warning| ContentBlock::text(format!("Warning: {warning}")));
    match result.outcome {
        Outcome::Failed(Failure { output: Some(mut output), .. }) => {
            let own = std::mem::take(&mut output.warnings);
            let own = own.into_iter().map(|warning| ContentBlock::text(format!("Warning: {warning}")));
            // The output schema is for successful calls, so the structured content is not wrapped.
            let mut encoded = encode_output(*output, own.chain(warnings), |value| match value.is_object() {
                true => value,
                false => json!({ "result": value }),
            });
            encoded.is_error = Some(true);
            encoded
        }
        Outcome::Failed(failure) => CallToolResult::error(
            std::iter::once(ContentBlock::text(failure.message)).chain(warnings).collect(),
        ),
        Outcome::Done(output) => encode_output(output, warnings, |value| with_object_root(definition, value)),
    }
}

/// Encodes `output` as a successful result, with the blocks `warnings` after its own.
fn encode_output(
    output: ToolOutput,
    warnings: impl Iterator<Item = ContentBlock>,
    with_root: impl FnOnce(Value) -> Value,
) -> CallToolResult {
    let ToolOutput { content, structured, mut metadata, .. } = output;
    let mut blocks: Vec<_> =
        content.into_iter().enumerate().map(|(index, item)| encode_block(index, item)).collect();
    for (index, extra) in metadata::take_block_entries(&mut metadata) {
        if let Some(block) = blocks.get_mut(index) {
            add_fields(block, extra);
        }
    }
    if blocks.is_empty()
        && let Some(value) = &structured
    {
        blocks.push(ContentBlock::text(value.to_string()));
    }
    blocks.extend(warnings);
    let mut encoded = CallToolResult::success(blocks);
    encoded.structured_content = structured.map(with_root);
    let meta = metadata::take_result_meta(&mut metadata);
    encoded.meta = meta.and_then(|meta| serde_json::from_value(meta).ok());
    encoded
}

/// Adds the fields in `extra`, such as `annotations`, to `block`. Fields that MCP does not define
/// are dropped.
fn add_fields(block: &mut ContentBlock, extra: Map<String, Value>) {
    let Ok(mut json) = serde_json::to_value(&*block) else { return };
    merge_fields(&mut json, Value::Object(extra));
    if let Ok(merged) = serde_json::from_value(json) {
        *block = merged;
    }
}

/// Merges the object `from` into the object `into`, including nested objects. Existing values in
/// `into` are not replaced.
fn merge_fields(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(&key) {
            Some(existing) => merge_fields(existing, value),
            None => drop(into.insert(key, value)),
        }
    }
}

/// Wraps `value` as `{"result": value}` if the output schema of the tool is not an object schema,
/// because MCP requires structured content to be an object. If the tool has no output schema, wraps
/// `value` if it is not an object.
///
/// The module [`definition`](super::definition) wraps the output schema in the same way.
fn with_object_root(definition: &ToolDefinition, value: Value) -> Value {
    let has_object_root = definition.output_schema().map_or_else(|| value.is_object(), has_object_root);
    if has_object_root { value } else { json!({ "result": value }) }
}

fn encode_block(index: usize, content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::text(text),
        Content::Image { data, media_type } => ContentBlock::image(data.to_base64(), media_type),
        Content::Audio { data, media_type } => ContentBlock::audio(data.to_base64(), media_type),
        // MCP has no content block for binary data other than images and audio. Other binary data
        // is sent as an embedded resource, which requires a URI.
        Content::Blob { data, media_type } => {
            let contents = ResourceContents::blob(data.to_base64(), format!("result://content/{index}"));
            ContentBlock::resource(contents.with_mime_type(media_type))
        }
        Content::Resource { uri, media_type, body } => {
            let (mime_type, meta) = (media_type, None);
            ContentBlock::resource(match body {
                ResourceBody::Text(text) => {
                    ResourceContents::TextResourceContents { uri, mime_type, text, meta }
                }
                ResourceBody::Blob(data) => {
                    ResourceContents::BlobResourceContents { uri, mime_type, blob: data.to_base64(), meta }
                }
            })
        }
        Content::ResourceLink { uri, name, description, media_type } => {
            let mut link = Resource::new(uri, name);
            (link.description, link.mime_type) = (description, media_type);
            ContentBlock::resource_link(link)
        }
        other => ContentBlock::text(other.as_text()),
    }
}
