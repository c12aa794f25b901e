//! Grammar rules for the need that the model states before a call: a quotation from the question,
//! or a text in the model's own words.

mod clauses;
mod lists;
mod requests;

use jiff::civil::Date;
use serde_json::json;

use self::clauses::{
    PART_SEPARATORS, SENTENCE_ENDS, first_of, has_separator_before, split_into_parts, start_of_last_sentence,
    with_sentence_ends, without_clause_end, without_planned_clauses, without_sentence_end,
};
use self::lists::{
    FirstItem, ItemForm, closing_quote, ends_with_conjunction, first_date, first_item, first_of_plain_list,
    is_alternative, is_conjunction, is_item, is_last_item, is_polite, is_quoted, last_item, next_clause,
    next_item, next_phrase, start_of_last_item,
};
pub(super) use self::lists::{SEPARATORS, first_item_need, is_name, starts_with_phrase};
use self::requests::{
    REQUEST_SEPARATORS, adds_to_request, continues_call, has_negation, is_open_quote, is_request,
    refers_to_all,
};
pub(super) use self::requests::{has_reference, refers_to_noun, refers_to_result};
use super::follow_up::is_elliptical;
use super::quotes::{MARKS, quotations};

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
    /// The texts among the arguments of the planned calls, in lower case.
    planned: Vec<String>,
    /// The texts among the arguments of the only call, with those from other sentences, in lower
    /// case.
    completed: Vec<String>,
    /// Other values of the enumerations in the last call, in lower case: `overnight` if the call
    /// has `express`.
    alternatives: Vec<String>,
    /// The date of today, if the conversation gives it.
    today: Option<Date>,
    /// The form of the items of the list in the open text.
    item_form: ItemForm,
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

/// Words before a request, with a comma after them.
const INTRODUCTIONS: [&str; 6] = ["also", "and", "finally", "next", "plus", "then"];
/// The maximum number of parts of a question for which a tool is chosen.
const MAX_PARTS: usize = 4;
/// The minimum number of letters of an argument that marks a part of the question as planned.
const MIN_VALUE_LETTERS: usize = 3;
/// The maximum length of a question in bytes. A longer question usually contains pasted text, and
/// the grammar that permits only quotations from it would be too large.
const MAX_QUESTION_BYTES: usize = 2000;
/// The maximum length of a question in bytes that is a need as a whole.
const MAX_SINGLE_NEED_BYTES: usize = 120;
/// The words of a sentence that only limits the number of results.
const RESULT_LIMIT_WORDS: [&str; 21] = [
    "at", "first", "give", "i", "just", "last", "limit", "list", "me", "more", "most", "need", "no", "only",
    "please", "results", "show", "than", "the", "to", "up",
];
/// Words of a sentence about something else with the same value.
const ADDING_WORDS: [&str; 6] = ["also", "another", "likewise", "same", "too", "well"];
/// The first words of a sentence that describes the object of a request.
const SUBJECTS: [&str; 6] = ["it", "it's", "its", "my", "our", "the"];
/// The first words of a question that asks for an action.
const MODAL_VERBS: [&str; 4] = ["can", "could", "will", "would"];
/// Verbs of a sentence that gives the value of an argument.
const STATING_WORDS: [&str; 6] = ["are", "is", "it's", "that's", "there's", "was"];
/// Characters between a list and a question about all of its items.
const LIST_ENDS: [char; 5] = [' ', '-', '\u{2013}', '\u{2014}', ':'];
/// Punctuation that may follow a word.
pub(super) const PUNCTUATION: [char; 6] = [',', '.', ';', ':', '?', '!'];

impl OpenQuestion {
    pub(super) fn new(text: &str) -> Self {
        // A need is stated on a single line, with single spaces between words.
        let text = with_sentence_ends(text).split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            question: text.clone(),
            text,
            is_continued: false,
            open_part: OpenPart::Unknown,
            planned: Vec::new(),
            completed: Vec::new(),
            alternatives: Vec::new(),
            today: None,
            item_form: ItemForm::default(),
        }
    }

    /// Sets the date to which words such as `tomorrow` refer.
    pub(super) fn with_today(self, today: Option<Date>) -> Self {
        Self { today, ..self }
    }

    /// Sets the other values of the enumerations in the last call, in lower case. An item that
    /// begins with one of them needs a call: `overnight` in "express and overnight prices".
    pub(super) fn set_alternatives(&mut self, alternatives: Vec<String>) {
        self.alternatives = alternatives;
    }

    /// Sets the texts among the arguments of the only call, in lower case, with those that it has
    /// from other sentences than its need.
    pub(super) fn set_completed(&mut self, values: Vec<String>) {
        self.completed = values;
    }

    /// Returns the whole question.
    pub(super) fn whole(&self) -> &str {
        &self.question
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
    /// nothing if the rest of the question does not contain `part`. `values` are the texts among
    /// the arguments of the call.
    ///
    /// If the call is for the first item of a list, the other items are kept: "the lights in the
    /// kitchen and the hallway" needs two calls. The list may be in a sentence before `part`. If
    /// the call is for the last item, the items before it are kept. Otherwise, the rest of the
    /// clause is removed, and also a clause about the same object with an argument of the call:
    /// "turn on the light and dim it to 30 percent" needs one call.
    pub(super) fn advance_past(&mut self, part: &str, values: &[String]) {
        self.is_continued = true;
        let was_item = std::mem::replace(&mut self.open_part, OpenPart::Unknown) == OpenPart::Item;
        let Some(start) = self.text.find(part) else { return };
        // The punctuation separates the rest from the planned sentence.
        let part = without_sentence_end(part);
        // The call may have more words than the item: "Austin, TX" for "Austin".
        let end = start + self.planned_length(start, part, values);
        let end = end + closing_quote(self.text.get(end..).unwrap_or_default());
        let has_second_part = has_second_part(&self.text, start, end);
        let sentence = self.text.get(start..).unwrap_or_default();
        let sentence_end = first_of(sentence, &SENTENCE_ENDS).unwrap_or(sentence.len());
        let sentence = sentence.get(..sentence_end.max(part.len())).unwrap_or(part);
        // The last item of a list has no item after it, only an argument that belongs to all items.
        let list = first_item(sentence, values, &self.alternatives)
            .or_else(|| first_date(sentence, values, self.today));
        let list = list.filter(|_| !was_item || part.contains(' '));
        let before =
            start_of_last_item(part, values).and_then(|length| part.get(..length)).unwrap_or_default();
        // The items before the last one may have calls already.
        let is_planned = self.planned.iter().any(|value| is_text_of(before, value));
        let before = if is_planned { "" } else { before };
        self.planned.extend_from_slice(values);
        // Without a list before it, the text before the last item is a clause.
        let is_clause = !before.is_empty() && last_item(before).is_none();
        let before = last_item(before).unwrap_or(before);
        let rest = match &list {
            Some(item) => self.text.get(start + item.end..).unwrap_or_default(),
            None => {
                let next = next_phrase(part, values).or_else(|| next_clause(part, values));
                let phrase = next.map_or(end, |next| start + next);
                let rest = without_clause_end(self.text.get(phrase..).unwrap_or_default());
                let rest = without_planned_clauses(rest, values);
                if continues_call(part, rest, values) { "" } else { rest }
            }
        };
        let other_list = || {
            let earlier = self.list_before(start, sentence, rest, values);
            earlier.or_else(|| self.list_after(part, rest, values))
        };
        if list.is_none()
            && before.is_empty()
            && let Some((text, form)) = other_list()
        {
            self.text = text;
            self.open_part = OpenPart::Item;
            self.item_form = form;
            return;
        }
        self.text = format!("{before}{rest}");
        if !self.is_open() {
            return;
        }
        let continues_list = was_item
            && SEPARATORS.iter().any(|separator| self.text.starts_with(separator))
            && !has_second_part;
        if is_clause {
            self.open_part = OpenPart::SplitNeed;
        } else if list.is_some() || !before.is_empty() || continues_list {
            self.open_part = OpenPart::Item;
        } else if was_item {
            // The rest of the sentence belongs to all items.
            let end = first_of(&self.text, &SENTENCE_ENDS).unwrap_or(self.text.len());
            self.text = self.text.split_off(end);
        }
        if let Some(list) = list {
            self.item_form = list.form;
        }
    }

    /// Returns the open text and the form of the items, if the call is for the first item of a list
    /// before `sentence`, which begins at `start` and asks about all items: "I have tickets 4 and
    /// 7. What is the price of each?" `rest` is the text after the need for the call.
    fn list_before(
        &self,
        start: usize,
        sentence: &str,
        rest: &str,
        values: &[String],
    ) -> Option<(String, ItemForm)> {
        let earlier = self.text.get(..start)?;
        if has_any_value(sentence, values) || !has_any_value(earlier, values) || !refers_to_all(sentence) {
            return None;
        }
        let earlier = earlier.trim_end_matches(LIST_ENDS);
        let item = first_item(earlier, values, &self.alternatives).or_else(|| {
            let end = first_of_plain_list(earlier, values)?;
            Some(FirstItem { end, form: ItemForm::default() })
        })?;
        let items = earlier.get(item.end..)?;
        Some((format!("{items}{}", rest.trim_start_matches(PUNCTUATION)), item.form))
    }

    /// Returns the open text and the form of the items, if the call for the need `part` has the
    /// first item of a list in the first sentence of `rest`, the text after `part`: "I ran 10 km in
    /// 48 minutes. How long do 5 km and 15 km take?"
    fn list_after(&self, part: &str, rest: &str, values: &[String]) -> Option<(String, ItemForm)> {
        let part = part.to_lowercase();
        let others: Vec<_> = values.iter().filter(|value| !part.contains(value.as_str())).cloned().collect();
        let start = SENTENCE_ENDS.iter().find(|end| rest.starts_with(**end))?.len();
        let sentence = rest.get(start..)?;
        let sentence = sentence.get(..first_of(sentence, &SENTENCE_ENDS).unwrap_or(sentence.len()))?;
        let item = first_item(sentence, &others, &self.alternatives);
        let item = item.filter(|_| has_any_value(sentence, &others))?;
        Some((rest.get(start + item.end..)?.to_owned(), item.form))
    }

    /// Returns the length of `part` at the offset `start` of the open text, or of a longer one of
    /// `values` there.
    fn planned_length(&self, start: usize, part: &str, values: &[String]) -> usize {
        let is_there = |length: &usize| {
            let text = self.text.get(start..start + length).map(str::to_lowercase);
            text.is_some_and(|text| values.contains(&text))
        };
        let lengths = values.iter().map(String::len).filter(is_there);
        lengths.chain([part.len()]).max().unwrap_or_default()
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
        let item = next_item(&self.text, &self.item_form)?;
        let is_part = (is_item(item) || is_alternative(item, &self.alternatives)) && !is_conjunction(item);
        let is_named = is_quoted(&self.text, item) || is_part && !is_polite(item);
        (is_named && !self.is_planned_quotation(item)).then_some(item)
    }

    /// Returns `true` if `item`, a part of the open text, is a quotation, or a name or number of
    /// one word after a conjunction.
    pub(super) fn is_name(&self, item: &str) -> bool {
        let before = self.text.split_once(item).map_or("", |(before, _)| before);
        let has_mark = |letter: char| letter.is_uppercase() || letter.is_numeric();
        let is_word = !item.contains(' ') && item.contains(has_mark);
        is_quoted(&self.text, item) || is_word && ends_with_conjunction(before)
    }

    /// Returns the request at the beginning of the open text, after a conjunction or a sentence:
    /// `heat the hall` in ` and heat the hall`. Returns `None` if the open text begins with a
    /// statement or with the item of a list.
    pub(super) fn next_request(&self) -> Option<&str> {
        if self.next_item().is_some() {
            return None;
        }
        let (separator, rest) = REQUEST_SEPARATORS
            .iter()
            .find_map(|separator| self.text.strip_prefix(separator).map(|rest| (*separator, rest)))?;
        let mut parts = split_into_parts(rest).into_iter();
        let part = parts.find(|part| !INTRODUCTIONS.contains(&part.to_lowercase().as_str()))?;
        let is_sentence = separator.starts_with(['.', '?', '!']);
        // A phrase after a conjunction belongs to the question before it: "and the volume of the
        // cube".
        let is_question = rest.split_once(part)?.1.starts_with('?') && is_sentence;
        let is_phrase = !is_sentence && part.contains(" of ");
        let is_quoted = self.question.split_once(part).is_some_and(|(before, _)| is_open_quote(before));
        let is_planned = is_quoted || self.is_planned_quotation(part);
        (is_request(part, is_question || is_phrase) && !is_planned).then_some(part)
    }

    /// Returns the sentence at the beginning of the open text that continues the sentence before
    /// it: "And in Madrid?".
    pub(super) fn elliptical_sentence(&self) -> Option<&str> {
        let rest = SENTENCE_ENDS.iter().find_map(|end| self.text.strip_prefix(end))?;
        let end = first_of(rest, &SENTENCE_ENDS).unwrap_or(rest.len());
        rest.get(..end).map(without_sentence_end).filter(|sentence| is_elliptical(sentence))
    }

    /// Returns `need`, a quotation from the question, with the words before it in its sentence. A
    /// small model quotes too little: "the second one" of "Which album is the second one on?".
    pub(super) fn with_sentence_start(&self, need: &str) -> String {
        let Some((before, _)) = self.text.split_once(need) else { return need.to_owned() };
        let start = start_of_last_sentence(&self.text, before.len());
        let start = before.get(start..).unwrap_or_default().trim_start();
        // A long text before the need is usually pasted.
        if start.len() > MAX_SINGLE_NEED_BYTES { need.to_owned() } else { format!("{start}{need}") }
    }

    /// Returns `need`, a quotation from the question. If it is a statement with a number at the
    /// beginning of the question, and if only a question with a further number follows, returns the
    /// text to the end of this question: "It costs $80 and it's 30% off. What do I pay if 8% tax is
    /// added?" needs a single call.
    pub(super) fn with_question_after(&self, need: String) -> String {
        let Some(rest) = self.text.strip_prefix(&need) else { return need };
        let sentence = rest.trim_start_matches(PUNCTUATION).trim_start();
        let ends_sentence =
            need.ends_with(['.', '!']) || SENTENCE_ENDS.iter().any(|end| rest.starts_with(end));
        let is_statement = split_into_parts(&need).into_iter().all(is_description);
        let is_question = sentence.ends_with('?')
            && first_of(sentence, SEPARATORS.iter().chain(&PART_SEPARATORS)).is_none();
        let is_short = self.text.len() <= 2 * MAX_SINGLE_NEED_BYTES;
        let words = sentence.to_lowercase();
        let mut words = words.split(' ').map(|word| word.trim_matches(PUNCTUATION));
        let asks_for_action = words.clone().next().is_some_and(|first| MODAL_VERBS.contains(&first));
        let is_further = refers_to_all(sentence) || words.any(|word| ADDING_WORDS.contains(&word));
        let continues = ends_sentence && is_statement && is_question && is_short;
        if continues && !is_further && !asks_for_action && has_digit(&need) && has_digit(sentence) {
            return without_sentence_end(&self.text).to_owned();
        }
        need
    }

    /// Returns the clause after `need`, a quotation from the question, if it
    /// [adds](adds_to_request) to the request `need` and is the last clause of its sentence. Also
    /// returns the text from `need` to the end of the clause.
    pub(super) fn added_clause(&self, need: &str) -> Option<(&str, String)> {
        let (_, rest) = self.text.split_once(need)?;
        let (separator, clause) = [", and ", " and "]
            .into_iter()
            .find_map(|separator| Some((separator, rest.strip_prefix(separator)?)))?;
        let clause = clause.get(..first_of(clause, &SENTENCE_ENDS).unwrap_or(clause.len()))?;
        let clause = without_sentence_end(clause);
        let has_parts = first_of(clause, SEPARATORS.iter().chain(&PART_SEPARATORS)).is_some();
        let adds = !has_parts && adds_to_request(clause);
        adds.then(|| (clause, format!("{need}{separator}{clause}")))
    }

    /// Returns `true` if `need` has only arguments of a planned call: a statement with no other
    /// number ("The order number is FD-90213"), a number of results ("Show me up to 20"), or a
    /// quotation ("the text 'I am late'"). "Tesla is at 200, too" is about something else.
    pub(super) fn is_planned_statement(&self, need: &str) -> bool {
        if self.is_planned_quotation(need) {
            return true;
        }
        let need = need.to_lowercase();
        let words: Vec<_> = need.split(' ').map(|word| word.trim_matches(PUNCTUATION)).collect();
        let numbers: Vec<_> = words.iter().copied().filter(|word| has_digit(word)).collect();
        if numbers.is_empty() || words.iter().any(|word| ADDING_WORDS.contains(word)) {
            return false;
        }
        let describes = words.first().is_some_and(|first| SUBJECTS.contains(first));
        let are_planned = numbers.iter().all(|number| {
            let plain = if describes { number.trim_matches(is_symbol) } else { number };
            self.planned.iter().any(|value| value == plain)
        });
        let is_limit = words.iter().all(|word| has_digit(word) || RESULT_LIMIT_WORDS.contains(word));
        let is_request = is_request(&need, need.ends_with('?'));
        let has_verb = |verbs: &[&str]| !is_request && words.iter().any(|word| verbs.contains(word));
        are_planned && (is_limit || has_verb(&["are", "is", "was"]))
            || has_verb(&STATING_WORDS) && self.has_completed(&numbers)
    }

    /// Returns `true` if `numbers`, with symbols of currencies and percentages, are arguments of
    /// the only call, and if it has one of them from another sentence than its need.
    fn has_completed(&self, numbers: &[&str]) -> bool {
        let is_in = |values: &[String], number: &str| {
            values.iter().any(|value| value == number.trim_matches(is_symbol))
        };
        numbers.iter().all(|number| is_in(&self.completed, number))
            && numbers.iter().any(|number| !is_in(&self.planned, number))
    }

    /// Returns `true` if `need` has the beginning of a quotation that is an argument of a planned
    /// call, and no name before it.
    fn is_planned_quotation(&self, need: &str) -> bool {
        quotations(&self.question).into_iter().any(|quotation| {
            let is_planned = self.planned.contains(&quotation.to_lowercase());
            let head = quotation.split(' ').next().unwrap_or_default();
            let before = MARKS.iter().find_map(|mark| need.split_once(&format!("{mark}{head}")));
            is_planned && before.is_some_and(|(before, _)| !before.split(' ').any(is_name))
        })
    }

    /// Returns the first request before `need`, a quotation from the question: "Lock my car" in
    /// "Lock my car and book an oil change". A small model skips short requests. Returns `None` if
    /// the text before `need` has no question and no imperative.
    pub(super) fn skipped_request(&self, need: &str) -> Option<String> {
        let (before, _) = self.text.split_once(need)?;
        if is_open_quote(before) {
            return None;
        }
        let parts = split_into_parts(before);
        // Without a separator at its end, the text before the need belongs to its clause.
        let count = if has_separator_before(&self.text, before.len()) {
            parts.len()
        } else {
            parts.len().saturating_sub(1)
        };
        let is_question =
            |part: &str| before.split_once(part).is_some_and(|(_, after)| after.starts_with('?'));
        let mut requests = parts.into_iter().take(count).filter(|part| is_request(part, is_question(part)));
        requests.next().map(str::to_owned)
    }

    /// Returns the whole question as a need, if it is a single sentence without a list or a
    /// conjunction.
    pub(super) fn as_single_need(&self) -> Option<String> {
        let need = self.text.trim_end_matches(PUNCTUATION);
        let has_parts = first_of(need, SEPARATORS.iter().chain(&PART_SEPARATORS)).is_some();
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

/// Returns `true` if `part` describes the object of a request: "it's 30% off".
fn is_description(part: &str) -> bool {
    let first = part.split(' ').next().unwrap_or_default().to_lowercase();
    let is_subject = SUBJECTS.contains(&first.as_str()) || ["a", "an", "there's"].contains(&first.as_str());
    is_subject && !has_negation(part)
}

/// Returns `true` if `letter` is a symbol beside a number.
fn is_symbol(letter: char) -> bool {
    "%$\u{20ac}\u{a3}".contains(letter)
}

fn has_digit(word: &str) -> bool {
    word.contains(|letter: char| letter.is_ascii_digit())
}

/// Returns `true` if the last item of a list, which is between the offsets `start` and `end` of
/// `text`, has a second part: `Portland` in "Rome and Portland, Oregon".
fn has_second_part(text: &str, start: usize, end: usize) -> bool {
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    let sentence = after.get(..first_of(after, &SENTENCE_ENDS).unwrap_or(after.len())).unwrap_or(after);
    let first = sentence.trim_start_matches(PUNCTUATION).split_whitespace().next().unwrap_or_default();
    let has_conjunction = SEPARATORS.iter().skip(1).any(|separator| sentence.contains(separator));
    is_last_item(before, after) && first.starts_with(char::is_uppercase) && first != "I" && !has_conjunction
}

/// Returns `true` if `text` contains `value`, which is in lower case and has a word of at least
/// [`MIN_VALUE_LETTERS`] letters.
fn is_text_of(text: &str, value: &str) -> bool {
    let is_long = value.chars().filter(|letter| letter.is_alphabetic()).count() >= MIN_VALUE_LETTERS;
    is_long && text.to_lowercase().contains(value)
}

/// Returns `true` if `text` contains one of `values`, which are in lower case.
fn has_any_value(text: &str, values: &[String]) -> bool {
    let text = text.to_lowercase();
    values.iter().any(|value| text.contains(value.as_str()))
}

/// The grammar rule for a need of at most 80 characters in the model's own words. Parentheses,
/// braces, `_` and `=` are excluded, because the model would otherwise begin a call with invented
/// arguments.
pub(super) const FREE_NEED_RULE: &str = r"NEED: /[^\n(){}_=]{1,80}/";

#[cfg(test)]
mod tests;
