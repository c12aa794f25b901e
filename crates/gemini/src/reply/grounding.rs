//! The sources of a reply: citations, and the searches that the server has made.

use std::ops::Range;

use haft_core::{
    message::{Citation, HostedCall},
    model::{
        ModelError,
        adapter::{EventSink, ReplyAccumulator},
    },
};
use serde_json::{Value, json};

/// The metadata about the sources of a reply. In a stream, they arrive with the last chunks.
#[derive(Debug, Default)]
pub(super) struct Sources {
    grounding: Option<Value>,
    url_context: Option<Value>,
    citations: Option<Value>,
    /// For each part, the range of its text in the text of the reply. Empty for parts without text.
    /// Adjacent texts of a stream are one part.
    parts: Vec<TextPlace>,
    is_text_open: bool,
}

/// A range of the text of a reply, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextPlace {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Sources {
    /// Adds a text part. It continues the part before it, if this has text.
    pub(super) fn add_text(&mut self, place: TextPlace) {
        match self.parts.last_mut().filter(|_| self.is_text_open) {
            Some(last) => last.end = place.end,
            None => self.parts.push(place),
        }
        self.is_text_open = true;
    }

    /// Adds a part without text.
    pub(super) fn end_part(&mut self) {
        self.is_text_open = false;
        self.parts.push(TextPlace::default());
    }

    /// Replaces the metadata by those of a later chunk, if it has them.
    pub(super) fn set(
        &mut self,
        grounding: Option<Value>,
        url_context: Option<Value>,
        citations: Option<Value>,
    ) {
        self.grounding = grounding.or(self.grounding.take());
        self.url_context = url_context.or(self.url_context.take());
        self.citations = citations.or(self.citations.take());
    }

    /// Adds the searches and the citations to `reply`, whose text is complete.
    pub(super) fn add_to(
        &self,
        reply: &mut ReplyAccumulator,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ModelError> {
        if let Some(grounding) = &self.grounding {
            add_searches(grounding, reply, sink)?;
            for citation in self.grounded_citations(grounding, reply.text()) {
                reply.add_citation(citation)?;
            }
        }
        let pages = self.url_context.as_ref().and_then(|context| context.get("urlMetadata")?.as_array());
        if let Some(pages) = pages.filter(|pages| !pages.is_empty() && !has_call(reply, "url_context")) {
            let urls: Vec<_> = pages.iter().filter_map(|page| page.get("retrievedUrl")).collect();
            let call = HostedCall {
                input: json!({ "urls": urls }),
                output: pages.clone().into(),
                ..HostedCall::new("", "url_context")
            };
            add_call(call, reply, sink)?;
        }
        let citations = self.citations.as_ref().and_then(|metadata| {
            metadata.get("citationSources").or_else(|| metadata.get("citations"))?.as_array()
        });
        for source in citations.into_iter().flatten() {
            let range = byte_range(source).filter(|range| reply.text().get(range.clone()).is_some());
            reply.add_citation(Citation {
                range,
                title: text_of(source, "title"),
                url: text_of(source, "uri"),
                ..Citation::default()
            })?;
        }
        Ok(())
    }

    /// Returns a citation for each source of each segment. If there are no segments, returns a
    /// citation without a range for each source.
    fn grounded_citations(&self, grounding: &Value, text: &str) -> Vec<Citation> {
        let sources = list(grounding, "groundingChunks");
        let supports = list(grounding, "groundingSupports");
        if supports.is_empty() {
            return sources.iter().filter_map(|source| citation_of(source, None)).collect();
        }
        let cite = |support: &Value| {
            let range = support.get("segment").and_then(|segment| self.range_of(segment, text));
            let indices = list(support, "groundingChunkIndices").iter();
            let cited: Vec<_> = indices
                .filter_map(|index| sources.get(usize::try_from(index.as_u64()?).ok()?))
                .filter_map(|source| citation_of(source, range.clone()))
                .collect();
            cited
        };
        supports.iter().flat_map(cite).collect()
    }

    /// Returns the range of `segment` in `text`. The indexes of a segment are bytes of its part. The
    /// text of the segment, if the server sends it, decides whether they are bytes of the part or of
    /// the whole text.
    fn range_of(&self, segment: &Value, text: &str) -> Option<Range<usize>> {
        let range = byte_range(segment)?;
        let part = segment.get("partIndex").and_then(Value::as_u64).unwrap_or_default();
        let part = usize::try_from(part).ok().and_then(|part| self.parts.get(part)).copied();
        let start = part.unwrap_or_default().start;
        let in_part = range.start.checked_add(start)?..range.end.checked_add(start)?;
        let quoted = segment.get("text").and_then(Value::as_str).filter(|quoted| !quoted.is_empty());
        let is_match = |range: &Range<usize>| {
            text.get(range.clone()).is_some_and(|found| quoted.is_none_or(|quoted| found == quoted))
        };
        let found = || {
            let quoted = quoted?;
            let start = text.find(quoted).filter(|start| text.rfind(quoted) == Some(*start))?;
            Some(start..start + quoted.len())
        };
        [in_part, range].into_iter().find(is_match).or_else(found)
    }
}

/// Adds a call for the web searches, and for the search in files, unless the reply has such a call.
fn add_searches(
    grounding: &Value,
    reply: &mut ReplyAccumulator,
    sink: &mut EventSink<'_>,
) -> Result<(), ModelError> {
    let queries = list(grounding, "webSearchQueries");
    if !queries.is_empty() {
        if let Some(usage) = &mut reply.usage {
            usage.hosted_tool_requests = queries.len().try_into().unwrap_or(u64::MAX);
        }
        if !has_call(reply, "web_search") {
            let input = json!({ "queries": queries });
            add_call(HostedCall { input, ..HostedCall::new("", "web_search") }, reply, sink)?;
        }
    }
    let has_files = list(grounding, "groundingChunks").iter().any(|it| it.get("retrievedContext").is_some());
    if has_files && !has_call(reply, "file_search") {
        add_call(HostedCall::new("", "file_search"), reply, sink)?;
    }
    Ok(())
}

fn has_call(reply: &ReplyAccumulator, tool: &str) -> bool {
    reply.hosted_calls().iter().any(|call| call.tool == tool)
}

fn add_call(
    call: HostedCall,
    reply: &mut ReplyAccumulator,
    sink: &mut EventSink<'_>,
) -> Result<(), ModelError> {
    reply.start_hosted_call(HostedCall::new(&call.id, &call.tool), sink)?;
    reply.finish_hosted_call(call, sink)
}

/// Returns the citation of `source`, a web page, a place or a document.
fn citation_of(source: &Value, range: Option<Range<usize>>) -> Option<Citation> {
    let place = ["web", "maps", "image"].iter().find_map(|kind| source.get(kind));
    if let Some(place) = place {
        let url = text_of(place, "uri").or_else(|| text_of(place, "sourceUri"));
        return Some(Citation { range, title: text_of(place, "title"), url, ..Citation::default() });
    }
    let document = source.get("retrievedContext")?;
    Some(Citation {
        range,
        title: text_of(document, "title"),
        url: text_of(document, "uri"),
        file_id: text_of(document, "documentName").or_else(|| text_of(document, "mediaId")),
        quote: text_of(document, "text"),
    })
}

/// Returns the range in `segment`. A missing start is 0.
fn byte_range(segment: &Value) -> Option<Range<usize>> {
    let index = |key| usize::try_from(segment.get(key)?.as_u64()?).ok();
    let (start, end) = (index("startIndex").unwrap_or_default(), index("endIndex")?);
    (start < end).then_some(start..end)
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
