use std::borrow::Cow;

use haft_core::{
    content::{BinaryData, Content, ResourceBody},
    model::adapter::history::remote_image_url,
};
use serde::Serialize;

use super::{CacheBreakpoint, EncodingOptions};

/// The file name of a document without a name. The API requires a name.
pub(crate) const UNNAMED_DOCUMENT: &str = "document.pdf";

/// The `content` field of a message. Content without media is sent as a string, because many
/// servers accept only strings.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// A content part of the Chat Completions API.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    body: PartBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_breakpoint: Option<CacheBreakpoint>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartBody<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    InputAudio { input_audio: Audio },
    File { file: File },
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
pub(super) struct Audio {
    data: String,
    format: String,
}

#[derive(Serialize)]
pub(super) struct File {
    filename: String,
    file_data: String,
}

/// An image, an audio clip or a PDF document, before it is encoded for one of the APIs.
pub(crate) enum Medium<'a> {
    Image {
        data: &'a BinaryData,
        media_type: &'a str,
    },
    /// An image at a URL, which the server fetches.
    RemoteImage {
        url: &'a str,
    },
    Audio {
        data: &'a BinaryData,
        format: &'a str,
    },
    File {
        data: &'a BinaryData,
        media_type: &'a str,
        name: Cow<'a, str>,
    },
}

impl<'a> Medium<'a> {
    /// Returns the medium in `piece`. `None` if `piece` contains no medium, or if the model or the
    /// API does not support it.
    pub(super) fn of(piece: &'a Content, encoding: &EncodingOptions) -> Option<Self> {
        let (data, media_type, uri) = match piece {
            Content::Image { data, media_type }
            | Content::Audio { data, media_type }
            | Content::Blob { data, media_type } => (data, media_type.as_str(), None),
            Content::Resource { uri, media_type, body: ResourceBody::Blob(data) } => {
                (data, media_type.as_deref()?, Some(uri))
            }
            Content::ResourceLink { .. } => {
                let url = remote_image_url(piece).filter(|_| encoding.sends_images)?;
                return Some(Self::RemoteImage { url });
            }
            _ => return None,
        };
        let (kind, subtype) = media_type.split_once('/')?;
        match kind {
            // No vision model reads SVG, and APIs reject it.
            "image" if subtype.starts_with("svg") => None,
            "image" if encoding.sends_images => Some(Self::Image { data, media_type }),
            "audio" if encoding.sends_audio => Some(Self::Audio { data, format: audio_format(subtype)? }),
            "application" if encoding.sends_documents && subtype == "pdf" => {
                Some(Self::File { data, media_type, name: file_name(uri) })
            }
            "image" | "audio" => encoding.warn_unsupported(media_type),
            "application" if subtype == "pdf" => encoding.warn_unsupported(media_type),
            _ => None,
        }
    }

    /// Encodes `data` as a `data:` URL.
    pub(crate) fn data_url(data: &BinaryData, media_type: &str) -> String {
        format!("data:{media_type};base64,{}", data.to_base64())
    }
}

impl EncodingOptions {
    /// Logs a warning for the first unsupported medium. Always returns `None`, so that the caller
    /// sends a description instead of the medium.
    fn warn_unsupported<T>(&self, media_type: &str) -> Option<T> {
        if self.media_warning.take_first() {
            tracing::warn!(
                media_type,
                "the model's profile does not have this medium: sending a description; set the profile, or `send_images(true)`"
            );
        }
        None
    }
}

/// Returns the name that OpenAI uses for the audio format `subtype`, a media subtype such as
/// `mpeg`. `None` if OpenAI does not support the format.
fn audio_format(subtype: &str) -> Option<&'static str> {
    match subtype.trim_start_matches("x-") {
        "wav" | "wave" | "vnd.wave" => Some("wav"),
        "mpeg" | "mp3" => Some("mp3"),
        _ => None,
    }
}

/// Returns a file name: the last path segment of `uri`, or [`UNNAMED_DOCUMENT`].
fn file_name(uri: Option<&String>) -> Cow<'_, str> {
    let name = uri.and_then(|uri| uri.trim_end_matches('/').rsplit('/').next());
    name.filter(|name| !name.is_empty()).map_or(Cow::Borrowed(UNNAMED_DOCUMENT), Cow::Borrowed)
}

impl<'a> WireContent<'a> {
    /// Encodes `content` as a list of parts if it contains a supported medium, or else as a string.
    pub(super) fn new(content: &'a [Content], encoding: &EncodingOptions) -> Self {
        if content.iter().any(|piece| Medium::of(piece, encoding).is_some()) {
            return Self::Parts(content.iter().map(|piece| Part::new(piece, encoding)).collect());
        }
        Self::Text(joined_text(content))
    }

    /// Converts the content to a list of parts, unless it is empty, and marks its end with
    /// `breakpoint`.
    pub(super) fn into_parts(self, breakpoint: Option<CacheBreakpoint>) -> Self {
        let mut parts = match self {
            Self::Text(text) if text.is_empty() => return Self::Text(text),
            Self::Text(text) => vec![Part::from(PartBody::Text { text })],
            Self::Parts(parts) => parts,
        };
        if let Some(last) = parts.last_mut() {
            last.prompt_cache_breakpoint = breakpoint;
        }
        Self::Parts(parts)
    }

    /// Encodes the media in `content` as a list of parts, preceded by `caption` as text. Returns
    /// `None` if there are no supported media.
    pub(super) fn captioned_media(
        caption: impl FnOnce() -> String,
        content: &'a [Content],
        encoding: &EncodingOptions,
    ) -> Option<Self> {
        let media = content.iter().filter_map(|piece| Medium::of(piece, encoding));
        let mut media = media.map(Part::from).peekable();
        media.peek()?;
        let caption = Part::from(PartBody::Text { text: caption().into() });
        Some(Self::Parts(std::iter::once(caption).chain(media).collect()))
    }
}

/// Returns the pieces of `content` as text, separated by line breaks.
pub(super) fn joined_text(content: &[Content]) -> Cow<'_, str> {
    match content {
        [] => Cow::Borrowed(""),
        [only] => only.as_text(),
        pieces => pieces.iter().map(Content::as_text).collect::<Vec<_>>().join("\n").into(),
    }
}

impl<'a> Part<'a> {
    fn new(piece: &'a Content, encoding: &EncodingOptions) -> Self {
        let text = || PartBody::Text { text: piece.as_text() }.into();
        Medium::of(piece, encoding).map_or_else(text, Self::from)
    }
}

impl<'a> From<PartBody<'a>> for Part<'a> {
    fn from(body: PartBody<'a>) -> Self {
        Self { body, prompt_cache_breakpoint: None }
    }
}

impl From<Medium<'_>> for Part<'_> {
    fn from(medium: Medium<'_>) -> Self {
        PartBody::from(medium).into()
    }
}

impl From<Medium<'_>> for PartBody<'_> {
    fn from(medium: Medium<'_>) -> Self {
        match medium {
            Medium::Image { data, media_type } => {
                Self::ImageUrl { image_url: ImageUrl { url: Medium::data_url(data, media_type) } }
            }
            Medium::RemoteImage { url } => Self::ImageUrl { image_url: ImageUrl { url: url.to_owned() } },
            Medium::Audio { data, format } => {
                Self::InputAudio { input_audio: Audio { data: data.to_base64(), format: format.to_owned() } }
            }
            Medium::File { data, media_type, name } => {
                let file_data = Medium::data_url(data, media_type);
                Self::File { file: File { filename: name.into_owned(), file_data } }
            }
        }
    }
}
