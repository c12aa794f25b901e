//! Lists in a question: `the weather in Hanoi, Lahore and Quito`.

use jiff::civil::Date;

use super::PUNCTUATION;
use super::clauses::{PHRASE_WORDS, SENTENCE_ENDS, first_of};
use crate::few_shot::quotes::{MARKS, QUOTES};
use crate::few_shot::values::{DateRange, TextValues, parse_date, parse_time};

/// The texts between the items of a list.
pub(in crate::few_shot) const SEPARATORS: [&str; 11] = [
    ", ",
    " and ",
    " or ",
    " & ",
    " as well as ",
    " compared to ",
    " compared with ",
    " versus ",
    " und ",
    " et ",
    " y ",
];
/// The texts before another clause of a sentence.
const CLAUSE_SEPARATORS: [&str; 6] = [", and ", " and ", ", but ", ", then ", " then ", "; "];
/// The maximum number of occurrences of a value after which a list is searched.
const MAX_OCCURRENCES: usize = 8;
/// The maximum number of words of a list item.
const MAX_ITEM_WORDS: usize = 4;
/// The maximum length of a code, such as `AAPL` for Apple.
const MAX_CODE_LENGTH: usize = 5;
/// The maximum number of words of an item that is searched in a text with other words after it.
const MAX_LONG_ITEM_WORDS: usize = 8;
/// The maximum number of words that follow each item: `line` in `the red line and the green line`.
const MAX_HEAD_WORDS: usize = 2;
/// Words that end a long item: `Serie A for the last season`.
const ITEM_ENDS: [&str; 16] = [
    "at", "between", "by", "during", "for", "from", "in", "next", "now", "on", "right", "saying", "this",
    "to", "until", "with",
];

/// Words at the end of a request that are no items of a list.
const POLITE_WORDS: [&str; 4] = ["please", "thank you", "thanks", "too"];
/// Words before an item that repeat the request: `the mass of zinc as well as that of iron`.
const REPEATED_WORDS: [&str; 3] = ["that of ", "those of ", "also "];
/// Words of a question about several things with codes.
const PLURAL_WORDS: [&str; 6] = ["are ", "do ", "shares", "stocks", "prices", "quotes"];

/// The first item of a list, for which a call is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstItem {
    /// The length of the text up to the end of the item.
    pub(super) end: usize,
    pub(super) form: ItemForm,
}

/// The form that all items of a list have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ItemForm {
    /// The words that follow each item, in lower case: `line` in "the red line and the green line".
    /// Empty if there are none.
    head: String,
    /// The words of [`ITEM_ENDS`] between the first value and the end of the first item: `at` in
    /// "Ann at 5 and Ben at 6".
    details: Vec<&'static str>,
}

impl ItemForm {
    /// Returns the form of the items after `item`, which has a part of `values`.
    fn of(item: &str, values: &[String], head: &str) -> Self {
        let start = values.iter().filter_map(|value| item.find(value.as_str())).min();
        let words: Vec<_> =
            start.and_then(|start| item.get(start..)).unwrap_or_default().split(' ').collect();
        let is_detail = |word: &&str| words.contains(word);
        Self { head: head.to_owned(), details: ITEM_ENDS.into_iter().filter(is_detail).collect() }
    }
}

/// Returns the first item of a list in `text`, if it contains one of `values` and if another item
/// follows it. If `values` are codes that are not in `text`, such as `AAPL` for Apple, the item
/// ends before the first separator. An item may begin with one of `alternatives`, the values of a
/// call for another item.
pub(super) fn first_item(text: &str, values: &[String], alternatives: &[String]) -> Option<FirstItem> {
    let original = text;
    let text = &text.to_lowercase();
    if text.len() != original.len() {
        return None;
    }
    let mut ends: Vec<usize> = values.iter().flat_map(|value| ends_of(text, value)).collect();
    ends.sort_unstable();
    ends.dedup();
    let is_code = |value: &String| {
        value.len() <= MAX_CODE_LENGTH && value.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    let Some(last) = ends.pop() else {
        let separator = first_of(text, &SEPARATORS);
        let is_number = |value: &String| value.parse::<f64>().is_ok();
        let has_codes =
            values.iter().any(is_code) && values.iter().all(|value| is_code(value) || is_number(value));
        let codes = values.iter().filter(|value| is_code(value)).count();
        let end = separator.filter(|end| {
            let is_pair = text.get(..*end).is_some_and(|before| before.contains("between "));
            // Other words may follow the last name: "Apple and Microsoft shares". "Procter &
            // Gamble" is a single name.
            let is_next_name = || {
                let rest = original.get(*end..).unwrap_or_default();
                let next =
                    next_item(rest, &ItemForm::default()).and_then(|item| item.split([' ', '\'']).next());
                codes == 1
                    && PLURAL_WORDS.iter().any(|word| text.contains(word))
                    && has_conjunction(rest, &ItemForm::default())
                    && !rest.starts_with(" & ")
                    && next.is_some_and(|word| is_name(word) && word != "I")
            };
            has_codes && !is_pair && (text.get(*end..).is_some_and(is_rest_of_list) || is_next_name())
        })?;
        return Some(FirstItem { end, form: ItemForm::default() });
    };
    ends.push(last);
    // Other arguments may follow the list, so every value is tried.
    let found =
        ends.into_iter().rev().find_map(|end| first_item_at(original, text, end, values, alternatives));
    let last = last + closing_quote(text.get(last..)?);
    let rest = text.get(last..)?;
    let form = || ItemForm::of(text.get(..last).unwrap_or_default(), values, "");
    found.or_else(|| is_rest_of_list(rest).then(|| FirstItem { end: last, form: form() }))
}

/// Returns the ends of `value` in `text`, as a whole word or else as a part of a word.
fn ends_of(text: &str, value: &str) -> Vec<usize> {
    let ends = || text.match_indices(value).map(|(at, _)| at + value.len());
    let is_word = |end: &usize| {
        let (before, after) = (text.get(..end - value.len()), text.get(*end..));
        !before.unwrap_or_default().ends_with(|letter: char| letter.is_alphanumeric() || letter == '-')
            && !after.unwrap_or_default().starts_with(char::is_alphanumeric)
    };
    let words: Vec<_> = ends().filter(is_word).take(MAX_OCCURRENCES).collect();
    if words.is_empty() { ends().take(1).collect() } else { words }
}

/// Returns the first item of a list of two dates, if its date is the only date in `values`: "on
/// February 14 and on March 1". The dates of a period are no list. `today` is the date to which
/// words such as `tomorrow` refer.
pub(super) fn first_date(text: &str, values: &[String], today: Option<Date>) -> Option<FirstItem> {
    let mut dates = values.iter().filter_map(|value| parse_date(value));
    let (Some(date), None) = (dates.next(), dates.next()) else { return None };
    let dates_in = |text: &str| TextValues::new(text, today).dates;
    let mut conjunctions = text.match_indices(" and ").map(|(at, _)| at);
    let end = conjunctions.find(|at| {
        let (before, after) = text.split_at_checked(*at).unwrap_or_default();
        let item = next_item(after, &ItemForm::default()).unwrap_or_default();
        let first = dates_in(before);
        let is_other = |dates: &[DateRange]| dates.iter().all(|other| !other.contains(date));
        matches!(first.as_slice(), [only] if only.contains(date))
            && !before.to_lowercase().contains("between ")
            && is_item(item)
            && matches!(dates_in(item).as_slice(), other @ [_] if is_other(other))
    })?;
    Some(FirstItem { end, form: ItemForm::default() })
}

/// Returns the first item of a list, if it ends at the offset `end` of `original` or after the
/// words there that all items have in common. The other items must be names, numbers or phrases, or
/// begin with one of `alternatives`, and none of them may be in `values`. `text` is `original` in
/// lower case.
fn first_item_at(
    original: &str,
    text: &str,
    end: usize,
    values: &[String],
    alternatives: &[String],
) -> Option<FirstItem> {
    let end = end + closing_quote(text.get(end..)?);
    let head = repeated_head(text.get(end..)?).unwrap_or_default();
    let (end, head) = (end + head.len(), head.trim());
    let rest = original.get(end..)?;
    let form = ItemForm::of(text.get(..end)?, values, head);
    let next = next_item(rest, &form)?;
    let is_list = SEPARATORS.iter().any(|separator| rest.starts_with(separator))
        && !rest.contains(" or ")
        && (!head.is_empty()
            || is_name_or_phrase(next)
            || is_quoted(rest, next)
            || is_alternative(next, alternatives))
        && has_conjunction(rest, &form)
        && items(rest, &form).all(|item| is_alternative(item, alternatives) || !is_planned(item, values));
    is_list.then_some(FirstItem { end, form })
}

/// Returns `true` if a conjunction precedes the last item in `rest`. "Austin, Texas" is no list.
fn has_conjunction(rest: &str, form: &ItemForm) -> bool {
    let Some(last) = items(rest, form).last() else { return false };
    let Some((before, _)) = rest.split_once(last) else { return false };
    let mut before = before.trim_end_matches(MARKS);
    for words in REPEATED_WORDS {
        before = before.strip_suffix(words).unwrap_or(before);
    }
    ends_with_conjunction(before)
}

/// Returns `true` if `text` ends with a separator of list items other than a comma.
pub(super) fn ends_with_conjunction(text: &str) -> bool {
    SEPARATORS.iter().skip(1).any(|conjunction| text.ends_with(conjunction))
}

/// Returns `true` if all names and numbers of `item` are in `values`. If it has none, all of its
/// words must be.
fn is_planned(item: &str, values: &[String]) -> bool {
    let words = || item.split(' ').filter(|word| !PHRASE_WORDS.contains(word));
    let is_name = |word: &&str| is_name(word);
    let is_value = |word: &str| {
        values.iter().any(|value| {
            value.split(|letter: char| !letter.is_alphanumeric()).any(|known| known == word) || *value == word
        })
    };
    // The numbers of a point are separate arguments: `(7, 9)`.
    let are_values = |tuple: &str| {
        let mut numbers = tuple.split(['(', ')', ',']).filter(|number| !number.is_empty()).peekable();
        numbers.peek().is_some() && numbers.all(is_value)
    };
    let is_known = |word: &str| {
        let word = word.to_lowercase();
        is_value(&word) || word.contains(['(', ')']) && are_values(&word)
    };
    let mut names = words().filter(is_name).peekable();
    if names.peek().is_some() { names.all(is_known) } else { words().all(is_known) }
}

/// Returns the words at the beginning of `rest` that also follow the next item, or that `one`
/// replaces there: ` line` in ` line and the green line`.
fn repeated_head(rest: &str) -> Option<&str> {
    let (head, after) = SEPARATORS
        .iter()
        .filter_map(|separator| Some((rest.find(separator)?, separator.len())))
        .min()
        .and_then(|(at, length)| Some((rest.get(..at)?, rest.get(at + length..)?)))?;
    let words = head.split_whitespace().count();
    let is_head = head.starts_with(' ') && (1..=MAX_HEAD_WORDS).contains(&words);
    // "the European population and the Asian one"
    let has_pronoun = || next_item(after, &ItemForm::default()).is_some_and(|item| item.ends_with(" one"));
    (is_head && (after.contains(head) || has_pronoun())).then_some(head)
}

/// Returns the item at the beginning of `rest`, which begins with separators: `Lahore` in `, Lahore
/// and Quito`. Each item of the list has `form`. An item with more than [`MAX_ITEM_WORDS`] words
/// ends before a preposition. Returns `None` if it has more than [`MAX_LONG_ITEM_WORDS`].
pub(super) fn next_item<'a>(rest: &'a str, form: &ItemForm) -> Option<&'a str> {
    let mut rest = rest;
    loop {
        rest = rest.trim_start_matches(PUNCTUATION).trim_start();
        if let Some(quoted) = quotation(rest) {
            return Some(quoted);
        }
        rest = rest.trim_start_matches(['"', '\'', ' ']);
        let separators = SEPARATORS.iter().map(|separator| separator.trim_start());
        let first = separators.chain(REPEATED_WORDS).find_map(|separator| rest.strip_prefix(separator));
        match first {
            Some(after) => rest = after,
            None => break,
        }
    }
    let ends = SEPARATORS.iter().chain(&SENTENCE_ENDS).chain(&["; "]);
    let end = first_of(rest, ends).unwrap_or(rest.len());
    let item = rest.get(..end)?.trim_end_matches(PUNCTUATION).trim();
    let head = &form.head;
    let head_end = item.to_lowercase().find(head).map(|at| at + head.len()).filter(|_| !head.is_empty());
    let item = head_end.and_then(|end| item.get(..end)).unwrap_or(item);
    // `80 x 50 cm` counts as two words.
    let words = |item: &str| item.split(' ').count() - 2 * item.matches(" x ").count();
    let item = if words(item) > MAX_ITEM_WORDS { without_details(item, form) } else { item };
    // "sections 107 and 512 of Title 17"
    let number = item.split_once(" of ").map(|(number, _)| number).filter(|number| is_digits(number));
    let item = number.unwrap_or(item);
    (!item.is_empty() && words(item) <= MAX_LONG_ITEM_WORDS).then_some(item)
}

pub(super) fn is_digits(text: &str) -> bool {
    text.chars().all(|digit| digit.is_ascii_digit())
}

/// Returns the quotation at the beginning of `rest`, without its quotation marks. Returns `None` if
/// `rest` does not begin with a quotation of at most [`MAX_LONG_ITEM_WORDS`] words, or if another
/// argument follows it: `"running late" to Ben`.
fn quotation(rest: &str) -> Option<&str> {
    let (open, close) = QUOTES.into_iter().find(|(open, _)| rest.starts_with(*open))?;
    let inner = rest.get(open.len_utf8()..)?;
    let mut ends = inner.match_indices(close).map(|(at, _)| at);
    let end = ends.find(|at| inner.get(*at..).is_some_and(|rest| closing_quote(rest) > 0))?;
    let (quoted, after) = inner.split_at_checked(end)?;
    let mut words = after.get(close.len_utf8()..)?.split_whitespace();
    let has_argument = words.next().is_some_and(|word| ITEM_ENDS.contains(&word))
        && words.next().is_some_and(|word| word.starts_with(char::is_uppercase));
    let is_short = !quoted.is_empty() && quoted.split(' ').count() <= MAX_LONG_ITEM_WORDS;
    (is_short && quoted.trim() == quoted && !has_argument).then_some(quoted)
}

/// Returns the length of the quotation mark at the beginning of `rest`, the text after an item. It
/// is 0 if there is none. An apostrophe before a letter is no quotation mark.
pub(super) fn closing_quote(rest: &str) -> usize {
    let mut quotes = QUOTES.into_iter().map(|(_, close)| close);
    let close = quotes.find(|close| {
        rest.strip_prefix(*close).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    });
    close.map_or(0, char::len_utf8)
}

/// Returns the items in `rest`, which begins with a separator. Each item has `form`.
fn items<'a>(rest: &'a str, form: &'a ItemForm) -> impl Iterator<Item = &'a str> {
    let mut open = Some(rest);
    std::iter::from_fn(move || {
        let rest = open?;
        let item = next_item(rest, form)?;
        let (before, after) = rest.split_once(item)?;
        let after = after.get(closing_quote(after)..)?;
        if is_polite(item) && !ends_with_quote(before) {
            return None;
        }
        let mut separators = SEPARATORS.iter().skip(usize::from(is_last_item(before, after)));
        open = separators.any(|separator| after.starts_with(separator)).then_some(after);
        Some(item)
    })
}

/// Returns the end of the first item of `text`, if `text` is a list of three or more names or
/// numbers without a conjunction, and if only its first item is one of `values`: `a.txt` in `a.txt,
/// b.txt, c.txt`. "Austin, TX" is no list.
pub(super) fn first_of_plain_list(text: &str, values: &[String]) -> Option<usize> {
    let mut items = text.trim_end_matches(PUNCTUATION).split(", ");
    let first = items.next()?;
    let others: Vec<_> = items.collect();
    let is_other =
        |item: &&str| !item.contains(' ') && is_name(item) && !values.contains(&item.to_lowercase());
    let is_list = values.contains(&first.to_lowercase()) && others.len() > 1 && others.iter().all(is_other);
    is_list.then_some(first.len())
}

/// Returns `true` if the item between `before` and `after` is the last item of a list: it follows a
/// conjunction, and the comma after it begins a clause. "For both Ava and Ben, check the calendar".
pub(super) fn is_last_item(before: &str, after: &str) -> bool {
    let begins_item = after
        .strip_prefix(", ")
        .is_some_and(|rest| SEPARATORS.iter().any(|separator| rest.starts_with(separator.trim_start())));
    ends_with_conjunction(before.trim_end_matches(MARKS)) && !begins_item
}

/// Returns `item` without a preposition and the text after it. A preposition at the beginning
/// belongs to the item, and so does one in `form`.
fn without_details<'a>(item: &'a str, form: &ItemForm) -> &'a str {
    let mut start = 0;
    for (index, word) in item.split(' ').enumerate() {
        let continues = word == "to" && item.starts_with("from ");
        if index > 1 && ITEM_ENDS.contains(&word) && !form.details.contains(&word) && !continues {
            return item.get(..start).unwrap_or(item).trim_end();
        }
        start += word.len() + 1;
    }
    item
}

/// Returns `true` if `item` is only a conjunction, the rest of a list whose items have calls.
pub(super) fn is_conjunction(item: &str) -> bool {
    SEPARATORS.iter().any(|separator| separator.trim() == item)
}

/// Returns `true` if `item` is a polite phrase at the end of a request.
pub(super) fn is_polite(item: &str) -> bool {
    POLITE_WORDS.contains(&item.to_lowercase().as_str())
}

/// Returns `true` if `item` is one of `alternatives`, which are in lower case, alone, before a
/// plural or before `of`: `overnight prices`, `the area of the room`. Before a singular, it belongs
/// to a single thing: "a formal and concise email".
pub(super) fn is_alternative(item: &str, alternatives: &[String]) -> bool {
    let item = item.to_lowercase();
    let mut item = item.as_str();
    while starts_with_phrase(item) {
        item = item.split_once(' ').map_or("", |(_, rest)| rest);
    }
    let mut rests = alternatives.iter().filter_map(|value| item.strip_prefix(value.as_str()));
    rests.any(|rest| {
        let is_plural = |word: &str| !word.contains(' ') && word.ends_with('s');
        rest.is_empty()
            || rest == " one"
            || rest.starts_with(" of ")
            || rest.strip_prefix(' ').is_some_and(is_plural)
    })
}

/// Returns `true` if `item`, a part of `text`, is a quotation.
pub(super) fn is_quoted(text: &str, item: &str) -> bool {
    text.split_once(item).is_some_and(|(before, _)| ends_with_quote(before))
}

fn ends_with_quote(before: &str) -> bool {
    QUOTES.into_iter().any(|(open, _)| before.ends_with(open))
}

/// Returns `true` if `item` is a single word, or if its first word is an article, a preposition, a
/// name or a number. Other texts may be clauses: `keep b.txt`.
pub(super) fn is_item(item: &str) -> bool {
    !item.contains(' ') || is_name_or_phrase(item)
}

/// Returns `true` if the first word of `item` is an article, a preposition, a name or a number.
fn is_name_or_phrase(item: &str) -> bool {
    let first = item.split(' ').next().unwrap_or_default();
    starts_with_phrase(item) || is_name(first)
}

/// Returns `true` if the first word of `text` is an article, a preposition or a pronoun.
pub(in crate::few_shot) fn starts_with_phrase(text: &str) -> bool {
    text.split(' ').next().is_some_and(|first| PHRASE_WORDS.contains(&first))
}

/// Returns `true` if `word` is a name, a number or an identifier: it has other characters than
/// lower-case letters and apostrophes.
pub(in crate::few_shot) fn is_name(word: &str) -> bool {
    !word.chars().all(|letter| letter.is_lowercase() || matches!(letter, '\'' | '\u{2019}'))
}

/// Returns the last item of the list in `text`. Returns `None` if `text` has no list.
pub(super) fn last_item(text: &str) -> Option<&str> {
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
pub(super) fn start_of_last_item(part: &str, values: &[String]) -> Option<usize> {
    let part = part.to_lowercase();
    let long = values.iter().filter(|value| value.chars().count() > 1);
    let first = long.filter_map(|value| part.rfind(value.as_str())).min()?;
    let before = part.get(..first)?;
    [" and ", " or "].iter().filter_map(|separator| before.rfind(separator)).max()
}

/// Returns `need` without all but the first item of a list: "Rain in Hanoi" for "Rain in Hanoi and
/// Lahore". Returns `None` if `need` has no list of names, numbers or single words.
pub(in crate::few_shot) fn first_item_need(need: &str) -> Option<String> {
    let at = first_of(need, &[", ", " and "])?;
    let (first, rest) = (need.get(..at)?, need.get(at..)?);
    let last = rest.rfind(" and ").and_then(|at| rest.get(at + " and ".len()..))?;
    let word = last.split(' ').next()?;
    let after = last.get(word.len()..)?;
    // A lower-case word must be the last word: other words may be verbs.
    let is_list = is_name(word) || after.is_empty();
    (is_list && first.contains(' ')).then(|| format!("{first}{after}"))
}

/// Returns the start of the first clause of `part`, after a conjunction, that needs another call
/// than the one with `values`: it has a name or a number that is not in `values`, and the text
/// before it has all of `values` that `part` contains.
pub(super) fn next_clause(part: &str, values: &[String]) -> Option<usize> {
    let lower = part.to_lowercase();
    if lower.len() != part.len() {
        return None;
    }
    let mut starts: Vec<_> = CLAUSE_SEPARATORS
        .iter()
        .flat_map(|separator| part.match_indices(separator).map(|(at, _)| (at, separator.len())))
        .collect();
    starts.sort_unstable();
    let is_new = |word: &str| {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        !word.is_empty()
            && is_name(word)
            && !matches!(word, "I" | "I'm" | "I'll" | "I'd")
            && !is_planned(word, values)
    };

    let needs_call = |(at, length): &(usize, usize)| {
        let (before, clause) = (lower.get(..*at), part.get(at + length..));
        let (before, clause) = (before.unwrap_or_default(), clause.unwrap_or_default());
        let first = clause.split(' ').next().unwrap_or_default();
        let is_clause = !starts_with_phrase(clause) && first.chars().all(char::is_lowercase);
        let mut known = values.iter().filter(|value| lower.contains(value.as_str())).peekable();
        known.peek().is_some()
            && known.all(|value| before.contains(value.as_str()))
            && is_clause
            && clause
                .split(' ')
                .skip(1)
                .any(|word| is_new(word) && !(refers_to_object(clause) && is_digits(word)))
            && !has_only_planned_moments(clause, values)
    };
    starts.into_iter().find(needs_call).map(|(at, _)| at)
}

/// Returns `true` if `clause` is about the object of the clause before: "and make it 8 pm".
fn refers_to_object(clause: &str) -> bool {
    clause.split(' ').any(|word| matches!(word, "it" | "them"))
}

/// Returns `true` if `clause` has dates or times, and if all of them are in `values` in another
/// form: 20:00 for `8 pm`.
fn has_only_planned_moments(clause: &str, values: &[String]) -> bool {
    let moments = TextValues::new(clause, None);
    let days: Vec<_> = values.iter().filter_map(|value| parse_date(value)).collect();
    let times: Vec<_> = values.iter().filter_map(|value| parse_time(value)).collect();
    (!moments.dates.is_empty() || !moments.times.is_empty())
        && moments.dates.iter().all(|range| days.iter().any(|day| range.contains(*day)))
        && moments.times.iter().all(|time| times.contains(time))
}

/// Returns the start of the last noun phrase of `part` after a conjunction, if none of `values` is
/// in it: ` and the volume of the cube` in "the area of the circle and the volume of the cube".
pub(super) fn next_phrase(part: &str, values: &[String]) -> Option<usize> {
    let start = part.rfind(" and the ")?;
    let phrase = part.get(start..)?.to_lowercase();
    let has_value = values.iter().any(|value| phrase.contains(value.as_str()));
    (phrase.contains(" of ") && !has_value).then_some(start)
}
