//! Grammar rules for the need that the model states before a call: a quotation from the question,
//! or a text in the model's own words.

use serde_json::json;

/// The part of a question for which no call is planned yet.
///
/// A small model invents needs if it states them in its own words. Therefore it must quote
/// consecutive words of the question, and each quotation must follow the previous quotation. When
/// the end of the question is reached, no further call is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    text: String,
    /// `true` if a call is planned for a part of the question.
    is_continued: bool,
    /// `true` if the text begins with a part that needs another call: the next item of a list, or
    /// the next part of a need that was split.
    has_open_part: bool,
}

/// The maximum length of a question in bytes. A longer question usually contains pasted text, and
/// the grammar that permits only quotations from it would be too large.
const MAX_QUESTION_BYTES: usize = 2000;
/// The maximum length of a question in bytes that is a need as a whole.
const MAX_SINGLE_NEED_BYTES: usize = 120;
/// Punctuation that may follow a word.
const PUNCTUATION: [char; 6] = [',', '.', ';', ':', '?', '!'];

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // A need is stated on a single line, with single spaces between words.
        Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            is_continued: false,
            has_open_part: false,
        }
    }

    /// Returns `true` if a word of the question is left for further calls.
    pub(super) fn is_open(&self) -> bool {
        self.word_count() > 0
    }

    /// Removes the text up to the end of `part`, the need for a call that is now planned. Does
    /// nothing if the rest of the question does not contain `part`.
    ///
    /// `values` are the texts among the arguments of the call. If one of them is an item of a list
    /// in `part`, and it is not the last item, the rest of the list is kept: "the lights in the
    /// kitchen and the hallway" needs two calls. If all of them are in the last item, the text
    /// before this item is kept.
    pub(super) fn advance_past(&mut self, part: &str, values: &[String]) {
        self.is_continued = true;
        self.has_open_part = false;
        let Some(start) = self.text.find(part) else { return };
        let end = start + part.len();
        let first_item = end_of_first_item(part, values);
        let rest = first_item.map_or(end, |length| start + length);
        let before =
            start_of_last_item(part, values).and_then(|length| part.get(..length)).unwrap_or_default();
        self.text = format!("{before}{}", self.text.get(rest..).unwrap_or_default());
        self.has_open_part = self.is_open() && (first_item.is_some() || !before.is_empty());
    }

    /// Records that the open text needs another call.
    pub(super) fn require_call(&mut self) {
        self.has_open_part = self.is_open();
    }

    /// Returns `true` if the open text needs another call.
    pub(super) fn requires_call(&self) -> bool {
        self.has_open_part
    }

    /// Returns `need`, a quotation from the question, with the words before it in its sentence. A
    /// small model quotes too little: "the second one" of "Which album is the second one on?".
    pub(super) fn with_sentence_start(&self, need: &str) -> String {
        let Some((before, _)) = self.text.split_once(need) else { return need.to_owned() };
        let sentence = [". ", "! ", "? "].iter().filter_map(|end| before.rfind(end).map(|at| at + end.len()));
        let before = before.get(sentence.max().unwrap_or(0)..).unwrap_or_default();
        format!("{}{need}", before.trim_start())
    }

    /// Returns the whole question as a need, if it is a single sentence without a list or a
    /// conjunction.
    pub(super) fn as_single_need(&self) -> Option<String> {
        let need = self.text.trim_end_matches(PUNCTUATION);
        let has_parts = SEPARATORS.iter().chain(&PART_SEPARATORS).any(|separator| need.contains(separator));
        (need.contains(' ') && need.len() <= MAX_SINGLE_NEED_BYTES && !has_parts).then(|| need.to_owned())
    }

    /// Returns the parts of the open text that may have needs of their own: its sentences, and the
    /// parts of a sentence between conjunctions. A part has at least two words. Returns no parts if
    /// there is only one.
    pub(super) fn parts(&self) -> Vec<String> {
        let mut parts = vec![self.text.as_str()];
        for separator in PART_SEPARATORS {
            parts = parts.into_iter().flat_map(|part| part.split(separator)).collect();
        }
        let trimmed = parts.into_iter().map(|part| part.trim_matches(PUNCTUATION).trim());
        let long: Vec<_> = trimmed.filter(|part| part.contains(' ')).map(str::to_owned).collect();
        if long.len() > 1 { long } else { Vec::new() }
    }

    /// Returns the grammar rules that define the terminal `NEED` as two or more consecutive words
    /// of the question. After the first call, and if only one word is left, a single word is
    /// sufficient: the need for the second call of "the weather in Hanoi and Lahore" is "Lahore".
    ///
    /// Returns `None` if no words are left, or if the question is too long.
    pub(super) fn need_rules(&self) -> Option<String> {
        match self.word_count() {
            0 => None,
            _ if self.text.len() > MAX_QUESTION_BYTES => None,
            1 => Some(self.quoting_rules(r"/\S+/")),
            _ if self.is_continued => Some(self.quoting_rules(r"/\S+( [^\n]*\S)?/")),
            _ => Some(self.quoting_rules(r"/\S+ [^\n]*\S/")),
        }
    }

    fn quoting_rules(&self, shape: &str) -> String {
        format!("NEED: WORDS & {shape}\nWORDS: %regex {}", json!({"substring_chunks": self.chunks()}))
    }

    fn word_count(&self) -> usize {
        self.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
    }

    /// Splits the question into words, punctuation and whitespace.
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

/// The grammar rule for a need of at most 80 characters in the model's own words. Parentheses,
/// braces, `_` and `=` are excluded, because the model would otherwise begin a call with invented
/// arguments.
pub(super) const FREE_NEED_RULE: &str = r"NEED: /[^\n(){}_=]{1,80}/";

/// The texts between the parts of a question.
const PART_SEPARATORS: [&str; 8] = [". ", "? ", "! ", "; ", ", and ", " and ", ", then ", ", but "];

/// The texts between the items of a list.
const SEPARATORS: [&str; 7] = [", ", " and ", " or ", " & ", " und ", " et ", " y "];

/// Returns the length of the beginning of `part` that ends with the last of `values`, if an item of
/// a list follows it.
fn end_of_first_item(part: &str, values: &[String]) -> Option<usize> {
    let part = part.to_lowercase();
    let ends = values.iter().filter_map(|value| part.find(value.as_str()).map(|start| start + value.len()));
    let end = ends.max()?;
    let rest = part.get(end..)?.trim_start_matches(['"', '\'']);
    SEPARATORS.iter().any(|separator| rest.starts_with(separator)).then_some(end)
}

/// Returns the start of the list item in `part` that has all of `values` that `part` contains, if
/// other items precede it.
fn start_of_last_item(part: &str, values: &[String]) -> Option<usize> {
    let part = part.to_lowercase();
    let long = values.iter().filter(|value| value.chars().count() > 1);
    let first = long.filter_map(|value| part.rfind(value.as_str())).min()?;
    let before = part.get(..first)?;
    [" and ", " or "].iter().filter_map(|separator| before.rfind(separator)).max()
}

/// Words for the result of an earlier call.
const RESULT_WORDS: [&str; 8] =
    ["result", "results", "sum", "product", "total", "outcome", "what you get", "first hit"];

/// Returns `true` if `need` is about the result of an earlier call, such as "multiply the result by
/// 6". Such a call must wait for the result.
pub(super) fn refers_to_result(need: &str) -> bool {
    let need = format!(" {} ", need.to_lowercase());
    RESULT_WORDS.iter().any(|words| need.contains(&format!(" {words} ")))
}

#[cfg(test)]
mod tests;
