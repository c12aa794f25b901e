//! The HTTP of a scripted server: one request and one response per connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::error_reply::{ErrorPlace, error_body};
use super::reply::{Content, Fault, Reply};
use super::{chat_completions, responses};

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
        let path = self.head.split(' ').nth(1).unwrap_or_default();
        if path.ends_with("/responses") { Api::Responses } else { Api::ChatCompletions }
    }

    fn is_streamed(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true))
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
            (kind.status(), error_body(*kind, *gateway).to_string())
        }
        Content::Error { kind, place, gateway } if request.is_streamed() => {
            let text = (*place == ErrorPlace::Stream).then(|| api.text_event());
            let events: Vec<_> = text.into_iter().chain([error_body(*kind, *gateway)]).collect();
            return Some(event_stream(&events, reply.fault));
        }
        Content::Error { kind, gateway, .. } => (200, error_body(*kind, *gateway).to_string()),
        content if request.is_streamed() => {
            return Some(event_stream(&api.events(content, reply.fault), reply.fault));
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
        }
    }

    fn events(self, content: &Content, fault: Option<Fault>) -> Vec<Value> {
        match self {
            Self::ChatCompletions => chat_completions::events(content, fault),
            Self::Responses => responses::events(content, fault),
        }
    }

    fn text_event(self) -> Value {
        match self {
            Self::ChatCompletions => chat_completions::text_event(),
            Self::Responses => responses::text_event(),
        }
    }
}

fn event_stream(events: &[Value], fault: Option<Fault>) -> Response {
    let (before, after) = match fault {
        Some(Fault::EventForms) => (": keep-alive\r\n\r\ndata:", "\r\n\r\n"),
        _ => ("data: ", "\n\n"),
    };
    let mut body = String::new();
    for event in events {
        if fault == Some(Fault::NullEvents) {
            body += &format!("{before}null{after}");
        }
        body += &format!("{before}{event}{after}");
    }
    if fault != Some(Fault::DoneMissing) {
        body += &format!("{before}[DONE]{after}");
    }
    Response { status: 200, media_type: EVENTS, headers: "", body }
}
