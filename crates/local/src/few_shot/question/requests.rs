//! Requests in a question, and references to the results of earlier calls.

use super::PUNCTUATION;
use super::clauses::{PHRASE_WORDS, SENTENCE_ENDS, first_of};
use crate::few_shot::grounding::KnownWords;

/// The texts before another request. The longest one that fits is the first.
pub(super) const REQUEST_SEPARATORS: [&str; 11] =
    [", and then ", ", and ", " and then ", " and ", ", then ", " then ", ", but ", "; ", ". ", "? ", "! "];
/// The first words of greetings and of statements, which are no requests.
const STATEMENT_WORDS: [&str; 48] = [
    "a",
    "an",
    "and",
    "dear",
    "good",
    "he",
    "he's",
    "her",
    "hello",
    "hey",
    "hi",
    "his",
    "i",
    "i'd",
    "i'll",
    "i'm",
    "i've",
    "if",
    "in",
    "it",
    "it's",
    "its",
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
    "their",
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
/// Verbs of requests not to change something.
const PASSIVE_VERBS: [&str; 3] = ["avoid", "keep", "leave"];
// Pronouns that refer to the object of the clause before.
const OBJECT_PRONOUNS: [&str; 3] = ["it", "them", "its"];
/// Words of a clause about a later or a repeated action.
const LATER_WORDS: [&str; 8] = ["after", "afterwards", "again", "back", "before", "later", "off", "then"];
/// Words for all items of a list in the sentence before.
const ALL_WORDS: [&str; 8] = ["all", "both", "each", "every", "their", "them", "these", "those"];
/// Pronouns and adverbs for something that an earlier call may find.
const REFERENCES: [&str; 9] = ["him", "her", "his", "it", "its", "that", "their", "them", "there"];
/// Words for the result of an earlier call.
const RESULT_WORDS: [&str; 8] =
    ["result", "results", "sum", "product", "total", "outcome", "what you get", "first hit"];
/// Words for one of the items of an earlier result, after `the first` or `the cheapest`.
const RESULT_ITEM_WORDS: [&str; 8] =
    ["hit", "match", "one", "ones", "option", "result", "slot", "suggestion"];
/// The minimum number of letters of a noun after `that`.
const MIN_NOUN_LETTERS: usize = 4;
/// The maximum number of words from `first` or `cheapest` to the item of a result.
const MAX_WORDS_TO_ITEM: usize = 2;

/// Returns `true` if `part` is a request: an imperative, or a question or a part of one. The caller
/// detects the latter two and passes `is_question`. Greetings, statements and negations are no
/// requests.
pub(super) fn is_request(part: &str, is_question: bool) -> bool {
    let first = part.split(' ').next().unwrap_or_default().to_lowercase();
    let is_statement = STATEMENT_WORDS.contains(&first.as_str());
    part.contains(' ') && (is_question || !is_statement) && !has_negation(part)
}

/// Returns `true` if `part` has a negation, or asks not to change something.
pub(super) fn has_negation(part: &str) -> bool {
    KnownWords::new(part).has_negation() || has_word(part, &PASSIVE_VERBS)
}

/// Returns `true` if one of the words of `text` is in `list`.
fn has_word(text: &str, list: &[&str]) -> bool {
    text.split(' ').any(|word| list.contains(&word.to_lowercase().trim_matches(PUNCTUATION)))
}

/// Returns `true` if `before` ends within a quotation.
pub(super) fn is_open_quote(before: &str) -> bool {
    let straight = before.matches('"').count() % 2 == 1;
    let curly = before.matches('\u{201c}').count() > before.matches('\u{201d}').count();
    straight || curly
}

/// Returns `true` if the clause at the beginning of `rest` continues the request `part` for a call
/// with the arguments `values`: it refers to an object with a pronoun, it contains one of `values`
/// that `part` does not contain, and it has no other number.
pub(super) fn continues_call(part: &str, rest: &str, values: &[String]) -> bool {
    let is_sentence = first_of(rest, &SENTENCE_ENDS).is_none();
    let (part, rest) = (part.to_lowercase(), rest.to_lowercase());
    let words = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_owned).collect()
    };
    let (part, words) = (words(&part), words(&rest));
    let mut numbers = words.iter().filter(|word| word.chars().any(|letter| letter.is_ascii_digit()));
    let has_value = values.iter().any(|value| words.contains(value) && !part.contains(value));
    has_value
        && is_sentence
        && numbers.all(|number| values.contains(number))
        && words.iter().any(|word| OBJECT_PRONOUNS.contains(&word.as_str()))
}

/// Returns `true` if `clause`, after a request and a conjunction, adds to the request: "dim it to
/// 30 percent" or "show the best ones first". It refers to the object of the request with a
/// pronoun, and describes no later or repeated action.
pub(super) fn adds_to_request(clause: &str) -> bool {
    let first = clause.split(' ').next().unwrap_or_default();
    let is_imperative = first.chars().all(char::is_lowercase) && !PHRASE_WORDS.contains(&first);
    let refers = has_word(clause, &OBJECT_PRONOUNS) || has_word(clause, &["ones"]);
    clause.contains(' ')
        && is_imperative
        && refers
        && !has_word(clause, &LATER_WORDS)
        && !has_negation(clause)
        && is_request(clause, false)
}

/// Returns `true` if `request` has a pronoun for something that an earlier call may find.
pub(in crate::few_shot) fn has_reference(request: &str) -> bool {
    has_word(request, &REFERENCES)
}

/// Returns `true` if `need` is about all items of a list in the sentence before.
pub(super) fn refers_to_all(need: &str) -> bool {
    has_word(need, &ALL_WORDS)
}

/// Returns `true` if `need` refers with `that` to something in `before`, the text before it: "that
/// price" after "get the price of gold".
pub(in crate::few_shot) fn refers_to_noun(need: &str, before: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
        words
            .filter(|word| !word.is_empty())
            .map(|word| word.to_lowercase().trim_end_matches('s').to_owned())
            .collect()
    };
    let known = words(before);
    let need = words(need);
    let mut pairs = need.windows(2);
    // "text Anna that the train is late" has no noun after `that`.
    let is_noun = |word: &String| {
        word.chars().count() >= MIN_NOUN_LETTERS
            && !STATEMENT_WORDS.contains(&word.as_str())
            && !PHRASE_WORDS.contains(&word.as_str())
    };
    pairs.any(|pair| matches!(pair, [that, noun] if that == "that" && is_noun(noun) && known.contains(noun)))
}

/// Returns `true` if `need` is about the result of an earlier call, such as "multiply the result by
/// 6" or "book the cheapest one". Such a call must wait for the result.
pub(in crate::few_shot) fn refers_to_result(need: &str) -> bool {
    let words: Vec<_> = need.split(' ').map(|word| word.trim_matches(PUNCTUATION).to_lowercase()).collect();
    let need = format!(" {} ", words.join(" "));
    let is_item = |words: &[String]| match words {
        [article, rank, rest @ ..] if article == "the" => {
            let items = rest.iter().take(MAX_WORDS_TO_ITEM);
            let is_rank = matches!(rank.as_str(), "first" | "last" | "best") || rank.ends_with("est");
            is_rank && items.into_iter().any(|word| RESULT_ITEM_WORDS.contains(&word.as_str()))
        }
        _ => false,
    };
    RESULT_WORDS.iter().any(|words| need.contains(&format!(" {words} ")))
        || (0..words.len()).any(|start| words.get(start..).is_some_and(is_item))
}
