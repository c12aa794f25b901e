use tokio::io::{self, AsyncBufReadExt as _, AsyncRead, BufReader};

/// What is kept of both ends of a line that is too long, to find out whom it answers.
const KEPT: usize = 1024;

/// One line that a peer wrote.
pub(crate) enum Line {
    /// The line, without its end.
    Whole(Vec<u8>),
    /// A line longer than the limit; all but its ends was dropped while it was read.
    TooLong { head: Vec<u8>, tail: Vec<u8>, length: usize },
}

impl Line {
    /// What is there of its beginning.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Self::Whole(line) => line,
            Self::TooLong { head, .. } => head,
        }
    }
}

/// Reads lines of bounded length.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    partial: Partial,
}

struct Partial {
    limit: usize,
    length: usize,
    bytes: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        let partial = Partial { limit, length: 0, bytes: Vec::new(), tail: Vec::new() };
        Self { reader: BufReader::new(reader), partial }
    }

    /// The next line; none at the end. Dropping the future loses nothing: the next one goes on.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((self.partial.length > 0).then(|| self.partial.take()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let used = part.len() + usize::from(end.is_some());
            self.partial.push(part);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.partial.take()));
            }
        }
    }
}

impl Partial {
    fn push(&mut self, part: &[u8]) {
        self.length += part.len();
        if self.length <= self.limit {
            self.bytes.extend_from_slice(part);
            return;
        }
        if self.tail.is_empty() {
            self.bytes.truncate(KEPT);
            self.bytes.extend(part.iter().take(KEPT.saturating_sub(self.bytes.len())));
            self.bytes.shrink_to_fit();
        }
        self.tail.extend_from_slice(part);
        let surplus = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..surplus);
    }

    fn take(&mut self) -> Line {
        let length = std::mem::take(&mut self.length);
        let (bytes, tail) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.tail));
        if length <= self.limit { Line::Whole(bytes) } else { Line::TooLong { head: bytes, tail, length } }
    }
}
