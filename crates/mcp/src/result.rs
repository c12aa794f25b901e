//! What a server returned, without a loss.

use crate::metadata;
use haft_core::{
    ToolError, ToolOutput,
    call::ToolOutcome,
    content::{Bytes, Content, ResourceBody},
};
use serde::Deserialize;
use serde_json::{Map, Value};

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
    let mut besides = Vec::new();
    for block in blocks {
        let Read { content, rest, warning } = read(block);
        besides.extend(metadata::of_block(output.content.len(), rest));
        output.content.extend(content);
        output.warnings.extend(warning);
    }
    output.metadata = metadata::of_result(fields.remove("_meta"), besides);
    if is_error {
        return Err(failed(error_text(&output)));
    }
    if output.content.is_empty()
        && let Some(structured) = output.structured.take()
    {
        let ToolOutput { content, structured, .. } = ToolOutput::structured(structured);
        (output.content, output.structured) = (content, structured);
    }
    Ok(ToolOutcome::Done(output))
}

fn failed(message: String) -> ToolError {
    ToolError::Failed { message, source: None }
}

/// All that the server says of a failure: a failure is one text.
fn error_text(output: &ToolOutput) -> String {
    let mut text = output.text().into_owned();
    if let Some(structured) = output.structured.as_ref().filter(|it| !it.is_null())
        // Some servers write it twice.
        && serde_json::from_str::<Value>(&text).ok().as_ref() != Some(structured)
    {
        text = lines([text, structured.to_string()]);
    }
    let warnings = output.warnings.iter().map(|warning| format!("Warning: {warning}"));
    let text = lines(std::iter::once(text).chain(warnings));
    if text.is_empty() { "the tool failed and does not say why".to_owned() } else { text }
}

fn lines(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A block of a result, and what it holds besides: `annotations`, `_meta`, icons and whatever comes.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    Resource {
        resource: Resource,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        uri: String,
        name: String,
        description: Option<String>,
        mime_type: Option<String>,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What was made of a block: one piece of content, or two of a resource that is both text and blob.
struct Read {
    content: Vec<Content>,
    rest: Map<String, Value>,
    warning: Option<String>,
}

/// A block as content. What is of no known kind is kept as JSON, with a warning.
fn read(block: Value) -> Read {
    match Block::deserialize(&block).map_err(|error| error.to_string()).and_then(known) {
        Ok((content, rest)) => Read { content, rest, warning: None },
        Err(reason) => {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("none");
            let warning = format!("content of type \"{kind}\" is kept as JSON: {reason}");
            Read { content: vec![Content::Json { value: block }], rest: Map::new(), warning: Some(warning) }
        }
    }
}

fn known(block: Block) -> Result<(Vec<Content>, Map<String, Value>), String> {
    Ok(match block {
        Block::Text { text, rest } => (vec![Content::Text { text }], rest),
        Block::Image { data, mime_type, rest } => {
            (vec![Content::Image { data: bytes(data)?, media_type: mime_type }], rest)
        }
        Block::Audio { data, mime_type, rest } => {
            (vec![Content::Audio { data: bytes(data)?, media_type: mime_type }], rest)
        }
        Block::Resource { resource: Resource { uri, mime_type, text, blob, rest: inner }, mut rest } => {
            let text = text.map(ResourceBody::Text);
            let blob = blob.map(bytes).transpose()?.map(ResourceBody::Blob);
            let piece = |body| Content::Resource { uri: uri.clone(), media_type: mime_type.clone(), body };
            let content: Vec<_> = text.into_iter().chain(blob).map(piece).collect();
            if content.is_empty() {
                return Err("a resource without text or blob".to_owned());
            }
            if !inner.is_empty() {
                rest.insert("resource".to_owned(), Value::Object(inner));
            }
            (content, rest)
        }
        Block::ResourceLink { uri, name, description, mime_type, rest } => {
            (vec![Content::ResourceLink { uri, name, description, media_type: mime_type }], rest)
        }
    })
}

/// Reads base64 as it is found: in lines, and with or without its padding.
fn bytes(mut base64: String) -> Result<Bytes, String> {
    base64.retain(|letter| !letter.is_ascii_whitespace() && letter != '=');
    let padding = base64.len().wrapping_neg() % 4;
    base64.extend(std::iter::repeat_n('=', padding));
    Bytes::from_base64(&base64).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
