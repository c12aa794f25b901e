//! The header `Accept` (RFC 9110, section 12.5.1).

use ::http::{HeaderMap, HeaderValue, header};

/// The media types of the responses of MCP.
pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The media types that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepted {
    /// Returns the media types that `headers` accept. Without the header, everything is accepted.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<_> = values.flat_map(|value| value.split(',')).filter_map(Range::parse).collect();
        let accepts = |media_type| ranges.is_empty() || accepts(&ranges, media_type);
        Self { json: accepts(JSON), events: accepts(EVENT_STREAM) }
    }

    /// Replaces the header `Accept` by the types that rmcp requires of a client of streamable HTTP.
    pub(super) fn replace(headers: &mut HeaderMap) {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
    }
}

/// A media range: `text/event-stream`, `text/*` or `*/*`.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    is_excluded: bool,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        // The HTTP client of Java sends `*` for `*/*`.
        let (kind, subtype) = match parts.next()? {
            "" => return None,
            "*" => ("*", "*"),
            range => range.split_once('/')?,
        };
        let weight = parts.find_map(|parameter| {
            let (name, weight) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| weight.trim())
        });
        let is_excluded = weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|it| it <= 0.0);
        Some(Self { kind, subtype, is_excluded })
    }

    /// Returns how specific the range is for `kind/subtype`, from 0 for `*/*`. Returns `None` if it
    /// does not cover the type.
    fn precedence(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (own, "*") if own.eq_ignore_ascii_case(kind) => Some(1),
            (own, sub) if own.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => Some(2),
            _ => None,
        }
    }
}

/// Returns `true` if the most specific of the `ranges` that cover `media_type` does not exclude it.
fn accepts(ranges: &[Range<'_>], media_type: &str) -> bool {
    let (kind, subtype) = media_type.split_once('/').unwrap_or_default();
    let covering = ranges.iter().filter_map(|range| Some((range.precedence(kind, subtype)?, range)));
    let best = covering.max_by_key(|(precedence, range)| (*precedence, !range.is_excluded));
    best.is_some_and(|(_, range)| !range.is_excluded)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, header};

    use super::Accepted;

    #[test]
    fn most_specific_range_decides() {
        for (values, json, events) in [
            (&[][..], true, true),
            (&[""], true, true),
            (&["*/*"], true, true),
            (&["*"], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["APPLICATION/JSON; charset=utf-8 , Text/Event-Stream;q=0.1"], true, true),
            (&["application/*, text/*;q=0.5"], true, true),
            (&["application/json"], true, false),
            (&["text/*"], false, true),
            (&["text/html"], false, false),
            (&["*/*, text/event-stream;q=0"], true, false),
            (&["*/*;q=0, application/json"], true, false),
            (&["application/*; Q = 0.000, */*"], false, true),
            (&["text/*;q=0, text/event-stream;q=0.001, application/json"], true, true),
            (&["application/jsonx, text/event-streams"], false, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT, value.parse().unwrap());
            }
            assert_eq!(Accepted::of(&headers), Accepted { json, events }, "{values:?}");
        }
    }
}
