/// The size of the current event of a stream, for its limit.
pub(super) struct EventSize {
    limit: usize,
    size: usize,
    line: Line,
    previous: u8,
}

/// The current line of a stream.
enum Line {
    Empty,
    Comment,
    Field,
}

impl EventSize {
    /// Creates a counter for events with at most `limit` bytes. Comments are not counted, because
    /// the parser does not keep them.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, size: 0, line: Line::Empty, previous: 0 }
    }

    /// Counts `chunk`, the next bytes of the stream. Returns `false` if an event is too long.
    pub(super) fn add(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            match (byte, self.previous, &self.line) {
                (b'\n', b'\r', _) => {}
                // An empty line ends an event.
                (b'\n' | b'\r', _, Line::Empty) => self.size = 0,
                (b'\n' | b'\r', _, _) => self.line = Line::Empty,
                (b':', _, Line::Empty) => self.line = Line::Comment,
                (_, _, Line::Comment) => {}
                _ => {
                    self.line = Line::Field;
                    self.size += 1;
                }
            }
            self.previous = *byte;
            if self.size > self.limit {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::EventSize;

    /// Each event has its own limit, for each form of line end and each division into chunks.
    #[test]
    fn long_event_is_found() {
        for end in ["\n", "\r\n", "\r"] {
            for (lines, expected) in [
                (&["data: 12", "", "data: 34", ""][..], true),
                (&["data: 1", "", ": a long comment", "data: 2", ""], true),
                (&["data: 1", "data: 2", ""], false),
                (&["data: 123456789"], false),
            ] {
                let text: String = lines.iter().flat_map(|line| [*line, end]).collect();
                for length in [1, 2, 3, 100] {
                    let mut size = EventSize::new(8);
                    let is_short = text.as_bytes().chunks(length).all(|chunk| size.add(chunk));
                    assert_eq!(is_short, expected, "{text:?}, {length}");
                }
            }
        }
    }
}
