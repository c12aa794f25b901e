//! Content of messages and tool outputs: text, media, resources and JSON.

use std::{borrow::Cow, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_schema::json_text;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

/// A piece of a message or of a tool's output.
///
/// Messages and tool outputs contain an ordered list of pieces, for example a text followed by an
/// image.
///
/// # Examples
///
/// ```
/// use haft_message::content::Content;
///
/// let picture = Content::from_bytes(*b"\x89PNG", "image/png");
/// assert_eq!(picture.as_text(), "[image/png, 4 bytes]");
/// assert_eq!(Content::text("hi").as_text(), "hi");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Plain text.
    Text {
        /// The plain text.
        text: String,
    },
    /// An image.
    Image {
        /// The bytes of the image file.
        data: BinaryData,
        /// The media type, for example `image/png`.
        media_type: String,
    },
    /// An audio clip.
    Audio {
        /// The bytes of the audio file.
        data: BinaryData,
        /// The media type, for example `audio/wav`.
        media_type: String,
    },
    /// Binary data that is neither an image nor audio.
    Blob {
        /// The bytes of the file.
        data: BinaryData,
        /// The media type, for example `application/pdf`.
        media_type: String,
    },
    /// An embedded resource (MCP `EmbeddedResource`).
    Resource {
        /// The URI of the resource.
        uri: String,
        /// The media type of the resource, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// The contents of the resource.
        body: ResourceBody,
    },
    /// A link to a resource (MCP `ResourceLink`). The contents of the resource are not included.
    ResourceLink {
        /// The URI of the resource.
        uri: String,
        /// The name of the linked resource.
        name: String,
        /// A description of the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The media type of the resource, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
    /// A JSON value.
    Json {
        /// The JSON value.
        value: Value,
    },
}

/// The contents of an embedded resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "MCP defines text and blob resources")]
pub enum ResourceBody {
    /// The contents of a text resource.
    Text(String),
    /// The contents of a binary resource.
    Blob(BinaryData),
}

impl Content {
    /// Returns the size of the binary data in bytes. The size of text, JSON, links and text
    /// resources is 0.
    pub fn media_len(&self) -> usize {
        match self {
            Self::Image { data, .. } | Self::Audio { data, .. } | Self::Blob { data, .. } => data.len(),
            Self::Resource { body: ResourceBody::Blob(data), .. } => data.len(),
            _ => 0,
        }
    }

    /// Creates a text piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a JSON piece.
    pub fn json(value: impl Into<Value>) -> Self {
        Self::Json { value: value.into() }
    }

    /// Creates an image, an audio clip or a blob, depending on `media_type`: `image/png` gives an
    /// image, `audio/wav` an audio clip, and `application/pdf` a blob.
    pub fn from_bytes(data: impl Into<BinaryData>, media_type: impl Into<String>) -> Self {
        let (data, media_type) = (data.into(), media_type.into());
        match media_type.split('/').next() {
            Some("image") => Self::Image { data, media_type },
            Some("audio") => Self::Audio { data, media_type },
            _ => Self::Blob { data, media_type },
        }
    }

    /// Returns the piece as text, for models that support only text.
    ///
    /// Text and text resources are returned unchanged, JSON is serialized, and a link is formatted
    /// as Markdown. Binary data becomes a short description, for example `[image/png, 4 bytes]`.
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text } => text.into(),
            Self::Json { value } => json_text(value).into(),
            Self::Image { data, media_type }
            | Self::Audio { data, media_type }
            | Self::Blob { data, media_type } => data.describe(media_type).into(),
            Self::Resource { body: ResourceBody::Text(text), .. } => text.into(),
            Self::Resource { uri, media_type, body: ResourceBody::Blob(data) } => {
                let media_type = media_type.as_deref().unwrap_or("application/octet-stream");
                format!("{uri} {}", data.describe(media_type)).into()
            }
            Self::ResourceLink { uri, name, .. } => format!("[{name}]({uri})").into(),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text { text }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Reference-counted binary data, cheap to clone. It is serialized as base64 (RFC 4648, section 4).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BinaryData(Arc<[u8]>);

impl BinaryData {
    /// Decodes binary data from the base64 text `text`.
    ///
    /// # Errors
    ///
    /// Fails if `text` is not padded base64 in the standard alphabet.
    pub fn from_base64(text: &str) -> Result<Self, base64::DecodeError> {
        STANDARD.decode(text).map(Self::from)
    }

    /// Encodes the data as base64 text.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.0)
    }

    fn describe(&self, media_type: &str) -> String {
        format!("[{media_type}, {} bytes]", self.0.len())
    }
}

impl std::ops::Deref for BinaryData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for BinaryData {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for BinaryData {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl<const N: usize> From<[u8; N]> for BinaryData {
    fn from(bytes: [u8; N]) -> Self {
        Self(Arc::new(bytes))
    }
}

impl fmt::Debug for BinaryData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BinaryData({} bytes)", self.0.len())
    }
}

impl Serialize for BinaryData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for BinaryData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::from_base64(&text).map_err(D::Error::custom)
    }
}

/// Returns the [text](Content::as_text) of all pieces of `content`, joined with line breaks.
///
/// # Examples
///
/// ```
/// use haft_message::content::{Content, join_texts};
///
/// let picture = Content::from_bytes(*b"\x89PNG", "image/png");
/// assert_eq!(join_texts(&["Look:".into(), picture]), "Look:\n[image/png, 4 bytes]");
/// ```
pub fn join_texts(content: &[Content]) -> String {
    match content {
        [only] => only.as_text().into_owned(),
        pieces => pieces.iter().map(Content::as_text).collect::<Vec<_>>().join("\n"),
    }
}
