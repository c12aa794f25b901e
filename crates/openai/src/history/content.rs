//! Pieces of content in the three formats.

use haft_core::content::{BinaryData, Content, ResourceBody};
use serde_json::{Value, json};

use super::{HistoryError, Reader, error, text_of};

/// The media type of a link that represents an image by its URL.
const REMOTE_IMAGE: &str = "image/*";

/// The file name of a document without a name.
pub(super) const UNNAMED_DOCUMENT: &str = "document.pdf";

impl Reader {
    /// Reads `content`, a string, null or a list of parts at `place`. `read_part` returns the piece
    /// for a part, or `None` if the part is not supported.
    pub(super) fn read_content(
        &mut self,
        content: Option<&Value>,
        place: &str,
        read_part: fn(&Value) -> Result<Option<Content>, String>,
    ) -> Result<Vec<Content>, HistoryError> {
        let parts = match content {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::String(text)) => return Ok(vec![Content::text(text)]),
            Some(Value::Array(parts)) => parts,
            Some(_) => return error(place, "expected a string or a list of parts"),
        };
        let mut pieces = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let place = format!("{place}/{index}");
            match (part.as_str(), read_part(part)) {
                (Some(text), _) => pieces.push(Content::text(text)),
                (None, Ok(Some(piece))) => pieces.push(piece),
                (None, Ok(None)) => {
                    let kind = text_of(part, "type").unwrap_or("without a type");
                    self.omit(&place, format_args!("the part `{kind}` is not supported"));
                }
                (None, Err(problem)) => return error(place, problem),
            }
        }
        Ok(pieces)
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

/// Returns the URL of an image that [`remote_image`] created.
pub(super) fn remote_image_url(piece: &Content) -> Option<&str> {
    match piece {
        Content::ResourceLink { uri, media_type: Some(media_type), .. } if media_type == REMOTE_IMAGE => {
            Some(uri)
        }
        _ => None,
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

pub(super) fn data_url(data: &BinaryData, media_type: &str) -> String {
    format!("data:{media_type};base64,{}", data.to_base64())
}

/// Writes `content` as a string if it is one text, or else as a list of parts.
pub(super) fn write_content(content: &[Content], write_part: impl Fn(&Content) -> Value) -> Value {
    match content {
        [] => json!(""),
        [Content::Text { text }] => json!(text),
        pieces => pieces.iter().map(write_part).collect(),
    }
}
