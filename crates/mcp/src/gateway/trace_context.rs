use haft_core::ToolContext;
use serde_json::{Map, Value};

/// The keys in `_meta` (MCP 2026-07-28, "Trace Context").
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
/// The maximum length of a value that is passed on, in bytes. For `tracestate`, a shorter limit is
/// not permitted (W3C Trace Context, section 3.3.1.5).
const MAX_VALUE_BYTES: usize = 512;

/// The trace context of a call (W3C Trace Context), in the [state](ToolContext::state) of its
/// context.
///
/// A server of this crate adds the trace context in the request of its client. A client of this
/// crate sends the trace context in the state with each request of the call. So a
/// [gateway](crate::gateway) passes the trace context on to its servers. The metadata of
/// [`with_request_metadata`](crate::ServerOptions::with_request_metadata) takes precedence, for
/// example with the span of the gateway as parent.
///
/// An invalid `traceparent` is ignored. `baggage` is not passed on, because it may contain data
/// that the servers must not receive.
///
/// # Examples
///
/// ```
/// use haft_core::ToolContext;
/// use haft_mcp::gateway::TraceContext;
///
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace = TraceContext::new(parent).expect("the value is valid");
/// let cx = ToolContext::default().with_state(trace);
/// assert_eq!(cx.state::<TraceContext>()?.traceparent(), parent);
/// # Ok::<(), haft_core::ToolError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Creates a trace context without a trace state. Returns `None` if `traceparent` is invalid.
    pub fn new(traceparent: impl Into<String>) -> Option<Self> {
        let traceparent = traceparent.into();
        is_traceparent(&traceparent).then_some(Self { traceparent, tracestate: None })
    }

    /// Sets the trace state. A value that is longer than 512 bytes, or that has other than
    /// printable ASCII characters, is ignored.
    #[must_use]
    pub fn with_tracestate(mut self, tracestate: impl Into<String>) -> Self {
        let is_valid =
            |it: &String| it.len() <= MAX_VALUE_BYTES && it.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        self.tracestate = Some(tracestate.into()).filter(is_valid);
        self
    }

    /// Returns the value of `traceparent`, for example
    /// `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the value of `tracestate`.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Returns the trace context in `meta`, the `_meta` of a request.
    pub(crate) fn from_meta(meta: &Map<String, Value>) -> Option<Self> {
        let text = |key| meta.get(key).and_then(Value::as_str);
        let trace = Self::new(text(TRACEPARENT)?)?;
        Some(match text(TRACESTATE) {
            Some(tracestate) => trace.with_tracestate(tracestate),
            None => trace,
        })
    }

    /// Returns the metadata for the requests of the call with the context `cx`.
    pub(crate) fn metadata(cx: &ToolContext) -> Option<Map<String, Value>> {
        let trace: &Self = cx.host_state().get()?;
        let mut metadata = Map::from_iter([(TRACEPARENT.to_owned(), trace.traceparent().into())]);
        if let Some(tracestate) = trace.tracestate() {
            metadata.insert(TRACESTATE.to_owned(), tracestate.into());
        }
        Some(metadata)
    }
}

/// Returns `true` if `value` is a valid `traceparent` (W3C Trace Context, section 3.2). Later
/// versions may have further fields.
fn is_traceparent(value: &str) -> bool {
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
    let mut fields = value.split('-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return false;
    };
    let has_valid_version = is_hex(version, 2) && version != "ff";
    let has_valid_end = fields.next().is_none() || version != "00";
    let is_short = value.len() <= MAX_VALUE_BYTES && value.is_ascii();
    has_valid_version
        && has_valid_end
        && is_short
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::TraceContext;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_is_checked() {
        let is_valid = |value: &str| TraceContext::new(value).is_some();
        assert!(is_valid(PARENT));
        assert!(is_valid(&PARENT.replacen("00", "01", 1)));
        assert!(
            is_valid(&format!("{}-x", PARENT.replacen("00", "01", 1))),
            "a later version has more fields"
        );
        for invalid in [
            String::new(),
            format!("{PARENT}-x"),
            PARENT.replacen("00", "ff", 1),
            PARENT.to_uppercase(),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            PARENT.trim_end_matches("-01").to_owned(),
            PARENT.replace("01", "é"),
        ] {
            assert!(!is_valid(&invalid), "{invalid:?} is invalid");
        }
    }

    #[test]
    fn invalid_tracestate_is_ignored() {
        let trace = TraceContext::new(PARENT).unwrap();
        assert_eq!(trace.clone().with_tracestate("a=1").tracestate(), Some("a=1"));
        assert_eq!(trace.clone().with_tracestate("a=\n").tracestate(), None);
        assert_eq!(trace.with_tracestate("a".repeat(513)).tracestate(), None);
    }
}
