use std::ops::Range;

use haft_core::message::Citation;
use serde_json::Value;

/// Converts `citation`, an element of `citations` of a text block. `range` is the place of the text.
pub(super) fn citation_of(citation: &Value, range: Range<usize>) -> Option<Citation> {
    let text = |key: &str| {
        citation.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    // The source of a search result can be any identifier.
    let source = text("source").filter(|source| source.starts_with("http"));
    let citation = Citation {
        title: text("title").or_else(|| text("document_title")),
        url: text("url").or(source),
        file_id: text("file_id"),
        quote: text("cited_text"),
        ..Citation::default()
    };
    (citation != Citation::default()).then_some(Citation { range: Some(range), ..citation })
}
