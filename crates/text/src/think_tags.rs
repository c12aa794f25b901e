#[cfg(test)]
mod tests;

use std::mem::take;

/// The tag that precedes the reasoning of a model.
pub const OPEN_TAG: &str = "<think>";

/// The tag that follows the reasoning of a model.
pub const CLOSE_TAG: &str = "</think>";

/// The limit on buffered whitespace, in bytes. It bounds the memory of the parser. If the
/// whitespace at the beginning reaches this limit, all text is returned unchanged. Whitespace of
/// this length after other reasoning is returned as reasoning.
const MAX_BUFFERED_SPACE_BYTES: usize = 1 << 10;

/// A parser that separates a leading `<think>…</think>` block from streamed text.
///
/// Servers without a reasoning parser (llama.cpp, vLLM and Ollama without the matching option) send
/// the reasoning of a model in the text. Only a block at the beginning is treated as reasoning. A
/// tag after other text remains text. Whitespace around the reasoning, and between the closing tag
/// and the text, is dropped. The output is the same for any division of the text into pieces. The
/// exception is reasoning that ends with 1 KiB or more of whitespace: a part of this whitespace may
/// be returned.
///
/// # Examples
///
/// ```
/// use haft_text::ThinkTagParser;
///
/// let mut parser = ThinkTagParser::default();
/// let (mut reasoning, mut text) = (String::new(), String::new());
/// for piece in ["<thi", "nk>Two and two", " make four.</thi", "nk>\n\nFour."] {
///     let split = parser.push(piece.to_owned());
///     reasoning += &split.reasoning;
///     text += &split.text;
/// }
/// assert_eq!((reasoning.as_str(), text.as_str()), ("Two and two make four.", "Four."));
/// ```
#[derive(Debug, Default)]
pub struct ThinkTagParser {
    state: State,
    /// Received text that was not returned yet, because it may be part of a tag, or whitespace that
    /// must be dropped.
    buffer: String,
}

/// The newly available reasoning and text from one [`push`](ThinkTagParser::push).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThinkSplit {
    /// The newly available reasoning, without the tags.
    pub reasoning: String,
    /// The newly available text after the closing tag, or all text if there is no block.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the end of the opening tag. The text received so far consists of whitespace and a
    /// prefix of the tag, and may be empty.
    #[default]
    Start,
    /// After the opening tag, before the first character that is not whitespace.
    Opened,
    /// Inside the reasoning.
    Inside,
    /// After the closing tag, before the first character that is not whitespace.
    Closed,
    /// In the text after the block, or in text without a block. All further text is returned
    /// unchanged.
    Text,
}

impl ThinkTagParser {
    /// Disables the parser. All further text is returned unchanged.
    pub fn disable(&mut self) {
        self.state = State::Text;
    }

    /// Adds `piece`, the next piece of the text. Returns the newly available reasoning and text.
    pub fn push(&mut self, piece: String) -> ThinkSplit {
        let mut split = ThinkSplit::default();
        if self.state == State::Text {
            split.text = if self.buffer.is_empty() { piece } else { take(&mut self.buffer) + &piece };
            return split;
        }
        self.buffer.push_str(&piece);
        while self.advance(&mut split) {}
        split
    }

    /// Returns `true` after the opening tag and before the closing tag.
    pub fn is_inside(&self) -> bool {
        matches!(self.state, State::Opened | State::Inside)
    }

    /// Marks the end of the text. Returns the text that is still buffered, as reasoning if the
    /// block is not closed. Trailing whitespace of the reasoning is dropped.
    pub fn finish(&mut self) -> ThinkSplit {
        let rest = take(&mut self.buffer);
        match self.state {
            State::Start | State::Text => ThinkSplit { text: rest, ..ThinkSplit::default() },
            State::Opened | State::Inside => {
                ThinkSplit { reasoning: rest.trim_end().to_owned(), ..ThinkSplit::default() }
            }
            State::Closed => ThinkSplit::default(),
        }
    }

    /// Enters the next state if the buffer contains enough text to decide. Returns `false` if more
    /// text is needed.
    fn advance(&mut self, split: &mut ThinkSplit) -> bool {
        let trimmed = self.buffer.trim_start();
        match self.state {
            State::Start => {
                let is_within_limit = self.buffer.len() - trimmed.len() < MAX_BUFFERED_SPACE_BYTES;
                if let Some(rest) = trimmed.strip_prefix(OPEN_TAG).filter(|_| is_within_limit) {
                    return self.enter(State::Opened, rest.to_owned());
                }
                if OPEN_TAG.starts_with(trimmed) && is_within_limit {
                    return false;
                }
                split.text = take(&mut self.buffer);
                self.enter(State::Text, String::new())
            }
            State::Opened | State::Closed if trimmed.is_empty() => {
                self.buffer.clear();
                false
            }
            State::Opened => self.enter(State::Inside, trimmed.to_owned()),
            State::Inside => {
                if let Some((reasoning, rest)) = self.buffer.split_once(CLOSE_TAG) {
                    split.reasoning.push_str(reasoning.trim_end());
                    return self.enter(State::Closed, rest.to_owned());
                }
                let end = self.buffer.len() - undecided_bytes(&self.buffer);
                split.reasoning.extend(self.buffer.drain(..end));
                false
            }
            State::Closed => {
                split.text = trimmed.to_owned();
                self.enter(State::Text, String::new())
            }
            State::Text => false,
        }
    }

    fn enter(&mut self, state: State, buffer: String) -> bool {
        (self.state, self.buffer) = (state, buffer);
        true
    }
}

/// Returns the length in bytes of the suffix of `reasoning` that must stay in the buffer, since it
/// may not belong to the reasoning: trailing whitespace, and the possible beginning of a closing
/// tag.
fn undecided_bytes(reasoning: &str) -> usize {
    let is_suffix = |part: &&str| reasoning.ends_with(*part);
    let part = (1..CLOSE_TAG.len()).rev().filter_map(|length| CLOSE_TAG.get(..length)).find(is_suffix);
    let part = part.unwrap_or_default();
    let before = reasoning.strip_suffix(part).unwrap_or(reasoning);
    let length = reasoning.len() - before.trim_end().len();
    if length < MAX_BUFFERED_SPACE_BYTES { length } else { part.len() }
}
