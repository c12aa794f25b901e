use tokio::io::{self, AsyncBufReadExt as _, AsyncRead, BufReader};

/// The number of bytes that are kept from the beginning and from the end of an oversized line. They
/// may contain the `id` of the message.
const MAX_EXCERPT_BYTES: usize = 1024;

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that [`Lines`] has read. An oversized line is truncated.
pub(crate) enum Line {
    /// A complete line, without the newline.
    Complete(Vec<u8>),
    /// A line that exceeds the length limit. Only `head`, its first bytes, and `tail`, its last
    /// bytes, are kept. `length` is the length of the whole line in bytes.
    TooLong { head: Vec<u8>, tail: Vec<u8>, length: usize },
}

impl Line {
    /// Returns the whole line, or the first 1,024 bytes of an oversized line.
    pub(crate) fn head(&self) -> &[u8] {
        match self {
            Self::Complete(line) => line,
            Self::TooLong { head, .. } => head,
        }
    }
}

/// A line reader with a maximum line length.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    buffer: LineBuffer,
}

/// The bytes of the current line that were read so far.
struct LineBuffer {
    limit: usize,
    length: usize,
    bytes: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        let buffer = LineBuffer { limit, length: 0, bytes: Vec::new(), tail: Vec::new() };
        Self { reader: BufReader::new(reader), buffer }
    }

    /// Reads the next line. Returns `None` at the end of the input.
    ///
    /// The method is cancel safe: a partial line is kept for the next call.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((self.buffer.length > 0).then(|| self.buffer.take()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let used = part.len() + usize::from(end.is_some());
            self.buffer.push(part);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.buffer.take()));
            }
        }
    }
}

impl LineBuffer {
    fn push(&mut self, part: &[u8]) {
        self.length += part.len();
        if self.length <= self.limit {
            self.bytes.extend_from_slice(part);
            return;
        }
        if self.tail.is_empty() {
            self.bytes.truncate(MAX_EXCERPT_BYTES);
            self.bytes.extend(part.iter().take(MAX_EXCERPT_BYTES.saturating_sub(self.bytes.len())));
            self.bytes.shrink_to_fit();
        }
        self.tail.extend_from_slice(part);
        let surplus = self.tail.len().saturating_sub(MAX_EXCERPT_BYTES);
        self.tail.drain(..surplus);
    }

    fn take(&mut self) -> Line {
        let length = std::mem::take(&mut self.length);
        // Programs for Windows write a byte order mark at the beginning of their output.
        if self.bytes.starts_with(BYTE_ORDER_MARK) {
            self.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        let (bytes, tail) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.tail));
        if length <= self.limit { Line::Complete(bytes) } else { Line::TooLong { head: bytes, tail, length } }
    }
}
