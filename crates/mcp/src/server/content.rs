use haft_core::{
    ToolDefinition, ToolOutput, ToolResult,
    call::Outcome,
    content::{Content, ResourceBody},
};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use super::definition::is_object;
use crate::metadata;

/// Writes a result for the client.
pub(super) fn written(definition: &ToolDefinition, result: ToolResult) -> CallToolResult {
    let warnings = result.warnings.iter().map(|warning| ContentBlock::text(format!("Warning: {warning}")));
    match result.outcome {
        Outcome::Failed(failure) => CallToolResult::error(
            std::iter::once(ContentBlock::text(failure.message)).chain(warnings).collect(),
        ),
        Outcome::Done(ToolOutput { content, structured, mut metadata, .. }) => {
            let mut blocks: Vec<_> =
                content.into_iter().enumerate().map(|(place, it)| block(place, it)).collect();
            for (place, rest) in metadata::blocks(&mut metadata) {
                if let Some(block) = blocks.get_mut(place) {
                    add(block, rest);
                }
            }
            if blocks.is_empty()
                && let Some(value) = &structured
            {
                blocks.push(ContentBlock::text(value.to_string()));
            }
            blocks.extend(warnings);
            let mut written = CallToolResult::success(blocks);
            written.structured_content = structured.map(|value| wrapped(definition, value));
            written.meta = metadata::result(&mut metadata).and_then(|meta| serde_json::from_value(meta).ok());
            written
        }
    }
}

/// Gives a block what it held besides where it came from, as far as the protocol knows it.
fn add(block: &mut ContentBlock, rest: Map<String, Value>) {
    let Ok(mut written) = serde_json::to_value(&*block) else { return };
    merge(&mut written, Value::Object(rest));
    if let Ok(whole) = serde_json::from_value(written) {
        *block = whole;
    }
}

/// What is there stays.
fn merge(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(&key) {
            Some(there) => merge(there, value),
            None => drop(into.insert(key, value)),
        }
    }
}

/// The protocol wants an object: what is none goes under `result`, as the written output schema says.
fn wrapped(definition: &ToolDefinition, value: Value) -> Value {
    let fits = definition.output_schema().map_or_else(|| value.is_object(), is_object);
    if fits { value } else { json!({ "result": value }) }
}

fn block(place: usize, content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::text(text),
        Content::Image { data, media_type } => ContentBlock::image(data.to_base64(), media_type),
        Content::Audio { data, media_type } => ContentBlock::audio(data.to_base64(), media_type),
        // The protocol has bytes of other types in resources only, which have an address.
        Content::Blob { data, media_type } => {
            let contents = ResourceContents::blob(data.to_base64(), format!("result://content/{place}"));
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
