#[cfg(test)]
mod tests;

use std::{
    mem::{replace, take},
    ops::Range,
};

use haft_core::limits::LINE_BYTES;
use memchr::memchr2;

/// Cuts the bytes of a stream into server-sent events (WHATWG HTML, section 9.2), and gives the data of each.
///
/// Time is linear in the bytes and memory is bounded, which the parsers at hand do not promise for one event that
/// comes in many pieces.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    bytes: Vec<u8>,
    /// Where the line begins that is not complete.
    line: usize,
    /// How far that line was searched for its end.
    searched: usize,
    /// Where the data of the event stands in the bytes, as long as it is one line.
    one_line: Option<Range<usize>>,
    /// The data, where it is more than that.
    data: Vec<u8>,
    has_data: bool,
    /// Whether the event is named `error`, or is an `error` in place of data.
    is_error: bool,
    /// A line feed at the beginning belongs to the line end before it.
    after_return: bool,
    /// A byte order mark may stand before the first line.
    has_begun: bool,
}

/// How much memory is kept for data of the next events, in bytes.
const KEPT: usize = 64 << 10;

/// What a server says at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerEvent<'p> {
    pub(super) data: &'p mut [u8],
    /// Whether it says of itself that it is an error.
    pub(super) is_error: bool,
}

/// An event is longer than [`LINE_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl EventParser {
    /// Takes more bytes. Read the events that they complete before the next ones.
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> Result<(), TooLong> {
        self.keep_line();
        self.bytes.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        let data = if self.has_data { self.data.len() } else { 0 };
        if self.bytes.len() + data + bytes.len() > LINE_BYTES {
            return Err(TooLong);
        }
        if self.bytes.is_empty() {
            self.bytes = bytes;
        } else {
            self.bytes.extend(bytes);
        }
        Ok(())
    }

    /// The next event that is complete.
    pub(super) fn next_event(&mut self) -> Option<ServerEvent<'_>> {
        if !self.has_data && self.data.capacity() > KEPT {
            self.data = Vec::new();
        }
        while let Some((start, end)) = self.next_line() {
            if start != end {
                self.take_line(start, end);
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

    /// The event whose last line ends nowhere. By the specification it is dropped, but servers close
    /// after `data: [DONE]`.
    pub(super) fn last_event(&mut self) -> Option<ServerEvent<'_>> {
        self.take_line(self.line, self.bytes.len());
        self.line = self.bytes.len();
        self.take_event()
    }

    fn take_event(&mut self) -> Option<ServerEvent<'_>> {
        let is_error = take(&mut self.is_error);
        if !take(&mut self.has_data) {
            return None;
        }
        let data = match self.one_line.take() {
            Some(line) => self.bytes.get_mut(line)?,
            None => &mut self.data,
        };
        Some(ServerEvent { data, is_error })
    }

    /// Keeps the one line of data there is, before its bytes go or another line comes.
    fn keep_line(&mut self) {
        if let Some(line) = self.one_line.take() {
            self.data.clear();
            self.data.extend_from_slice(self.bytes.get(line).unwrap_or_default());
        }
    }

    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.after_return && self.line < self.bytes.len() {
            self.after_return = false;
            if self.bytes.get(self.line) == Some(&b'\n') {
                self.line += 1;
                self.searched = self.line;
            }
        }
        let rest = self.bytes.get(self.searched..)?;
        let Some(length) = memchr2(b'\n', b'\r', rest) else {
            self.searched = self.bytes.len();
            return None;
        };
        let (start, end) = (self.line, self.searched + length);
        self.after_return = self.bytes.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = self.line;
        Some((start, end))
    }

    /// Keeps what a line says, if it says data.
    fn take_line(&mut self, start: usize, end: usize) {
        let mut line = self.bytes.get(start..end).unwrap_or_default();
        if !replace(&mut self.has_begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        let value = value(line, b"data").or_else(|| {
            self.is_error |= value(line, b"event") == Some(b"error");
            // llama.cpp put errors into a field of their own, until autumn 2025.
            let error = value(line, b"error");
            self.is_error |= error.is_some();
            error
        });
        let Some(value) = value else { return };
        let value = end - value.len()..end;
        if !replace(&mut self.has_data, true) {
            self.one_line = Some(value);
            return;
        }
        self.keep_line();
        self.data.push(b'\n');
        self.data.extend_from_slice(self.bytes.get(value).unwrap_or_default());
    }
}

/// The value of a line, if it has the name.
fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
