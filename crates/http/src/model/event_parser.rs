#[cfg(test)]
mod tests;

use std::mem::{replace, take};

use haft_core::limits::SERVER_MESSAGE_BYTES;
use memchr::memchr2;

/// A parser for server-sent events (WHATWG HTML, section 9.2.6).
///
/// Parsing takes linear time and bounded memory, even if an event arrives in many pieces. In this
/// case, `eventsource-stream` 0.2 takes quadratic time and unbounded memory. Names of events, other
/// than `error`, and ids are ignored: the events of models have a type in their data.
///
/// # Examples
///
/// ```
/// use haft_http::model::EventParser;
///
/// let mut parser = EventParser::default();
/// parser.push(b"data: {\"delta\": \"hel".to_vec())?;
/// assert_eq!(parser.next_event(), None);
/// parser.push(b"lo\"}\n\ndata: [DONE]\n\n".to_vec())?;
/// let data = parser.next_event().map(|event| event.data);
/// assert_eq!(data, Some(&b"{\"delta\": \"hello\"}"[..]));
/// let data = parser.next_event().map(|event| event.data);
/// assert_eq!(data, Some(&b"[DONE]"[..]));
/// # Ok::<(), haft_http::model::EventTooLong>(())
/// ```
#[derive(Debug, Default)]
pub struct EventParser {
    bytes: Vec<u8>,
    /// The offset in `bytes` at which the current line begins.
    line_start: usize,
    /// The offset in `bytes` at which the search for the next line end continues, so that no byte
    /// is searched twice.
    search_start: usize,
    /// The data received so far for the current event.
    data: Vec<u8>,
    has_data: bool,
    /// `true` if the current event has a line `event: error`, or an `error` field in place of
    /// `data`.
    is_error: bool,
    /// `true` if the previous line ended with a carriage return. A line feed directly after it
    /// belongs to the same line end.
    is_after_cr: bool,
    /// `true` after the first line. A byte order mark is accepted only before the first line.
    has_begun: bool,
}

/// The maximum capacity of the data buffer that is reused for the next event, in bytes. A larger
/// buffer is freed.
const MAX_SPARE_CAPACITY: usize = 64 << 10;

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerEvent<'p> {
    /// The lines of the data, joined with line feeds.
    pub data: &'p [u8],
    /// `true` if the event is named `error` or has an `error` field.
    pub is_error: bool,
}

/// The error for an event with more than [`SERVER_MESSAGE_BYTES`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too long")]
#[non_exhaustive]
pub struct EventTooLong;

impl EventParser {
    /// Adds the received `bytes`. Before the next `push`, call [`next_event`](Self::next_event)
    /// until it returns `None`.
    ///
    /// # Errors
    ///
    /// Fails if the current event has more than [`SERVER_MESSAGE_BYTES`].
    pub fn push(&mut self, bytes: Vec<u8>) -> Result<(), EventTooLong> {
        self.bytes.drain(..self.line_start);
        self.search_start -= self.line_start;
        self.line_start = 0;
        let data = if self.has_data { self.data.len() } else { 0 };
        if self.bytes.len() + data + bytes.len() > SERVER_MESSAGE_BYTES {
            return Err(EventTooLong);
        }
        if self.bytes.is_empty() {
            self.bytes = bytes;
        } else {
            self.bytes.extend(bytes);
        }
        Ok(())
    }

    /// Returns the next complete event, or `None` if more bytes are needed.
    pub fn next_event(&mut self) -> Option<ServerEvent<'_>> {
        if !self.has_data && self.data.capacity() > MAX_SPARE_CAPACITY {
            self.data = Vec::new();
        }
        while let Some((start, end)) = self.next_line() {
            if start != end {
                self.add_line(start, end);
                continue;
            }
            self.has_begun = true;
            if self.has_data {
                return self.take_event();
            }
            self.is_error = false;
        }
        None
    }

    /// Returns the unterminated event at the end of the stream, or `None` if it has no data. The
    /// specification discards this event, but some servers close the connection directly after
    /// `data: [DONE]`.
    pub fn last_event(&mut self) -> Option<ServerEvent<'_>> {
        self.add_line(self.line_start, self.bytes.len());
        self.line_start = self.bytes.len();
        self.take_event()
    }

    fn take_event(&mut self) -> Option<ServerEvent<'_>> {
        let is_error = take(&mut self.is_error);
        take(&mut self.has_data).then_some(ServerEvent { data: &self.data, is_error })
    }

    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.is_after_cr && self.line_start < self.bytes.len() {
            self.is_after_cr = false;
            if self.bytes.get(self.line_start) == Some(&b'\n') {
                self.line_start += 1;
                self.search_start = self.line_start;
            }
        }
        let rest = self.bytes.get(self.search_start..)?;
        let Some(length) = memchr2(b'\n', b'\r', rest) else {
            self.search_start = self.bytes.len();
            return None;
        };
        let (start, end) = (self.line_start, self.search_start + length);
        self.is_after_cr = self.bytes.get(end) == Some(&b'\r');
        self.line_start = end + 1;
        self.search_start = self.line_start;
        Some((start, end))
    }

    /// Adds the field in the line `bytes[start..end]` to the current event.
    fn add_line(&mut self, start: usize, end: usize) {
        let mut line = self.bytes.get(start..end).unwrap_or_default();
        if !replace(&mut self.has_begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        let data = field_value(line, b"data").or_else(|| {
            self.is_error |= field_value(line, b"event") == Some(b"error");
            // Until autumn 2025, llama.cpp sent errors in a field `error` instead of `data`.
            let error = field_value(line, b"error");
            self.is_error |= error.is_some();
            error
        });
        let Some(data) = data else { return };
        if replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        } else {
            self.data.clear();
        }
        self.data.extend_from_slice(data);
    }
}

/// Returns the value of the field in `line` if the field is called `name`, or else `None`.
fn field_value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
