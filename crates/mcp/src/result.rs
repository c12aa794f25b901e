//! Conversion of `tools/call` results to tool outputs. The `_meta` of a result and the extra fields
//! of its content blocks become metadata of the [`ToolOutput`].

use crate::{hidden_chars, metadata, transport::take_omissions};
use haft_core::{
    ToolError, ToolOutput,
    call::{Failure, FailureKind, ToolResponse},
    content::{BinaryData, Content, ResourceBody},
    text::without_hidden_chars,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Converts `result`, a `CallToolResult`, to a tool response. The texts of the response have no
/// hidden characters, because a model reads them.
///
/// # Errors
///
/// Fails if `result` is not an object, if `isError` is `true`, or if `resultType` is a string other
/// than `complete`.
pub(crate) fn convert_result(mut result: Value) -> Result<ToolResponse, ToolError> {
    check_type(&result)?;
    let omissions = take_omissions(&mut result);
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let Some(fields) = result.as_object_mut() else {
        return Err(failed_error("invalid response: the result is not an object".to_owned()));
    };
    // A `structuredContent` of `null` is a valid value. `structured` is `None` only if the key is
    // missing.
    let structured = fields.remove("structuredContent");
    let blocks = match fields.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks,
        Some(block) => vec![block],
    };
    let mut output = ToolOutput { structured, warnings: omissions, ..ToolOutput::default() };
    let mut entries = Vec::new();
    for block in blocks {
        let ParsedBlock { content, extra, warning } = parse_block(block);
        entries.extend(metadata::block_metadata(output.content.len(), extra));
        output.content.extend(content);
        output.warnings.extend(warning);
    }
    output.metadata = metadata::output_metadata(fields.remove("_meta"), entries);
    hidden_chars::remove_from_output(&mut output);
    if is_error {
        let message = without_hidden_chars(&error_text(&output)).into_owned();
        return Err(Failure::new(FailureKind::Failed, message).with_output(output).into());
    }
    if output.content.is_empty()
        && let Some(structured) = output.structured.take()
    {
        let ToolOutput { content, structured, .. } = ToolOutput::structured(structured);
        (output.content, output.structured) = (content, structured);
        hidden_chars::remove_from_output(&mut output);
    }
    Ok(ToolResponse::Done(output))
}

/// Checks the type of `result`, the result of a request.
///
/// # Errors
///
/// Fails if `resultType` is a string other than `complete`.
pub(crate) fn check_type(result: &Value) -> Result<(), ToolError> {
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => Ok(()),
        Some(other) => Err(failed_error(format!("the result type {other:?} is not supported"))),
    }
}

/// Returns the error with the content of `output`, whose structured content is omitted.
pub(crate) fn unstructured_error(output: ToolOutput) -> ToolError {
    let message = format!("the call did run, but without structured content:\n{}", error_text(&output));
    Failure::new(FailureKind::Failed, message).with_output(output).into()
}

fn failed_error(message: String) -> ToolError {
    ToolError::Failed { message, source: None }
}

/// Joins the text, the structured content and the warnings of `output` into the error message that
/// a model reads. Returns a fixed message if all three are empty.
fn error_text(output: &ToolOutput) -> String {
    let mut text = output.text().into_owned();
    if let Some(structured) = output.structured.as_ref().filter(|it| !it.is_null())
        // MCP recommends that servers repeat the structured content as text. The structured content
        // is appended only if the text does not repeat it.
        && serde_json::from_str::<Value>(&text).ok().as_ref() != Some(structured)
    {
        text = join_lines([text, structured.to_string()]);
    }
    let warnings = output.warnings.iter().map(|warning| format!("Warning: {warning}"));
    let text = join_lines(std::iter::once(text).chain(warnings));
    if text.is_empty() { "the tool failed without an error message".to_owned() } else { text }
}

fn join_lines(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A content block of a `CallToolResult`. `extra` contains the fields without a counterpart in
/// [`Content`], such as `annotations`, `_meta` and `icons`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    Text {
        text: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Resource {
        resource: Resource,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        uri: String,
        name: String,
        description: Option<String>,
        mime_type: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
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
    extra: Map<String, Value>,
}

/// The parsed form of a content block.
struct ParsedBlock {
    /// The converted content. A resource with both `text` and `blob` yields two items, and any
    /// other block yields one.
    content: Vec<Content>,
    extra: Map<String, Value>,
    warning: Option<String>,
}

/// Parses the content block `block`. A block that is unknown or invalid is kept as JSON, with a
/// warning.
fn parse_block(mut block: Value) -> ParsedBlock {
    if let Some((text, extra)) = take_text(&mut block) {
        return ParsedBlock { content: vec![Content::Text { text }], extra, warning: None };
    }
    match ContentBlock::deserialize(&block).map_err(|error| error.to_string()).and_then(into_content) {
        Ok((content, extra)) => ParsedBlock { content, extra, warning: None },
        Err(reason) => {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("none");
            let warning = format!("content of type \"{kind}\" is kept as JSON: {reason}");
            let content = vec![Content::Json { value: block }];
            ParsedBlock { content, extra: Map::new(), warning: Some(warning) }
        }
    }
}

/// Takes the text and the extra fields out of `block`, without a copy of the text. Returns `None`
/// if `block` is not a valid block of the type `text`.
fn take_text(block: &mut Value) -> Option<(String, Map<String, Value>)> {
    let fields =
        block.as_object_mut().filter(|fields| fields.get("type").is_some_and(|kind| kind == "text"))?;
    let Value::String(text) = fields.get_mut("text")? else { return None };
    let text = std::mem::take(text);
    fields.retain(|key, _| key != "type" && key != "text");
    Some((text, std::mem::take(fields)))
}

fn into_content(block: ContentBlock) -> Result<(Vec<Content>, Map<String, Value>), String> {
    Ok(match block {
        ContentBlock::Text { text, extra } => (vec![Content::Text { text }], extra),
        ContentBlock::Image { data, mime_type, extra } => {
            (vec![Content::Image { data: decode_base64(data)?, media_type: mime_type }], extra)
        }
        ContentBlock::Audio { data, mime_type, extra } => {
            (vec![Content::Audio { data: decode_base64(data)?, media_type: mime_type }], extra)
        }
        ContentBlock::Resource {
            resource: Resource { uri, mime_type, text, blob, extra: inner },
            mut extra,
        } => {
            let text = text.map(ResourceBody::Text);
            let blob = blob.map(decode_base64).transpose()?.map(ResourceBody::Blob);
            let resource = |body| Content::Resource { uri: uri.clone(), media_type: mime_type.clone(), body };
            let content: Vec<_> = text.into_iter().chain(blob).map(resource).collect();
            if content.is_empty() {
                return Err("a resource without text or blob".to_owned());
            }
            if !inner.is_empty() {
                extra.insert("resource".to_owned(), Value::Object(inner));
            }
            (content, extra)
        }
        ContentBlock::ResourceLink { uri, name, description, mime_type, extra } => {
            (vec![Content::ResourceLink { uri, name, description, media_type: mime_type }], extra)
        }
    })
}

/// Decodes `base64`. ASCII whitespace is ignored, and padding is optional.
fn decode_base64(mut base64: String) -> Result<BinaryData, String> {
    base64.retain(|letter| !letter.is_ascii_whitespace() && letter != '=');
    let padding = base64.len().wrapping_neg() % 4;
    base64.extend(std::iter::repeat_n('=', padding));
    BinaryData::from_base64(&base64).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
