//! Pieces of content in the three formats.

use haft_core::{
    ToolResult,
    content::{BinaryData, Content, ResourceBody},
    model::adapter::warnings_of,
};
use serde_json::{Value, json};

use super::{HistoryError, Reader, error, text_of};
use crate::format::{REMOTE_IMAGE, UNNAMED_DOCUMENT};

/// The reader of one part of a content list.
pub(super) struct PartReader {
    /// Returns the piece for a part, or `None` if the part is not supported.
    pub(super) read: fn(&Value) -> Result<Option<Content>, String>,
    /// The supported fields of all parts, see [`Reader::omit_unknown_fields`].
    pub(super) fields: &'static [&'static str],
}

impl Reader {
    /// Reads `content`, a string, null or a list of parts at `path`.
    pub(super) fn read_content(
        &mut self,
        content: Option<&Value>,
        path: &str,
        reader: &PartReader,
    ) -> Result<Vec<Content>, HistoryError> {
        let parts = match content {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::String(text)) => return Ok(vec![Content::text(text)]),
            Some(Value::Array(parts)) => parts,
            Some(_) => return error(path, "expected a string or a list of parts"),
        };
        let mut pieces = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            pieces.extend(self.read_part(part, &format!("{path}/{index}"), reader)?);
        }
        Ok(pieces)
    }

    /// Reads `part`, a string or an object at `path`. Returns `None` if the part is omitted.
    pub(super) fn read_part(
        &mut self,
        part: &Value,
        path: &str,
        reader: &PartReader,
    ) -> Result<Option<Content>, HistoryError> {
        if let Some(text) = part.as_str() {
            return Ok(Some(Content::text(text)));
        }
        let piece = (reader.read)(part).or_else(|problem| error(path, problem))?;
        if piece.is_some() {
            self.omit_unknown_fields(path, part, reader.fields);
        } else {
            let kind = text_of(part, "type").unwrap_or("without a type");
            self.omit(path, format_args!("the part `{kind}` is not supported"));
        }
        Ok(piece)
    }
}

/// Returns the image, or the link to it, for `url`, a `data:` URL or an address.
pub(super) fn image_from_url(url: &str) -> Result<Content, String> {
    match url.strip_prefix("data:") {
        Some(data) => media_from_data(data),
        None => Ok(remote_image(url)),
    }
}

pub(super) fn remote_image(url: &str) -> Content {
    Content::ResourceLink {
        uri: url.to_owned(),
        name: "image".to_owned(),
        description: None,
        media_type: Some(REMOTE_IMAGE.to_owned()),
    }
}

/// Parses the part of a `data:` URL after the scheme, as in `image/png;base64,iVBO`.
fn media_from_data(data: &str) -> Result<Content, String> {
    let (media_type, data) = data.split_once(";base64,").ok_or("the `data:` URL is not base64")?;
    media(data, media_type)
}

/// Decodes `data` in base64. A media type decides between an image, audio and a blob.
pub(super) fn media(data: &str, media_type: &str) -> Result<Content, String> {
    let bytes = BinaryData::from_base64(data).map_err(|error| format!("the data is not base64: {error}"))?;
    Ok(Content::from_bytes(bytes, media_type))
}

/// Returns the document with the bytes in `data`, a `data:` URL or base64, and the file name
/// `name`.
pub(super) fn document(data: &str, name: Option<&str>) -> Result<Content, String> {
    let blob = match data.strip_prefix("data:") {
        Some(data) => media_from_data(data)?,
        None => media(data, "application/pdf")?,
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
