use std::{error::Error, fmt, mem, time::Duration};

use haft_core::{
    limits::SERVER_MESSAGE_BYTES,
    model::{ModelError, TimeoutPhase},
};
use reqwest::{Response, StatusCode, header::HeaderMap};
use tokio::time::timeout;

use super::RequestTimer;
use crate::client::content_coding;

/// The size at which reading an error body stops, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The time limit for reading an error body. The limit is short, because the status already
/// identifies the error.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for reading the rest of a body after the last event. A connection can be reused
/// only after the end of the body.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// The size limit for reading the rest of a body after the last event, in bytes.
const MAX_DRAIN_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Prefixes that identify a body as an event stream: the start of a comment, and the field names.
const EVENT_STREAM_PREFIXES: [&[u8]; 6] = [b":", b"data:", b"event:", b"id:", b"retry:", b"error:"];

/// An HTTP response whose body is read on demand.
pub struct HttpReply {
    response: Response,
    timer: RequestTimer,
    /// The timeout for the next read: `FirstByte` for the first read, and then `Idle`.
    phase: TimeoutPhase,
    /// Bytes that were read to detect an event stream, and that `next_chunk` has not returned yet.
    peeked: Vec<u8>,
    is_event_stream: Option<bool>,
}

impl HttpReply {
    /// Reads the body of `response` with the timeouts of `timer`.
    pub fn new(response: Response, timer: RequestTimer) -> Self {
        let phase = TimeoutPhase::FirstByte;
        Self { response, timer, phase, peeked: Vec::new(), is_event_stream: None }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the compression of the body, or `None` if it has none. Some proxies compress a body
    /// although the request excludes it (`Accept-Encoding: identity`).
    pub fn compression(&self) -> Option<&str> {
        content_coding(&self.response)
    }

    /// Returns `true` if the body begins like an event stream, and `false` for any other body, such
    /// as JSON or HTML.
    ///
    /// The `stream` field of the request and the content type of the response are unreliable. Some
    /// servers ignore `stream`, some always stream, and some send the wrong content type.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::InvalidResponse`] if the body is compressed, and as
    /// [`next_chunk`](Self::next_chunk).
    pub async fn is_event_stream(&mut self) -> Result<bool, ModelError> {
        if let Some(known) = self.is_event_stream {
            return Ok(known);
        }
        if let Some(encoding) = self.compression() {
            let reason = format!("it is compressed ({encoding}), which the request excludes");
            return Err(ModelError::InvalidResponse(reason));
        }
        let is_stream = loop {
            self.drop_leading_whitespace();
            let (peeked, open) = (&self.peeked, |whole: &[u8]| whole.starts_with(&self.peeked));
            if EVENT_STREAM_PREFIXES.iter().any(|beginning| peeked.starts_with(beginning)) {
                break true;
            }
            if !open(BYTE_ORDER_MARK) && !EVENT_STREAM_PREFIXES.iter().any(|beginning| open(beginning)) {
                break false;
            }
            match self.read_from_response().await? {
                Some(bytes) if self.peeked.is_empty() => self.peeked = bytes,
                Some(bytes) => self.peeked.extend(bytes),
                None => break false,
            }
        };
        self.is_event_stream = Some(is_stream);
        Ok(is_stream)
    }

    /// Drops leading whitespace and a byte order mark from the peeked bytes.
    fn drop_leading_whitespace(&mut self) {
        let text = self.peeked.trim_ascii_start();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim_ascii_start();
        self.peeked.drain(..self.peeked.len() - text.len());
    }

    /// Returns the next bytes of the body, or `None` at its end.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::Truncated`] if the connection is lost, or with
    /// [`ModelError::TimedOut`]: the first byte and each pause have a timeout.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        if self.peeked.is_empty() {
            self.read_from_response().await
        } else {
            Ok(Some(mem::take(&mut self.peeked)))
        }
    }

    async fn read_from_response(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        let read = self.timer.run(self.phase, self.response.chunk()).await?;
        self.phase = TimeoutPhase::Idle;
        read.map(|bytes| bytes.map(Vec::from)).map_err(|error| {
            let reason = root_cause(&error.without_url());
            ModelError::Truncated { reason, partial: Box::default() }
        })
    }

    /// Reads the whole body of a non-streamed reply.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::InvalidResponse`] if it is longer than [`SERVER_MESSAGE_BYTES`],
    /// and as [`next_chunk`](Self::next_chunk).
    pub async fn read_body(&mut self) -> Result<Vec<u8>, ModelError> {
        // Most bodies arrive in one chunk, which needs no copy.
        let mut body = self.next_chunk().await?.unwrap_or_default();
        loop {
            if body.len() > SERVER_MESSAGE_BYTES {
                return Err(ModelError::InvalidResponse(format!(
                    "it is longer than {SERVER_MESSAGE_BYTES} bytes"
                )));
            }
            match self.next_chunk().await? {
                Some(bytes) => body.extend(bytes),
                None => return Ok(body),
            }
        }
    }

    /// Reads and drops the rest of the body after the last event, for at most 50 ms. The end of the
    /// body may arrive in a separate chunk, and hyper reuses a connection only after the end of the
    /// body.
    pub async fn drain(&mut self) {
        let mut left = MAX_DRAIN_BYTES;
        let reading = async {
            while let Ok(Some(bytes)) = self.response.chunk().await {
                match left.checked_sub(bytes.len()) {
                    Some(less) => left = less,
                    None => break,
                }
            }
        };
        // After a timeout the connection is closed instead of reused.
        let _ = timeout(DRAIN_TIMEOUT, reading).await;
    }

    /// Reads the beginning of an error body: 64 KiB, or what arrives within 5 seconds.
    pub async fn read_error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(bytes)) = self.next_chunk().await {
                body.extend(bytes);
                if body.len() > MAX_ERROR_BYTES {
                    break;
                }
            }
        };
        // After a timeout, the part received so far is used.
        let _ = timeout(ERROR_BODY_TIMEOUT, reading).await;
        body
    }
}

/// The debug output contains neither the URL nor the body.
impl fmt::Debug for HttpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReply").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Returns the text of the innermost source of `error`, because the outer errors describe only the
/// context.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}
