//! Detection of English.

use std::collections::HashSet;

use super::words::contracted_words;

/// Frequent English words that are rare in other languages.
const ENGLISH_WORDS: [&str; 52] = [
    "about",
    "and",
    "before",
    "between",
    "buy",
    "cancel",
    "could",
    "does",
    "during",
    "each",
    "every",
    "from",
    "get",
    "how",
    "into",
    "keep",
    "looking",
    "many",
    "much",
    "need",
    "our",
    "please",
    "remind",
    "schedule",
    "should",
    "than",
    "that",
    "the",
    "their",
    "them",
    "there",
    "they",
    "this",
    "those",
    "through",
    "today",
    "tomorrow",
    "tonight",
    "translate",
    "what",
    "when",
    "where",
    "which",
    "who",
    "with",
    "within",
    "without",
    "would",
    "write",
    "yesterday",
    "you",
    "your",
];
/// The minimum number of [`SHARED_WORDS`] in a text without [`ENGLISH_WORDS`].
const MIN_SHARED_WORDS: usize = 3;
/// English contractions.
const CONTRACTIONS: [&str; 14] = [
    "can't", "doesn't", "don't", "i'd", "i'll", "i'm", "i've", "it's", "let's", "we'd", "we're", "what's",
    "where's", "who's",
];
/// Frequent English words that are also words of other languages.
const SHARED_WORDS: [&str; 30] = [
    "a",
    "add",
    "after",
    "an",
    "any",
    "are",
    "around",
    "convert",
    "create",
    "days",
    "find",
    "for",
    "friday",
    "give",
    "make",
    "monday",
    "morning",
    "my",
    "now",
    "of",
    "right",
    "saturday",
    "show",
    "sunday",
    "tell",
    "thursday",
    "to",
    "tuesday",
    "turn",
    "wednesday",
];

/// Frequent words of other languages that are rare in English.
const FOREIGN_WORDS: [&str; 28] = [
    "al", "att", "che", "con", "das", "de", "del", "der", "des", "die", "een", "ein", "el", "en", "et",
    "het", "il", "la", "le", "les", "los", "med", "och", "og", "por", "pour", "un", "und",
];

/// The evidence that a text is English.
#[derive(Debug, Clone, Copy)]
pub(super) struct Language {
    /// The number of [`ENGLISH_WORDS`] and [`CONTRACTIONS`].
    english: usize,
    /// The number of [`SHARED_WORDS`].
    shared: usize,
    /// `true` if the text has one of [`FOREIGN_WORDS`].
    is_foreign: bool,
    /// `true` if the text has only ASCII letters.
    is_ascii: bool,
}

impl Language {
    /// Reads the lower-case `text`. `words` are its words.
    pub(super) fn new(text: &str, words: &HashSet<String>) -> Self {
        let count = |list: &[&str]| list.iter().filter(|word| words.contains(**word)).count();
        let is_contraction = |word: &&str| CONTRACTIONS.contains(&word.replace('\u{2019}', "'").as_str());
        let contractions = contracted_words(text)
            .filter(|word| word.contains(['\'', '\u{2019}']))
            .filter(is_contraction)
            .count();
        Self {
            english: count(&ENGLISH_WORDS) + contractions,
            shared: count(&SHARED_WORDS),
            is_foreign: count(&FOREIGN_WORDS) > 0,
            is_ascii: !text.chars().any(|letter| letter.is_alphabetic() && !letter.is_ascii()),
        }
    }

    /// Returns `true` if the text has an English word that is rare in other languages, and another
    /// frequent word. Several frequent words are sufficient if the text has no word of another
    /// language: "Add milk to my list".
    pub(super) fn is_english(self) -> bool {
        self.english > 0 && self.english + self.shared > 1
            || self.shared >= MIN_SHARED_WORDS && self.is_ascii && !self.is_foreign
    }

    /// Returns `true` if the text has a frequent English word, and only ASCII letters.
    pub(super) fn may_be_english(self) -> bool {
        self.is_ascii && self.english + self.shared > 0
    }
}
