//! Pieces of content in the three formats.

use haft_core::{
    ToolResult,
    content::{BinaryData, Content, ResourceBody},
    model::adapter::{
        history::{decode_media, remote_image},
        warnings_of,
    },
};
use serde_json::{Value, json};

use crate::format::UNNAMED_DOCUMENT;

/// Returns the image, or the link to it, for `url`, a `data:` URL or an address.
pub(super) fn image_from_url(url: &str) -> Result<Content, String> {
    match url.strip_prefix("data:") {
        Some(data) => media_from_data(data),
        None => Ok(remote_image(url)),
    }
}

/// Parses the part of a `data:` URL after the scheme, as in `image/png;base64,iVBO`.
fn media_from_data(data: &str) -> Result<Content, String> {
    let (media_type, data) = data.split_once(";base64,").ok_or("the `data:` URL is not base64")?;
    decode_media(data, media_type)
}

/// Returns the document with the bytes in `data`, a `data:` URL or base64, and the file name
/// `name`.
pub(super) fn document(data: &str, name: Option<&str>) -> Result<Content, String> {
    let blob = match data.strip_prefix("data:") {
        Some(data) => media_from_data(data)?,
        None => decode_media(data, "application/pdf")?,
    };
    Ok(match (blob, name.filter(|name| *name != UNNAMED_DOCUMENT)) {
        (Content::Blob { data, media_type }, Some(name)) => Content::Resource {
            uri: name.to_owned(),
            media_type: Some(media_type),
            body: ResourceBody::Blob(data),
        },
        (blob, _) => blob,
    })
}

/// The bytes, the media type and the file name of a document.
pub(super) fn as_document(piece: &Content) -> Option<(&BinaryData, &str, Option<&str>)> {
    match piece {
        Content::Blob { data, media_type } => Some((data, media_type, None)),
        Content::Resource { uri, media_type, body: ResourceBody::Blob(data) } => {
            Some((data, media_type.as_deref().unwrap_or("application/octet-stream"), Some(uri)))
        }
        _ => None,
    }
}

/// Writes `content` as a string if it is one text, or else as a list of parts.
pub(super) fn write_content(content: &[Content], write_part: impl Fn(&Content) -> Value) -> Value {
    match content {
        [] => json!(""),
        [Content::Text { text }] => json!(text),
        pieces => pieces.iter().map(write_part).collect(),
    }
}

/// Writes the content of `result`. Unlike a request, a history keeps the pieces of text apart.
/// Warnings are the last part.
pub(super) fn write_result_content(result: &ToolResult, write_part: impl Fn(&Content) -> Value) -> Value {
    let warnings = warnings_of(result);
    match result.output().map(|output| output.content.as_slice()) {
        None | Some([]) => json!(result.model_text()),
        Some([Content::Text { .. }]) if warnings.is_some() => json!(result.model_text()),
        Some(content) => {
            let content: Vec<_> = content.iter().cloned().chain(warnings).collect();
            write_content(&content, write_part)
        }
    }
}
