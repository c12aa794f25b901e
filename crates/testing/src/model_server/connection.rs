//! The HTTP of a scripted server: one request and one response per connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::error_reply::{ErrorKind, ErrorPlace, Gateway, error_body};
use super::reply::{Content, Fault, Reply};
use super::{anthropic, chat_completions, gemini, interactions, responses};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[derive(Clone)]
pub(super) struct Request {
    /// The request line and the headers, in lower case.
    pub(super) head: String,
    pub(super) body: Value,
}

/// The API that a client uses, from the path of its request.
#[derive(Clone, Copy)]
enum Api {
    ChatCompletions,
    Responses,
    Anthropic,
    Gemini,
    Interactions,
}

struct Response {
    status: u16,
    media_type: &'static str,
    headers: &'static str,
    body: String,
}

pub(super) fn read_request(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(Request { head, body: serde_json::from_slice(&body).unwrap_or_default() })
}

impl Request {
    fn api(&self) -> Api {
        let path = self.path();
        if path.ends_with("/responses") {
            Api::Responses
        } else if path.ends_with("/messages") {
            Api::Anthropic
        } else if path.contains("generatecontent") {
            Api::Gemini
        } else if path.ends_with("/interactions") {
            Api::Interactions
        } else {
            Api::ChatCompletions
        }
    }

    fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn is_streamed(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true)) || self.path().contains(":streamgeneratecontent")
    }
}

/// Sends `reply` and closes the connection, or waits until the client closes it.
pub(super) fn send(mut stream: &TcpStream, request: &Request, reply: &Reply) -> io::Result<()> {
    let Some(response) = response(request, reply) else { return wait_for_close(stream) };
    let Response { status, media_type, headers, body } = response;
    let mut body = body.into_bytes();
    if reply.fault == Some(Fault::ByteOrderMark) {
        body.splice(..0, *b"\xEF\xBB\xBF");
    }
    let whole_length = body.len();
    if let Some(Fault::BodyCut | Fault::ConnectionCut | Fault::Stalled) = reply.fault {
        body.truncate(whole_length / 2);
    }
    // The end of a cut body is no HTTP error, the end of a cut connection is one.
    let length = if reply.fault == Some(Fault::BodyCut) { body.len() } else { whole_length };
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\ncontent-type: {media_type}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    if reply.fault == Some(Fault::SingleBytes) {
        stream.set_nodelay(true)?;
        return body.chunks(1).try_for_each(|byte| stream.write_all(byte));
    }
    stream.write_all(&body)?;
    if reply.fault == Some(Fault::Stalled) {
        return wait_for_close(stream);
    }
    Ok(())
}

fn wait_for_close(mut stream: &TcpStream) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Returns `None` for [`Reply::silence`].
fn response(request: &Request, reply: &Reply) -> Option<Response> {
    let api = request.api();
    let (status, body) = match &reply.content {
        Content::Silence => return None,
        Content::Status { code, body } => (*code, body.clone()),
        Content::Error { kind, place: ErrorPlace::Status, gateway } => {
            (api.error_status(*kind, *gateway), api.error_body(*kind, *gateway).to_string())
        }
        Content::Error { kind, place, gateway } if request.is_streamed() => {
            let text = if *place == ErrorPlace::Stream { api.text_events() } else { Vec::new() };
            let events: Vec<_> = text.into_iter().chain([api.error_event(*kind, *gateway)]).collect();
            return Some(api.event_stream(&events, reply.fault));
        }
        Content::Error { kind, gateway, .. } => (200, api.error_body(*kind, *gateway).to_string()),
        content if request.is_streamed() => {
            return Some(api.event_stream(&api.events(content, reply.fault), reply.fault));
        }
        content => (200, api.whole_body(content, reply.fault).to_string()),
    };
    let headers = if status == 429 { "retry-after: 0\r\n" } else { "" };
    Some(Response { status, media_type: JSON, headers, body })
}

impl Api {
    fn whole_body(self, content: &Content, fault: Option<Fault>) -> Value {
        match self {
            Self::ChatCompletions => chat_completions::whole_body(content, fault),
            Self::Responses => responses::whole_body(content, fault),
            Self::Anthropic => anthropic::whole_body(content, fault),
            Self::Gemini => gemini::whole_body(content, fault),
            Self::Interactions => interactions::whole_body(content, fault),
        }
    }

    fn events(self, content: &Content, fault: Option<Fault>) -> Vec<Value> {
        match self {
            Self::ChatCompletions => chat_completions::events(content, fault),
            Self::Responses => responses::events(content, fault),
            Self::Anthropic => anthropic::events(content, fault),
            Self::Gemini => gemini::events(content, fault),
            Self::Interactions => interactions::events(content, fault),
        }
    }

    fn text_events(self) -> Vec<Value> {
        match self {
            Self::ChatCompletions => vec![chat_completions::text_event()],
            Self::Responses => vec![responses::text_event()],
            Self::Anthropic => anthropic::text_events(),
            Self::Gemini => vec![gemini::text_event()],
            Self::Interactions => interactions::text_events(),
        }
    }

    /// Returns the error as the provider of the API sends it, or as a gateway does.
    fn error_body(self, kind: ErrorKind, gateway: Option<Gateway>) -> Value {
        match (self, gateway) {
            (Self::Anthropic, None) => anthropic::error_body(kind),
            (Self::Gemini | Self::Interactions, None) => gemini::error_body(kind),
            _ => error_body(kind, gateway),
        }
    }

    /// Returns the event of a stream with the error.
    fn error_event(self, kind: ErrorKind, gateway: Option<Gateway>) -> Value {
        let mut event = self.error_body(kind, gateway);
        if let Self::Interactions = self {
            event["event_type"] = Value::from("error");
        }
        event
    }

    fn error_status(self, kind: ErrorKind, gateway: Option<Gateway>) -> u16 {
        match (self, kind, gateway) {
            (Self::Anthropic, ErrorKind::Overloaded, None) => 529,
            (Self::Anthropic, ErrorKind::Quota, None) => 402,
            _ => kind.status(),
        }
    }

    fn event_stream(self, events: &[Value], fault: Option<Fault>) -> Response {
        let end = if fault == Some(Fault::EventForms) { "\r\n" } else { "\n" };
        let space = if fault == Some(Fault::EventForms) { "" } else { " " };
        let mut body = String::new();
        let mut add = |event: &dyn std::fmt::Display, name: Option<&str>| {
            if fault == Some(Fault::EventForms) {
                body += &format!(": keep-alive{end}{end}");
            }
            if let Some(name) = name {
                body += &format!("event:{space}{name}{end}");
            }
            body += &format!("data:{space}{event}{end}{end}");
        };
        let name_field = match self {
            Self::Anthropic => Some("type"),
            Self::Interactions => Some("event_type"),
            _ => None,
        };
        for event in events {
            if fault == Some(Fault::NullEvents) {
                add(&"null", None);
            }
            add(event, name_field.and_then(|field| event.get(field)?.as_str()));
        }
        let has_done = matches!(self, Self::ChatCompletions | Self::Responses | Self::Interactions);
        if has_done && fault != Some(Fault::DoneMissing) {
            add(&"[DONE]", None);
        }
        Response { status: 200, media_type: EVENTS, headers: "", body }
    }
}
