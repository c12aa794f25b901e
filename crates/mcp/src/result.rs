//! What a server returned, without a loss.

use haft_core::{Bytes, Content, ResourceBody, ToolError, ToolOutcome, ToolOutput};
use serde::Deserialize;
use serde_json::Value;

/// Makes the outcome of a call of what the server wrote.
pub(crate) fn outcome(mut written: Value) -> Result<ToolOutcome, ToolError> {
    match written.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some(other) => {
            return Err(failed(format!("the server answers with {other:?}, which is not supported")));
        }
    }
    let is_error = written.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let Some(fields) = written.as_object_mut() else {
        return Err(failed("the server answered with what is no result".to_owned()));
    };
    // Taken out of the map: null is a value, absent is none.
    let structured = fields.remove("structuredContent");
    let blocks = match fields.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks,
        Some(lone) => vec![lone],
    };
    let mut output = ToolOutput { structured, ..ToolOutput::default() };
    for block in blocks {
        let (content, warning) = content(block);
        output.content.push(content);
        output.warnings.extend(warning);
    }
    if output.content.is_empty()
        && let Some(structured) = output.structured.take()
    {
        let ToolOutput { content, structured, .. } = ToolOutput::structured(structured);
        (output.content, output.structured) = (content, structured);
    }
    if is_error { Err(failed(error_text(&output))) } else { Ok(ToolOutcome::Done(output)) }
}

fn failed(message: String) -> ToolError {
    ToolError::Failed { message, source: None }
}

fn error_text(output: &ToolOutput) -> String {
    let text = output.text();
    if text.is_empty() { "the tool failed and does not say why".to_owned() } else { text.into_owned() }
}

/// A block of a result. What it holds besides (`annotations`, `_meta`, icons) is for people and not kept.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
    },
    Resource {
        resource: Resource,
    },
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        uri: String,
        name: String,
        description: Option<String>,
        mime_type: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// A block as content. What is of no known kind is kept as JSON, with a warning.
fn content(block: Value) -> (Content, Option<String>) {
    match Block::deserialize(&block).map_err(|error| error.to_string()).and_then(known_content) {
        Ok(content) => (content, None),
        Err(reason) => {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("none");
            let warning = format!("content of type \"{kind}\" is kept as JSON: {reason}");
            (Content::Json { value: block }, Some(warning))
        }
    }
}

fn known_content(block: Block) -> Result<Content, String> {
    Ok(match block {
        Block::Text { text } => Content::Text { text },
        Block::Image { data, mime_type } => Content::Image { data: bytes(&data)?, media_type: mime_type },
        Block::Audio { data, mime_type } => Content::Audio { data: bytes(&data)?, media_type: mime_type },
        Block::Resource { resource: Resource { uri, mime_type, text, blob } } => {
            let body = match (text, blob) {
                (Some(text), _) => ResourceBody::Text(text),
                (None, Some(blob)) => ResourceBody::Blob(bytes(&blob)?),
                (None, None) => return Err("a resource without text or blob".to_owned()),
            };
            Content::Resource { uri, media_type: mime_type, body }
        }
        Block::ResourceLink { uri, name, description, mime_type } => {
            Content::ResourceLink { uri, name, description, media_type: mime_type }
        }
    })
}

fn bytes(base64: &str) -> Result<Bytes, String> {
    Bytes::from_base64(base64).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
