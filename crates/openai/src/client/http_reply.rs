use std::{error::Error, mem, time::Duration};

use haft_core::{
    limits::LINE_BYTES,
    model::{ModelError, TimeoutPhase},
};
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_ENCODING, HeaderMap},
};
use tokio::time::timeout;

use super::clock::Clock;

/// Limit for the body of an error.
const ERROR_BYTES: usize = 64 << 10;

/// Wait for the body of an error. The status is known already.
const ERROR_WAIT: Duration = Duration::from_secs(5);

/// Limits for reading to the end of a reply after its last relevant event.
const END_WAIT: Duration = Duration::from_millis(50);
const END_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Beginnings of an event stream, after whitespace.
const EVENTS: [&[u8]; 6] = [b":", b"data:", b"event:", b"id:", b"retry:", b"error:"];

/// A response whose head was received.
pub(super) struct HttpReply {
    response: Response,
    clock: Clock,
    /// The current timeout: first byte, then idle.
    phase: TimeoutPhase,
    /// Bytes that were read to detect the kind of the reply.
    begun: Vec<u8>,
    is_event_stream: Option<bool>,
}

impl HttpReply {
    pub(super) fn new(response: Response, clock: Clock) -> Self {
        let phase = TimeoutPhase::FirstByte;
        Self { response, clock, phase, begun: Vec::new(), is_event_stream: None }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The compression of the body, which some proxies add without being asked.
    pub(super) fn compression(&self) -> Option<String> {
        // Others, such as `none` and `utf-8`, are not compressions.
        const CODINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];
        let encoding = self.headers().get(CONTENT_ENCODING)?.to_str().ok()?.trim();
        let is_known = |part: &str| CODINGS.iter().any(|coding| part.trim().eq_ignore_ascii_case(coding));
        encoding.split(',').any(is_known).then(|| encoding.to_owned())
    }

    /// Detects an event stream by its first bytes. Some servers stream without being asked, some do
    /// not although they were asked, and some send the wrong content type. Anything else is a body:
    /// JSON or HTML.
    pub(super) async fn is_event_stream(&mut self) -> Result<bool, ModelError> {
        if let Some(known) = self.is_event_stream {
            return Ok(known);
        }
        if let Some(encoding) = self.compression() {
            let reason = format!("it is compressed ({encoding}), which was not asked for");
            return Err(ModelError::InvalidResponse(reason));
        }
        let is_one = loop {
            self.drop_blanks();
            let (begun, open) = (&self.begun, |whole: &[u8]| whole.starts_with(&self.begun));
            if EVENTS.iter().any(|beginning| begun.starts_with(beginning)) {
                break true;
            }
            if !open(BYTE_ORDER_MARK) && !EVENTS.iter().any(|beginning| open(beginning)) {
                break false;
            }
            match self.read().await? {
                Some(bytes) if self.begun.is_empty() => self.begun = bytes,
                Some(bytes) => self.begun.extend(bytes),
                None => break false,
            }
        };
        self.is_event_stream = Some(is_one);
        Ok(is_one)
    }

    /// Drops leading whitespace and a byte order mark.
    fn drop_blanks(&mut self) {
        let text = self.begun.trim_ascii_start();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim_ascii_start();
        self.begun.drain(..self.begun.len() - text.len());
    }

    /// The next bytes. `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        if self.begun.is_empty() { self.read().await } else { Ok(Some(mem::take(&mut self.begun))) }
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        let read = self.clock.wait(self.phase, self.response.chunk()).await?;
        self.phase = TimeoutPhase::Idle;
        read.map(|bytes| bytes.map(Vec::from)).map_err(|error| {
            let reason = root_cause(&error.without_url());
            ModelError::Truncated { reason, partial: Box::default() }
        })
    }

    /// The whole body of a reply that is not a stream.
    pub(super) async fn body(&mut self) -> Result<Vec<u8>, ModelError> {
        // Most bodies arrive in one piece.
        let mut body = self.chunk().await?.unwrap_or_default();
        loop {
            if body.len() > LINE_BYTES {
                return Err(ModelError::InvalidResponse(format!("it is longer than {LINE_BYTES} bytes")));
            }
            match self.chunk().await? {
                Some(bytes) => body.extend(bytes),
                None => return Ok(body),
            }
        }
    }

    /// Reads to the end of the reply, so that the connection can be reused. The end arrives in a
    /// separate chunk.
    pub(super) async fn end(&mut self) {
        let mut left = END_BYTES;
        let reading = async {
            while let Ok(Some(bytes)) = self.response.chunk().await {
                match left.checked_sub(bytes.len()) {
                    Some(less) => left = less,
                    None => break,
                }
            }
        };
        // On timeout the connection is closed.
        let _ = timeout(END_WAIT, reading).await;
    }

    /// The first bytes of an error body, up to the limits.
    pub(super) async fn beginning(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(bytes)) = self.chunk().await {
                body.extend(bytes);
                if body.len() > ERROR_BYTES {
                    break;
                }
            }
        };
        // A partial body is enough.
        let _ = timeout(ERROR_WAIT, reading).await;
        body
    }
}

/// The last error of a chain, which has the cause. Those above only have the place.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}
