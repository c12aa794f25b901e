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
    open_part: OpenPart,
}

/// The part at the beginning of an open text that needs another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenPart {
    /// The model decides if another call follows.
    Unknown,
    /// The next item of a list.
    Item,
    /// The next part of a need that was split.
    SplitNeed,
}

/// The maximum number of parts of a question for which a tool is chosen.
const MAX_PARTS: usize = 4;
/// Words at the end of a request that are no items of a list.
const POLITE_WORDS: [&str; 4] = ["please", "thank you", "thanks", "too"];
/// The maximum number of words of a list item.
const MAX_ITEM_WORDS: usize = 4;
/// The maximum length of a code, such as `AAPL` for Apple.
const MAX_CODE_LENGTH: usize = 5;
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
            open_part: OpenPart::Unknown,
        }
    }

    /// Returns the open text.
    pub(super) fn text(&self) -> &str {
        &self.text
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
        let was_item = std::mem::replace(&mut self.open_part, OpenPart::Unknown) == OpenPart::Item;
        let Some(start) = self.text.find(part) else { return };
        let end = start + part.len();
        let first_item = end_of_first_item(part, values);
        let rest = first_item.map_or(end, |length| start + length);
        let before =
            start_of_last_item(part, values).and_then(|length| part.get(..length)).unwrap_or_default();
        // Without a list before it, the text before the last item is a clause.
        let is_clause = !before.is_empty() && last_item(before).is_none();
        let before = last_item(before).unwrap_or(before);
        self.text = format!("{before}{}", self.text.get(rest..).unwrap_or_default());
        if !self.is_open() {
            return;
        }
        if is_clause {
            self.open_part = OpenPart::SplitNeed;
        } else if first_item.is_some() || !before.is_empty() || was_item {
            self.open_part = OpenPart::Item;
        }
    }

    /// Records that the open text needs another call, because the last need was split.
    pub(super) fn require_call(&mut self) {
        if self.is_open() {
            self.open_part = OpenPart::SplitNeed;
        }
    }

    /// Returns `true` if the open text needs another call.
    pub(super) fn requires_call(&self) -> bool {
        self.open_part != OpenPart::Unknown
    }

    /// Returns the next item of a list, after a call for an item before it: `Lahore` in `, Lahore
    /// and Quito`. An item has at most [`MAX_ITEM_WORDS`] words.
    pub(super) fn next_item(&self) -> Option<&str> {
        if self.open_part != OpenPart::Item {
            return None;
        }
        let mut rest = self.text.as_str();
        loop {
            rest = rest.trim_start_matches(PUNCTUATION).trim_start_matches(['"', '\'', ' ']);
            let first = SEPARATORS.iter().find_map(|separator| rest.strip_prefix(separator.trim_start()));
            match first {
                Some(after) => rest = after,
                None => break,
            }
        }
        let ends = SEPARATORS.iter().filter_map(|separator| rest.find(separator));
        let item = rest.get(..ends.min().unwrap_or(rest.len()))?.trim_end_matches(PUNCTUATION).trim();
        let is_polite = POLITE_WORDS.contains(&item.to_lowercase().as_str());
        (!item.is_empty() && !is_polite && is_item(item) && item.split(' ').count() <= MAX_ITEM_WORDS)
            .then_some(item)
    }

    /// Returns `need`, a quotation from the question, with the words before it in its sentence. A
    /// small model quotes too little: "the second one" of "Which album is the second one on?".
    pub(super) fn with_sentence_start(&self, need: &str) -> String {
        let Some((before, _)) = self.text.split_once(need) else { return need.to_owned() };
        let sentence = [". ", "! ", "? "].iter().filter_map(|end| before.rfind(end).map(|at| at + end.len()));
        let before = before.get(sentence.max().unwrap_or(0)..).unwrap_or_default();
        let start = before.trim_start();
        // A long text before the need is usually pasted.
        if start.len() > MAX_SINGLE_NEED_BYTES { need.to_owned() } else { format!("{start}{need}") }
    }

    /// Returns the whole question as a need, if it is a single sentence without a list or a
    /// conjunction.
    pub(super) fn as_single_need(&self) -> Option<String> {
        let need = self.text.trim_end_matches(PUNCTUATION);
        let has_parts = SEPARATORS.iter().chain(&PART_SEPARATORS).any(|separator| need.contains(separator));
        (need.contains(' ') && need.len() <= MAX_SINGLE_NEED_BYTES && !has_parts).then(|| need.to_owned())
    }

    /// Returns the parts of the open text that may have needs of their own: its sentences, and the
    /// parts of a sentence between conjunctions and commas. A part has at least two words. Returns
    /// no parts if there is only one.
    pub(super) fn parts(&self) -> Vec<String> {
        let mut parts = vec![self.text.as_str()];
        for separator in PART_SEPARATORS {
            parts = parts.into_iter().flat_map(|part| split_at_clauses(part, separator)).collect();
        }
        let trimmed = parts.into_iter().map(|part| part.trim_matches(PUNCTUATION).trim());
        let long = trimmed.filter(|part| part.contains(' ') && part.len() <= 2 * MAX_SINGLE_NEED_BYTES);
        let long = long.take(MAX_PARTS);
        let long: Vec<_> = long.map(str::to_owned).collect();
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
const PART_SEPARATORS: [&str; 9] = [". ", "? ", "! ", "; ", ", and ", " and ", ", then ", ", but ", ", "];
/// The first words of a phrase that is no clause.
const PHRASE_WORDS: [&str; 29] = [
    "a", "an", "all", "at", "between", "both", "by", "each", "for", "from", "her", "his", "in", "into",
    "its", "me", "my", "of", "on", "our", "per", "the", "their", "them", "to", "until", "with", "without",
    "your",
];

/// Splits `text` at each `separator` before a sentence or a clause. A clause begins with a
/// lower-case word that is no article, preposition or pronoun: the separators in `May 22, 2026`,
/// `Boston, MA` and `the kitchen and the hall` do not begin a clause.
fn split_at_clauses<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let is_clause = |rest: &str| {
        let word = rest.split(' ').next().unwrap_or_default().trim_end_matches(PUNCTUATION);
        word.chars().all(|letter| letter.is_lowercase() || letter == '\'') && !PHRASE_WORDS.contains(&word)
    };
    let ends_sentence = separator.starts_with(['.', '?', '!', ';']);
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, found) in text.match_indices(separator) {
        let next = at + found.len();
        if ends_sentence || text.get(next..).is_some_and(is_clause) {
            parts.extend(text.get(start..at));
            start = next;
        }
    }
    parts.extend(text.get(start..));
    parts
}

/// The texts between the items of a list.
const SEPARATORS: [&str; 7] = [", ", " and ", " or ", " & ", " und ", " et ", " y "];

/// Returns the length of the beginning of `part` that ends with the last of `values`, if an item of
/// a list follows it. If `values` are codes that are not in `part`, such as `AAPL` for Apple, it
/// ends before the first separator.
fn end_of_first_item(part: &str, values: &[String]) -> Option<usize> {
    let part = part.to_lowercase();
    let ends = values.iter().filter_map(|value| part.find(value.as_str()).map(|start| start + value.len()));
    let is_code = |value: &String| {
        value.len() <= MAX_CODE_LENGTH && value.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    let Some(end) = ends.max() else {
        let separator = SEPARATORS.iter().filter_map(|separator| part.find(separator)).min();
        let is_list = |end: &usize| part.get(*end..).is_some_and(is_rest_of_list);
        return separator.filter(|end| matches!(values, [value] if is_code(value)) && is_list(end));
    };
    let rest = part.get(end..)?.trim_start_matches(['"', '\'']);
    is_rest_of_list(rest).then_some(end)
}

/// Returns `true` if `item` is a single word, or if its first word is an article, a preposition, a
/// name or a number. Other texts may be clauses: `keep b.txt`.
fn is_item(item: &str) -> bool {
    let Some((first, _)) = item.split_once(' ') else { return true };
    PHRASE_WORDS.contains(&first) || !first.chars().all(char::is_lowercase)
}

/// Returns the last item of the list in `text`. Returns `None` if `text` has no list.
fn last_item(text: &str) -> Option<&str> {
    let starts =
        SEPARATORS.iter().filter_map(|separator| text.rfind(separator).map(|at| at + separator.len()));
    text.get(starts.max()?..)
}

/// Returns `true` if `rest` is the rest of a list: `, Lahore and Quito`. Its items are short, and
/// the last one follows a conjunction.
fn is_rest_of_list(rest: &str) -> bool {
    let begins = SEPARATORS.iter().any(|separator| rest.starts_with(separator));
    // "Anna or Bob" needs a single call.
    let has_conjunction = SEPARATORS.iter().skip(1).any(|separator| rest.contains(separator));
    let has_alternative = rest.contains(" or ");
    let mut items = vec![rest];
    for separator in SEPARATORS {
        items = items.into_iter().flat_map(|item| item.split(separator)).collect();
    }
    begins
        && has_conjunction
        && !has_alternative
        && items.iter().all(|item| item.split_whitespace().count() <= MAX_ITEM_WORDS)
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
