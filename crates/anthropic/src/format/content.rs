//! Pieces of content as blocks.

use haft_core::{
    content::{BinaryData, Content, ResourceBody},
    model::adapter::history::remote_image_url,
};
use serde_json::{Value, json};

use super::EncodingOptions;

/// The media type of PDF documents.
pub(crate) const PDF: &str = "application/pdf";

/// Encodes `piece` as a block. Returns `None` for an empty text, because the API rejects it.
pub(super) fn encode_piece(piece: &Content, options: &EncodingOptions) -> Option<Value> {
    encode_image(piece, options)
        .or_else(|| encode_document(piece, options))
        .or_else(|| encode_text(&piece.as_text()))
}

/// Encodes `text` as a block. Returns `None` if it is empty.
pub(super) fn encode_text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Encodes an image, or the link to one. The API returns 400 for other formats, and a rejected image
/// in the conversation would make all later requests fail.
fn encode_image(piece: &Content, options: &EncodingOptions) -> Option<Value> {
    if !options.sends_images {
        return None;
    }
    // The API fetches only `https:` URLs.
    if let Some(url) = remote_image_url(piece).filter(|url| url.starts_with("https://")) {
        return Some(json!({"type": "image", "source": {"type": "url", "url": url}}));
    }
    let Content::Image { data, media_type } = piece else { return None };
    let is_supported = matches!(media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    is_supported.then(|| json!({"type": "image", "source": base64_source(data, media_type)}))
}

/// Encodes a PDF document, the link to one, or a text document.
fn encode_document(piece: &Content, options: &EncodingOptions) -> Option<Value> {
    if !options.sends_documents {
        return None;
    }
    let (source, title) = match piece {
        Content::Blob { data, media_type } if media_type == PDF => (base64_source(data, PDF), None),
        Content::Resource { uri, media_type: Some(media_type), body: ResourceBody::Blob(data) }
            if media_type == PDF =>
        {
            (base64_source(data, PDF), Some(uri))
        }
        Content::ResourceLink { uri, name, media_type: Some(media_type), .. }
            if media_type == PDF && uri.starts_with("https://") =>
        {
            (json!({"type": "url", "url": uri}), Some(name))
        }
        Content::Resource { uri, body: ResourceBody::Text(text), .. } if !text.trim().is_empty() => {
            // The API accepts no other media type for text.
            (json!({"type": "text", "media_type": "text/plain", "data": text}), Some(uri))
        }
        _ => return None,
    };
    let mut document = json!({"type": "document", "source": source});
    if let Value::Object(fields) = &mut document {
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            fields.insert("title".to_owned(), title.as_str().into());
        }
        if options.cites_documents {
            fields.insert("citations".to_owned(), json!({"enabled": true}));
        }
    }
    Some(document)
}

fn base64_source(data: &BinaryData, media_type: &str) -> Value {
    json!({"type": "base64", "media_type": media_type, "data": data.to_base64()})
}
