//! The parts of a question.

use serde_json::json;

/// What a person asked, as far as nothing has been planned for it yet.
///
/// A small model that says freely what is needed begins to make things up. So it may only point at words of the
/// question, from its beginning to its end: that is also what ends its planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    text: String,
}

/// Longer questions are mostly material; pointing into them costs the grammar too much.
const LONGEST: usize = 2000;
/// What stands behind a word and is no part of it.
const PUNCTUATION: [char; 6] = [',', '.', ';', ':', '?', '!'];

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // What is needed stands on one line, with nothing but spaces in it.
        Self { text: text.split_whitespace().collect::<Vec<_>>().join(" ") }
    }

    /// Whether there is still something to point at.
    pub(super) fn is_open(&self) -> bool {
        self.words() > 1
    }

    /// Leaves what stands behind the part that has been planned for.
    pub(super) fn settle(&mut self, part: &str) {
        if let Some((_, behind)) = self.text.split_once(part) {
            self.text = behind.to_owned();
        }
    }

    /// The terminals of the grammar that `NEED` is made of: some words of the question that follow one another, two
    /// of them at least if there are two. `None` where there is nothing to point at, or too much.
    pub(super) fn terminals(&self) -> Option<String> {
        match self.words() {
            0 => None,
            _ if self.text.len() > LONGEST => None,
            1 => Some(self.pointing(r"/\S+/")),
            _ => Some(self.pointing(r"/\S+ [^\n]*\S/")),
        }
    }

    fn pointing(&self, shape: &str) -> String {
        format!("NEED: WORDS & {shape}\nWORDS: %regex {}", json!({"substring_chunks": self.chunks()}))
    }

    fn words(&self) -> usize {
        self.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
    }

    /// Words, what stands behind them, and the space between them, each on its own.
    fn chunks(&self) -> Vec<&str> {
        let mut chunks = Vec::new();
        for piece in self.text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end().trim_end_matches(PUNCTUATION);
            let (word, behind) = piece.split_at(word.len());
            let (punctuation, space) = behind.split_at(behind.trim_end().len());
            chunks.extend([word, punctuation, space].into_iter().filter(|chunk| !chunk.is_empty()));
        }
        chunks
    }
}

/// What is needed in words of the model's own. A model that begins to write a call there makes its arguments up.
pub(super) const FREE: &str = r"NEED: /[^\n(){}_=]{1,80}/";
