//! The replies of a scripted server, and the faults in them.

use super::error_reply::{ErrorKind, ErrorPlace, Gateway};

/// A scripted reply to one HTTP request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) content: Content,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(String),
    Calls(Vec<Call>),
    Error { kind: ErrorKind, place: ErrorPlace, gateway: Option<Gateway> },
    Status { code: u16, body: String },
    Silence,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
}

impl Reply {
    /// A text answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_content(Content::Text(text.into()))
    }

    /// A reply with tool calls. Each call is a tuple of its id, the name of the tool, and the
    /// arguments as JSON text.
    pub fn calls<T: Into<String>>(calls: impl IntoIterator<Item = (T, T, T)>) -> Self {
        let calls = calls.into_iter().map(|(id, name, arguments)| Call {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        });
        Self::from_content(Content::Calls(calls.collect()))
    }

    /// An error in the form of OpenAI, with the status that OpenAI sends for it.
    pub fn error(kind: ErrorKind) -> Self {
        Self::error_at(kind, ErrorPlace::Status, None)
    }

    /// An error at a place of the response, optionally wrapped by a gateway.
    pub fn error_at(kind: ErrorKind, place: ErrorPlace, gateway: Option<Gateway>) -> Self {
        Self::from_content(Content::Error { kind, place, gateway })
    }

    /// A response with this HTTP status code and body.
    pub fn status(code: u16, body: impl Into<String>) -> Self {
        Self::from_content(Content::Status { code, body: body.into() })
    }

    /// No response. The connection stays open until the client closes it.
    pub fn silence() -> Self {
        Self::from_content(Content::Silence)
    }

    /// Adds `fault` to the reply, in place of an earlier fault. A fault about calls has no effect
    /// on a text, and a fault about a stream has none on a whole reply.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    fn from_content(content: Content) -> Self {
        Self { content, fault: None }
    }
}

/// A fault of real servers in a reply with text or calls. A fault about indices, `[DONE]` or pieces
/// of a name has no effect on a reply of the Responses API, which has none of them.
///
/// A reply with a fault for which [`Fault::is_readable`] returns `true` is complete, and a client
/// reads it. The others end in an error, or the client asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Streams: the name of a call arrives in pieces, before its arguments.
    NameInPieces,
    /// Streams: the name of a call arrives in pieces that also contain pieces of the arguments.
    NameBesideArguments,
    /// Streams: each piece of a call repeats its id and its name.
    NameRepeated,
    /// Streams: no piece has an `index`. The id is in the first piece of a call only.
    IndexMissing,
    /// Streams: all calls have the index 0.
    IndexRepeated,
    /// Streams: each piece of a call has another index.
    IndexDrifting,
    /// Calls without an id.
    IdMissing,
    /// All calls of a reply have the same id.
    IdRepeated,
    /// Arguments are a JSON object instead of a text.
    ArgumentsAsObject,
    /// Calls without the member `type`, and a message without `role` and `content`.
    MembersMissing,
    /// The finish reason of calls is `stop`.
    FinishReasonStop,
    /// The finish reason is a word that no specification has.
    FinishReasonUnknown,
    /// Streams: CRLF line ends, comments, and no space after `data:`.
    EventForms,
    /// Streams: no `[DONE]` after the finish reason.
    DoneMissing,
    /// Streams: a `null` before each event.
    NullEvents,
    /// Numbers of tokens, or the whole usage, are `null`.
    UsageNull,
    /// A byte order mark before the body.
    ByteOrderMark,
    /// Each byte of the body is written alone.
    SingleBytes,
    /// Calls without a name.
    NameMissing,
    /// The arguments end in the middle, with the finish reason `length`.
    ArgumentsCut,
    /// The finish reason announces calls, but the reply has none.
    CallsMissing,
    /// The reply has no choice.
    ChoicesEmpty,
    /// The body ends in the middle: a stream without finish reason, or half a JSON text.
    BodyCut,
    /// The connection is closed in the middle of the body, before the announced length.
    ConnectionCut,
    /// The second half of the body is never sent. The connection stays open.
    Stalled,
}

impl Fault {
    /// All faults.
    pub const ALL: &[Self] = &[
        Self::NameInPieces,
        Self::NameBesideArguments,
        Self::NameRepeated,
        Self::IndexMissing,
        Self::IndexRepeated,
        Self::IndexDrifting,
        Self::IdMissing,
        Self::IdRepeated,
        Self::ArgumentsAsObject,
        Self::MembersMissing,
        Self::FinishReasonStop,
        Self::FinishReasonUnknown,
        Self::EventForms,
        Self::DoneMissing,
        Self::NullEvents,
        Self::UsageNull,
        Self::ByteOrderMark,
        Self::SingleBytes,
        Self::NameMissing,
        Self::ArgumentsCut,
        Self::CallsMissing,
        Self::ChoicesEmpty,
        Self::BodyCut,
        Self::ConnectionCut,
        Self::Stalled,
    ];

    /// Returns `true` if the reply is complete, so that a client can read it.
    pub const fn is_readable(self) -> bool {
        !matches!(
            self,
            Self::NameMissing
                | Self::ArgumentsCut
                | Self::CallsMissing
                | Self::ChoicesEmpty
                | Self::BodyCut
                | Self::ConnectionCut
                | Self::Stalled
        )
    }
}
