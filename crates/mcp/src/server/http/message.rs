use std::borrow::Cow;

use serde::Deserialize;

/// The kind of a JSON-RPC message, as far as the limits and scopes depend on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageKind<'a> {
    /// `initialize`, or a message whose method cannot be read. It may open a session.
    Initialize,
    /// A call of the tool with this name.
    CallTool(Cow<'a, str>),
    Other,
}

#[derive(Deserialize)]
struct WithMethod<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    params: CallParams<'a>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl<'a> MessageKind<'a> {
    /// Reads the kind of the message in `body`. rmcp parses and validates the message afterwards.
    pub(super) fn of(body: &'a [u8]) -> Self {
        let Ok(WithMethod { method }) = serde_json::from_slice(body) else { return Self::Initialize };
        match method.as_deref() {
            Some("initialize") => Self::Initialize,
            // Without a readable name, rmcp rejects the call, or the pipeline checks its scopes.
            Some("tools/call") => serde_json::from_slice(body)
                .map_or(Self::Other, |call: Call<'a>| Self::CallTool(call.params.name)),
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MessageKind;

    #[test]
    fn kind_depends_on_the_method() {
        for (body, kind) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, MessageKind::Initialize),
            (r#"{"method":"initialize","method":"ping"}"#, MessageKind::Initialize),
            ("{", MessageKind::Initialize),
            (r#"{"method":"ping"}"#, MessageKind::Other),
            (r#"{"id":1,"result":{}}"#, MessageKind::Other),
            (
                r#"{"method":"tools/call","params":{"arguments":{"x":[1]},"name":"a\u0064d"}}"#,
                MessageKind::CallTool("add".into()),
            ),
            (r#"{"method":"tools/call","params":{"name":1}}"#, MessageKind::Other),
        ] {
            assert_eq!(MessageKind::of(body.as_bytes()), kind, "{body}");
        }
    }
}
