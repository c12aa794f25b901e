use std::borrow::Cow;

use haft_core::Content;
use serde::Serialize;

/// What a message says: text where that is all, else parts. Many servers take nothing but text.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

impl<'a> WireContent<'a> {
    /// The pieces of a message; pictures among them only for a model that reads pictures, else described.
    pub(super) fn new(content: &'a [Content], images: bool) -> Self {
        if images && content.iter().any(|piece| picture(piece).is_some()) {
            return Self::Parts(content.iter().map(Part::new).collect());
        }
        Self::Text(match content {
            [] => Cow::Borrowed(""),
            [only] => only.as_text(),
            pieces => pieces.iter().map(Content::as_text).collect::<Vec<_>>().join("\n").into(),
        })
    }

    /// The pictures among the pieces, after a text that says what they are.
    pub(super) fn pictures(caption: String, content: &'a [Content]) -> Option<Self> {
        let pictures: Vec<_> = content.iter().filter_map(picture).collect();
        let caption = Part::Text { text: caption.into() };
        (!pictures.is_empty()).then(|| Self::Parts(std::iter::once(caption).chain(pictures).collect()))
    }
}

impl<'a> Part<'a> {
    fn new(piece: &'a Content) -> Self {
        picture(piece).unwrap_or_else(|| Self::Text { text: piece.as_text() })
    }
}

fn picture<'a>(piece: &Content) -> Option<Part<'a>> {
    let Content::Image { data, media_type } = piece else { return None };
    let url = format!("data:{media_type};base64,{}", data.to_base64());
    Some(Part::ImageUrl { image_url: ImageUrl { url } })
}
