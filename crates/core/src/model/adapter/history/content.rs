use serde_json::Value;

use super::{HistoryError, HistoryReader, text_of};
use crate::content::{BinaryData, Content};

/// The media type of a link that stands for an image.
const REMOTE_IMAGE: &str = "image/*";

/// The reader of one part of a content list.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "each adapter creates its own")]
pub struct PartReader {
    /// Returns the piece for a part, or `None` if the part is not supported.
    pub read: fn(&Value) -> Result<Option<Content>, String>,
    /// The supported fields of all parts, see [`HistoryReader::omit_unknown_fields`].
    pub fields: &'static [&'static str],
}

impl HistoryReader {
    /// Reads `content`, a string, null or a list of parts at `path`.
    ///
    /// # Errors
    ///
    /// Fails if `content` has another type, or a part is malformed.
    pub fn read_content(
        &mut self,
        content: Option<&Value>,
        path: &str,
        reader: &PartReader,
    ) -> Result<Vec<Content>, HistoryError> {
        let parts = match content {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::String(text)) => return Ok(vec![Content::text(text)]),
            Some(Value::Array(parts)) => parts,
            Some(_) => return Err(HistoryError::new(path, "expected a string or a list of parts")),
        };
        let mut pieces = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            pieces.extend(self.read_part(part, &format!("{path}/{index}"), reader)?);
        }
        Ok(pieces)
    }

    /// Reads `part`, a string or an object at `path`. Returns `None` if the part is omitted.
    ///
    /// # Errors
    ///
    /// Fails if the part is malformed.
    pub fn read_part(
        &mut self,
        part: &Value,
        path: &str,
        reader: &PartReader,
    ) -> Result<Option<Content>, HistoryError> {
        if let Some(text) = part.as_str() {
            return Ok(Some(Content::text(text)));
        }
        let piece = (reader.read)(part).map_err(|problem| HistoryError::new(path, problem))?;
        if piece.is_some() {
            self.omit_unknown_fields(path, part, reader.fields);
        } else {
            let kind = text_of(part, "type").unwrap_or("without a type");
            self.omit(path, format_args!("the part `{kind}` is not supported"));
        }
        Ok(piece)
    }
}

/// Returns the link that stands for the image at `url`.
pub fn remote_image(url: &str) -> Content {
    Content::ResourceLink {
        uri: url.to_owned(),
        name: "image".to_owned(),
        description: None,
        media_type: Some(REMOTE_IMAGE.to_owned()),
    }
}

/// Returns the URL of an image that is represented by a link with the media type `image/*`. Links with other media types, for
/// example from tools, are sent as text, because the server may be unable to fetch them.
pub fn remote_image_url(piece: &Content) -> Option<&str> {
    match piece {
        Content::ResourceLink { uri, media_type: Some(media_type), .. } if media_type == REMOTE_IMAGE => {
            Some(uri)
        }
        _ => None,
    }
}

/// Decodes `data` in base64. A media type decides between an image, audio and a blob.
///
/// # Errors
///
/// Fails if `data` is not base64.
pub fn decode_media(data: &str, media_type: &str) -> Result<Content, String> {
    let bytes = BinaryData::from_base64(data).map_err(|error| format!("the data is not base64: {error}"))?;
    Ok(Content::from_bytes(bytes, media_type))
}
