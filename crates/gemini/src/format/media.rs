//! Media in messages and results.

use haft_core::content::{BinaryData, Content, ResourceBody};
use serde_json::{Value, json};

use super::{EncodingOptions, WireApi};

/// The media types of audio that Gemini accepts, each with its name in the API.
const AUDIO: [(&str, &str); 13] = [
    ("wav", "audio/wav"),
    ("wave", "audio/wav"),
    ("x-wav", "audio/wav"),
    ("vnd.wave", "audio/wav"),
    ("mp3", "audio/mp3"),
    ("mpeg", "audio/mp3"),
    ("aiff", "audio/aiff"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/opus"),
    ("flac", "audio/flac"),
    ("m4a", "audio/m4a"),
    ("webm", "audio/webm"),
];

/// The image types that Gemini accepts. No vision model reads SVG.
const IMAGES: [&str; 8] = ["png", "jpeg", "jpg", "webp", "heic", "heif", "gif", "bmp"];

/// A medium that is sent to the model.
struct Medium<'a> {
    /// The type of the medium in the Interactions API.
    kind: &'static str,
    media_type: &'a str,
    source: Source<'a>,
}

enum Source<'a> {
    Data(&'a BinaryData),
    Uri(&'a str),
}

/// Encodes `piece` as a part of the API in `options`. Returns `None` if `piece` contains no medium,
/// or if the model or the API does not support it.
pub(super) fn encode_medium(piece: &Content, options: &EncodingOptions) -> Option<Value> {
    let Medium { kind, media_type, source } = Medium::of(piece, options)?;
    Some(match (options.api, source) {
        (WireApi::GenerateContent, Source::Data(data)) => {
            json!({"inlineData": {"mimeType": media_type, "data": data.to_base64()}})
        }
        (WireApi::GenerateContent, Source::Uri(uri)) => {
            json!({"fileData": {"mimeType": media_type, "fileUri": uri}})
        }
        (WireApi::Interactions, Source::Data(data)) => {
            json!({"type": kind, "mime_type": media_type, "data": data.to_base64()})
        }
        (WireApi::Interactions, Source::Uri(uri)) => {
            json!({"type": kind, "mime_type": media_type, "uri": uri})
        }
    })
}

/// Encodes `content` as parts. A medium that the model does not support is described in a text.
pub(super) fn encode_content(content: &[Content], options: &EncodingOptions) -> Vec<Value> {
    let encode =
        |piece| encode_medium(piece, options).unwrap_or_else(|| text_part(&piece.as_text(), options));
    content.iter().map(encode).collect()
}

/// Encodes a text as a part.
pub(super) fn text_part(text: &str, options: &EncodingOptions) -> Value {
    match options.api {
        WireApi::GenerateContent => json!({ "text": text }),
        WireApi::Interactions => json!({"type": "text", "text": text}),
    }
}

impl<'a> Medium<'a> {
    fn of(piece: &'a Content, options: &EncodingOptions) -> Option<Self> {
        let (source, media_type) = match piece {
            Content::Image { data, media_type }
            | Content::Audio { data, media_type }
            | Content::Blob { data, media_type } => (Source::Data(data), media_type.as_str()),
            Content::Resource { media_type, body: ResourceBody::Blob(data), .. } => {
                (Source::Data(data), media_type.as_deref()?)
            }
            Content::ResourceLink { uri, media_type, .. } if is_readable(uri) => {
                (Source::Uri(uri), media_type.as_deref()?)
            }
            _ => return None,
        };
        let (kind, media_type) = accepted_type(media_type, options)?;
        Some(Self { kind, media_type, source })
    }
}

/// Returns the type in the Interactions API and the media type for data of the type `media_type`.
/// `None` if the model or the API does not support it.
fn accepted_type<'a>(media_type: &'a str, options: &EncodingOptions) -> Option<(&'static str, &'a str)> {
    let (kind, subtype) = media_type.split_once('/')?;
    match kind {
        "image" if options.sends_images && IMAGES.contains(&subtype) => {
            Some(("image", if subtype == "jpg" { "image/jpeg" } else { media_type }))
        }
        "audio" if options.sends_audio => {
            let (_, name) = AUDIO.iter().find(|(it, _)| *it == subtype)?;
            Some(("audio", name))
        }
        "application" if options.sends_documents && subtype == "pdf" => Some(("document", media_type)),
        _ => None,
    }
}

/// Returns `true` if Gemini can read the file at `uri`: a file of the Files API, or an object in
/// Cloud Storage. Gemini does not fetch other URLs for all models, so they are sent as text.
fn is_readable(uri: &str) -> bool {
    uri.starts_with("gs://") || uri.starts_with("https://generativelanguage.googleapis.com/")
}
