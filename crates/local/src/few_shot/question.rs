//! Grammar rules for the need that the model states before a call: a quotation from the question,
//! or a text in the model's own words.

mod lists;

use serde_json::json;

use self::lists::{SEPARATORS, first_item, is_item, is_name, last_item, next_item, start_of_last_item};

/// The part of a question for which no call is planned yet.
///
/// A small model invents needs if it states them in its own words. Therefore it must quote
/// consecutive words of the question, and each quotation must follow the previous quotation. When
/// the end of the question is reached, no further call is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    /// The whole question.
    question: String,
    /// The open text.
    text: String,
    /// `true` if a call is planned for a part of the question.
    is_continued: bool,
    open_part: OpenPart,
    /// The words that follow each item of the list, in lower case: `line` in "the red line and the
    /// green line".
    item_head: String,
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
/// The ends of a sentence before another sentence.
const SENTENCE_ENDS: [&str; 3] = [". ", "! ", "? "];
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
        let text = with_sentence_ends(text).split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            question: text.clone(),
            text,
            is_continued: false,
            open_part: OpenPart::Unknown,
            item_head: String::new(),
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
    /// that begins in `part`, and it is not the last item, the rest of the list is kept: "the
    /// lights in the kitchen and the hallway" needs two calls. If all of them are in the last item,
    /// the text before this item is kept. A text behind `part` whose values are arguments of the
    /// call is removed: "turn on the light and dim it to 30 percent" needs a single call.
    pub(super) fn advance_past(&mut self, part: &str, values: &[String]) {
        self.is_continued = true;
        let was_item = std::mem::replace(&mut self.open_part, OpenPart::Unknown) == OpenPart::Item;
        let Some(start) = self.text.find(part) else { return };
        let end = start + part.len();
        let sentence = self.text.get(start..).unwrap_or_default();
        let sentence_end = SENTENCE_ENDS.iter().filter_map(|end| sentence.find(end)).min();
        let sentence = sentence.get(..sentence_end.unwrap_or(sentence.len()).max(part.len()));
        // The last item of a list has no item after it, only an argument that belongs to all items.
        let list = first_item(sentence.unwrap_or(part), values).filter(|_| !was_item || part.contains(' '));
        let next_phrase = || next_phrase(part, values).map(|phrase| start + phrase);
        let rest = list.as_ref().map(|item| start + item.end).or_else(next_phrase).unwrap_or(end);
        let before =
            start_of_last_item(part, values).and_then(|length| part.get(..length)).unwrap_or_default();
        // Without a list before it, the text before the last item is a clause.
        let is_clause = !before.is_empty() && last_item(before).is_none();
        let before = last_item(before).unwrap_or(before);
        let rest = self.text.get(rest..).unwrap_or_default();
        let rest = if list.is_none() { without_clause_end(rest) } else { rest };
        let rest = if list.is_none() { without_planned_clauses(rest, values) } else { rest };
        let is_done = list.is_none() && continues_call(part, rest, values);
        self.text = format!("{before}{}", if is_done { "" } else { rest });
        if !self.is_open() {
            return;
        }
        let continues_list = was_item && SEPARATORS.iter().any(|separator| self.text.starts_with(separator));
        if is_clause {
            self.open_part = OpenPart::SplitNeed;
        } else if list.is_some() || !before.is_empty() || continues_list {
            self.open_part = OpenPart::Item;
        } else if was_item {
            // The rest of the sentence belongs to all items.
            let end = SENTENCE_ENDS.iter().filter_map(|end| self.text.find(end)).min();
            self.text = self.text.split_off(end.unwrap_or(self.text.len()));
        }
        if let Some(list) = list {
            self.item_head = list.head;
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
    /// and Quito`.
    pub(super) fn next_item(&self) -> Option<&str> {
        if self.open_part != OpenPart::Item {
            return None;
        }
        let item = next_item(&self.text, &self.item_head)?;
        let is_polite = POLITE_WORDS.contains(&item.to_lowercase().as_str());
        (!is_polite && is_item(item)).then_some(item)
    }

    /// Returns the request at the beginning of the open text, after a conjunction or a sentence:
    /// `heat the hall` in ` and heat the hall`. Returns `None` if the open text begins with a
    /// statement or with the item of a list.
    pub(super) fn next_request(&self) -> Option<&str> {
        if self.open_part == OpenPart::Item {
            return None;
        }
        let (separator, rest) = REQUEST_SEPARATORS
            .iter()
            .find_map(|separator| self.text.strip_prefix(separator).map(|rest| (*separator, rest)))?;
        let part = *split_into_parts(rest).first()?;
        let first = part.split(' ').next()?.to_lowercase();
        let is_question = rest.split_once(part).is_some_and(|(_, after)| after.starts_with('?'));
        let is_sentence = separator.starts_with(['.', '?', '!']);
        let is_request = match is_sentence {
            true => is_question || !STATEMENT_WORDS.contains(&first.as_str()),
            false => !STATEMENT_WORDS.contains(&first.as_str()) || part.contains(" of "),
        };
        let is_quoted = self.question.split_once(part).is_some_and(|(before, _)| is_open_quote(before));
        (is_request && part.contains(' ') && !has_negation(part) && !is_quoted).then_some(part)
    }

    /// Returns `need`, a quotation from the question, with the words before it in its sentence. A
    /// small model quotes too little: "the second one" of "Which album is the second one on?".
    pub(super) fn with_sentence_start(&self, need: &str) -> String {
        let Some((before, _)) = self.text.split_once(need) else { return need.to_owned() };
        let sentence = SENTENCE_ENDS.iter().filter_map(|end| before.rfind(end).map(|at| at + end.len()));
        let before = before.get(sentence.max().unwrap_or(0)..).unwrap_or_default();
        let start = before.trim_start();
        // A long text before the need is usually pasted.
        if start.len() > MAX_SINGLE_NEED_BYTES { need.to_owned() } else { format!("{start}{need}") }
    }

    /// Returns the first request before `need`, a quotation from the question: "Lock my car" in
    /// "Lock my car and book an oil change". A small model skips short requests. Returns `None` if
    /// the text before `need` has no question and no imperative.
    pub(super) fn skipped_request(&self, need: &str) -> Option<String> {
        let (before, _) = self.text.split_once(need)?;
        let is_request = |part: &&str| {
            let word = part.split(' ').next().unwrap_or_default().to_lowercase();
            let is_question = before.split_once(*part).is_some_and(|(_, after)| after.starts_with('?'));
            part.contains(' ')
                && !has_negation(part)
                && (is_question || !STATEMENT_WORDS.contains(&word.as_str()))
        };
        if is_open_quote(before) {
            return None;
        }
        let parts = split_into_parts(before);
        // Without a separator at its end, the text before the need belongs to its clause.
        let complete = PART_SEPARATORS.iter().any(|separator| before.ends_with(separator));
        let count = parts.len() - usize::from(!complete && !parts.is_empty());
        parts.into_iter().take(count).find(is_request).map(str::to_owned)
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
        let parts = split_into_parts(&self.text).into_iter();
        let long = parts.filter(|part| part.contains(' ') && part.len() <= 2 * MAX_SINGLE_NEED_BYTES);
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

/// Pronouns that refer to the object of the clause before.
const PRONOUNS: [&str; 3] = ["it", "them", "its"];

/// Returns `true` if the clause at the beginning of `rest` continues the request `part` for a call
/// with the arguments `values`: it refers to an object with a pronoun, it contains one of `values`
/// that `part` does not contain, and it has no other number.
fn continues_call(part: &str, rest: &str, values: &[String]) -> bool {
    let (part, rest) = (part.to_lowercase(), rest.to_lowercase());
    let words = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_owned).collect()
    };
    let (part, words) = (words(&part), words(&rest));
    let mut numbers = words.iter().filter(|word| word.chars().any(|letter| letter.is_ascii_digit()));
    let has_value = values.iter().any(|value| words.contains(value) && !part.contains(value));
    has_value
        && !SENTENCE_ENDS.iter().any(|end| rest.contains(end))
        && numbers.all(|number| values.contains(number))
        && words.iter().any(|word| PRONOUNS.contains(&word.as_str()))
}

/// Removes the clauses at the beginning of `rest` that one of `values` contains: the text of a
/// message or of a reminder, such as "buy milk and call Kim".
fn without_planned_clauses<'a>(rest: &'a str, values: &[String]) -> &'a str {
    let mut rest = rest;
    while let Some(clause) = split_into_parts(rest).first() {
        let words = clause.to_lowercase();
        let words = words.trim_start_matches("to ").trim_start_matches("that ");
        let words = words.trim_matches(|letter: char| !letter.is_alphanumeric());
        let is_planned = words.contains(' ') && values.iter().any(|value| value.contains(words));
        let after = rest.split_once(clause).map(|(_, after)| after).filter(|_| is_planned);
        let Some(after) = after else { break };
        rest = after;
    }
    rest
}

/// Returns `text` with a full stop at the end of each line that has no punctuation. The lines are
/// often the items of a list of requests.
fn with_sentence_ends(text: &str) -> String {
    let lines = text.trim().lines().map(|line| line.trim().trim_start_matches(['-', '*', '\u{2022}']).trim());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let last = lines.len().saturating_sub(1);
    let end = |index: usize, line: &&str| match index < last && !line.ends_with(PUNCTUATION) {
        true => format!("{line}."),
        false => (*line).to_owned(),
    };
    lines.iter().enumerate().map(|(index, line)| end(index, line)).collect::<Vec<_>>().join(" ")
}

/// Removes the end of a clause at the beginning of `rest`: a small model quotes "Add a kettle" of
/// "Add a kettle to my cart and pay".
fn without_clause_end(rest: &str) -> &str {
    if !rest.starts_with(' ') {
        return rest;
    }
    let separators = SEPARATORS.iter().chain(&PART_SEPARATORS);
    let ends = separators.chain(&[" then "]).filter_map(|separator| rest.find(separator));
    ends.min().and_then(|end| rest.get(end..)).unwrap_or_default()
}

/// Returns the start of the last noun phrase of `part` after a conjunction, if none of `values` is
/// in it: ` and the volume of the cube` in "the area of the circle and the volume of the cube".
fn next_phrase(part: &str, values: &[String]) -> Option<usize> {
    let start = part.rfind(" and the ")?;
    let phrase = part.get(start..)?.to_lowercase();
    let has_value = values.iter().any(|value| phrase.contains(value.as_str()));
    (phrase.contains(" of ") && !has_value).then_some(start)
}

/// The grammar rule for a need of at most 80 characters in the model's own words. Parentheses,
/// braces, `_` and `=` are excluded, because the model would otherwise begin a call with invented
/// arguments.
pub(super) const FREE_NEED_RULE: &str = r"NEED: /[^\n(){}_=]{1,80}/";

/// The texts between the parts of a question.
const PART_SEPARATORS: [&str; 9] = [". ", "? ", "! ", "; ", ", and ", " and ", ", then ", ", but ", ", "];
/// The first words of a phrase that is no clause.
const PHRASE_WORDS: [&str; 30] = [
    "a", "an", "all", "at", "between", "both", "by", "each", "for", "from", "her", "his", "in", "into",
    "its", "me", "my", "of", "on", "one", "our", "per", "the", "their", "them", "to", "until", "with",
    "without", "your",
];

/// The texts before another request. The longest one that fits is the first.
const REQUEST_SEPARATORS: [&str; 10] =
    [", and then ", ", and ", " and then ", " and ", ", then ", " then ", "; ", ". ", "? ", "! "];
/// The first words of greetings and of statements, which are no requests.
const STATEMENT_WORDS: [&str; 44] = [
    "a",
    "an",
    "and",
    "dear",
    "good",
    "he",
    "he's",
    "hello",
    "hey",
    "hi",
    "i",
    "i'd",
    "i'll",
    "i'm",
    "i've",
    "if",
    "in",
    "it",
    "it's",
    "my",
    "now",
    "ok",
    "on",
    "our",
    "please",
    "preferably",
    "she",
    "she's",
    "thank",
    "thanks",
    "that",
    "the",
    "there",
    "there's",
    "they",
    "this",
    "today",
    "tomorrow",
    "we",
    "we're",
    "yesterday",
    "you",
    "you're",
    "your",
];
/// Words of a request not to do something.
const NEGATIONS: [&str; 10] =
    ["avoid", "don't", "don\u{2019}t", "keep", "leave", "never", "no", "not", "without", "won't"];

fn has_negation(part: &str) -> bool {
    part.split(' ').any(|word| NEGATIONS.contains(&word.to_lowercase().trim_matches(PUNCTUATION)))
}

/// Returns `true` if `before` ends within a quotation.
fn is_open_quote(before: &str) -> bool {
    let straight = before.matches('"').count() % 2 == 1;
    let curly = before.matches('\u{201c}').count() > before.matches('\u{201d}').count();
    straight || curly
}

/// Splits `text` into sentences and clauses, without the punctuation around them.
fn split_into_parts(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    for separator in PART_SEPARATORS {
        parts = parts.into_iter().flat_map(|part| split_at_clauses(part, separator)).collect();
    }
    let trimmed = parts.into_iter().map(|part| part.trim_matches(PUNCTUATION).trim());
    trimmed.filter(|part| !part.is_empty()).collect()
}

/// Returns `need` without all but the first item of a list: "Rain in Hanoi" for "Rain in Hanoi and
/// Lahore". Returns `None` if `need` has no list of names, numbers or single words.
pub(super) fn first_item_need(need: &str) -> Option<String> {
    let (at, separator) =
        [", ", " and "].iter().filter_map(|separator| Some((need.find(separator)?, *separator))).min()?;
    let (first, rest) = (need.get(..at)?, need.get(at..)?);
    let last = rest.rfind(" and ").and_then(|at| rest.get(at + " and ".len()..))?;
    let word = last.split(' ').next()?;
    let after = last.get(word.len()..)?;
    // A lower-case word must be the last word: other words may be verbs.
    let is_list = is_name(word) || after.is_empty();
    (is_list && first.contains(' ') && !separator.is_empty()).then(|| format!("{first}{after}"))
}

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

/// Returns `true` if `request` has a pronoun for something that an earlier call may find.
pub(super) fn has_pronoun(request: &str) -> bool {
    const WORDS: [&str; 9] = ["him", "her", "his", "it", "its", "that", "their", "them", "there"];
    request.split(' ').any(|word| WORDS.contains(&word.to_lowercase().trim_matches(PUNCTUATION)))
}

/// Words for the result of an earlier call.
const RESULT_WORDS: [&str; 8] =
    ["result", "results", "sum", "product", "total", "outcome", "what you get", "first hit"];
/// Words for one of the items of an earlier result, after `the first` or `the cheapest`.
const RESULT_ITEM_WORDS: [&str; 8] =
    ["hit", "match", "one", "ones", "option", "result", "slot", "suggestion"];
/// The maximum number of words between `the` and the item of a result.
const MAX_RESULT_WORDS: usize = 3;

/// Returns `true` if `need` is about the result of an earlier call, such as "multiply the result by
/// 6" or "book the cheapest one". Such a call must wait for the result.
pub(super) fn refers_to_result(need: &str) -> bool {
    let words: Vec<_> = need.split(' ').map(|word| word.trim_matches(PUNCTUATION).to_lowercase()).collect();
    let need = format!(" {} ", words.join(" "));
    let is_item = |words: &[String]| match words {
        [article, rank, rest @ ..] if article == "the" => {
            let items = rest.iter().take(MAX_RESULT_WORDS - 1);
            let is_rank = matches!(rank.as_str(), "first" | "last" | "best") || rank.ends_with("est");
            is_rank && items.into_iter().any(|word| RESULT_ITEM_WORDS.contains(&word.as_str()))
        }
        _ => false,
    };
    RESULT_WORDS.iter().any(|words| need.contains(&format!(" {words} ")))
        || (0..words.len()).any(|start| words.get(start..).is_some_and(is_item))
}

#[cfg(test)]
mod tests;
