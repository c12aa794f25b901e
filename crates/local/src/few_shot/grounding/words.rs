//! The words of a conversation.

use std::collections::HashSet;

use serde_json::Value;

use super::{codes::is_currency_name, language::Language, spaced_words};
use crate::few_shot::values::{TextValues, Unit};

/// Words that say nothing about a value: `file` does not make `file.txt` a known file.
const EMPTY_WORDS: [&str; 30] = [
    "a",
    "an",
    "and",
    "at",
    "by",
    "com",
    "directory",
    "example",
    "file",
    "folder",
    "for",
    "from",
    "http",
    "https",
    "in",
    "is",
    "it",
    "my",
    "name",
    "of",
    "on",
    "or",
    "org",
    "path",
    "the",
    "to",
    "txt",
    "user",
    "with",
    "your",
];
/// Frequent values of enumerations and symbols of units, with the words that users write for them.
const SYNONYMS: [(&str, &[&str]); 24] = [
    ("bicycling", &["bicycle", "bike", "cycle"]),
    ("c", &["°c", "celsius", "centigrade"]),
    ("celsius", &["°c", "centigrade"]),
    ("cycling", &["bicycle", "bike", "cycle"]),
    ("driving", &["car", "drive"]),
    ("f", &["°f", "fahrenheit"]),
    ("fahrenheit", &["°f"]),
    ("female", &["girl", "she", "woman"]),
    ("gb", &["gigabyte", "gigabytes"]),
    ("high", &["important", "urgent"]),
    ("imperial", &["°f", "fahrenheit", "miles"]),
    ("kcal", &["calories", "kilocalories"]),
    ("kj", &["kilojoule", "kilojoules"]),
    ("kmh", &["km/h", "kilometers per hour", "kilometres per hour"]),
    ("kpa", &["kilopascal", "kilopascals"]),
    ("kw", &["kilowatt", "kilowatts"]),
    ("kwh", &["kilowatt hours", "kilowatt-hours"]),
    ("male", &["boy", "he", "man"]),
    ("mb", &["megabyte", "megabytes"]),
    ("metric", &["°c", "celsius"]),
    ("mph", &["miles per hour"]),
    ("sms", &["text message", "text her", "text him", "text me", "text them", "text us"]),
    ("transit", &["bus", "train", "public transport"]),
    ("walking", &["on foot", "walk"]),
];
/// Words of a conversation about files.
const FILE_WORDS: [&str; 12] = [
    "directories",
    "directory",
    "document",
    "documents",
    "file",
    "files",
    "folder",
    "folders",
    "log",
    "logs",
    "path",
    "save",
];
/// Verbs for changes of files, and names of common files.
const FILE_CHANGE_WORDS: [&str; 26] = [
    "add",
    "append",
    "change",
    "changelog",
    "code",
    "config",
    "diary",
    "disk",
    "dockerfile",
    "edit",
    "insert",
    "journal",
    "license",
    "list",
    "makefile",
    "note",
    "notes",
    "overwrite",
    "page",
    "program",
    "put",
    "readme",
    "replace",
    "script",
    "store",
    "update",
];
/// Negations in English and German. `don't` is the words `don` and `t`.
const NEGATIONS: [&str; 11] =
    ["cannot", "don", "except", "kein", "keine", "never", "nicht", "no", "not", "t", "without"];
/// The maximum number of words between a negation and the word that it negates.
const MAX_NEGATED_WORDS: usize = 5;
/// The minimum length of the common beginning of two forms of a word, such as `week` and `weekly`.
const MIN_STEM_LENGTH: usize = 4;

pub(in crate::few_shot) struct KnownWords {
    /// The conversation in lower case.
    text: String,
    /// The letters and digits of `text`, without whitespace and punctuation.
    compact: String,
    words: HashSet<String>,
    stems: HashSet<String>,
    /// The words of one or two letters that do not begin a sentence, in their own case.
    short_words: HashSet<String>,
    has_name: bool,
    language: Language,
}

impl KnownWords {
    pub(in crate::few_shot) fn new(text: &str) -> Self {
        let has_name = has_name(text);
        let short_words = short_words(text);
        let text = text.to_lowercase();
        let words: HashSet<_> = split_words(&text).map(str::to_owned).collect();
        let stems = words.iter().filter_map(|word| stem(word)).collect();
        Self {
            language: Language::new(&text, &words),
            stems,
            compact: compact(&text),
            text,
            short_words,
            has_name,
            words,
        }
    }

    /// Returns the words with the language of `other`. The messages of the user decide about the
    /// language, not the instructions and the results of tools.
    pub(super) fn with_language_of(self, other: &Self) -> Self {
        Self { language: other.language, ..self }
    }

    /// Returns `true` if the conversation contains the lower-case `text`, ignoring whitespace and
    /// punctuation: `LX 318` and `LX318` are the same flight.
    pub(super) fn has_text(&self, text: &str) -> bool {
        let compact = compact(text);
        self.text.contains(text) || (!compact.is_empty() && self.compact.contains(&compact))
    }

    /// Returns `true` if the conversation contains the lower-case `text` literally.
    pub(super) fn has_literal(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// Returns `true` if the conversation has a range from a word with the beginning `first` to a
    /// word with the beginning `last`: "Monday to Friday" for `mon` and `fri`.
    pub(super) fn has_range(&self, first: &str, last: &str) -> bool {
        const CONNECTORS: [&str; 7] = ["to ", "through ", "till ", "until ", "- ", "-", "\u{2013}"];
        self.text.match_indices(first).any(|(start, _)| {
            let rest = self.text.get(start..).unwrap_or_default();
            let rest = rest.trim_start_matches(char::is_alphabetic).trim_start();
            let end = CONNECTORS.iter().find_map(|connector| rest.strip_prefix(connector));
            end.is_some_and(|end| end.trim_start().starts_with(last))
        })
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Returns `true` if the conversation contains a word that may be the name of a place: a
    /// capitalized word that does not begin a sentence.
    pub(super) fn has_name(&self) -> bool {
        self.has_name
    }

    /// Returns `true` if the name at the end of the lower-case path `text` is known. The folders
    /// before it are ignored. A name with an extension that is not in the conversation, such as
    /// `haiku.txt` for a haiku, is known only in a conversation about files that has at least half
    /// of its words.
    pub(super) fn has_path(&self, text: &str) -> bool {
        const SEPARATORS: [char; 2] = ['/', '\\'];
        let name = text.trim_end_matches(SEPARATORS).rsplit(SEPARATORS).next().unwrap_or_default();
        // "That file" is not `path/to/file`.
        let is_placeholder = EMPTY_WORDS.contains(&name) && !self.text.contains(text);
        let is_text = name.chars().any(char::is_alphanumeric) && self.text.contains(name) && !is_placeholder;
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        is_text || (self.is_about_files() && self.share(stem) >= 0.5)
    }

    /// Returns `true` if the conversation has one of [`FILE_WORDS`], or a path such as `/etc` or
    /// `~/notes`.
    fn is_about_files(&self) -> bool {
        let is_path = |word: &str| word.len() > 1 && word.starts_with(['/', '~', '\\']);
        self.words.iter().any(|word| FILE_WORDS.contains(&word.as_str()))
            || self.text.split_whitespace().any(is_path)
    }

    /// Returns `true` if the conversation may mention a file: it is about files, or it has one of
    /// [`FILE_CHANGE_WORDS`], a quotation, a slash, or a full stop before a letter or digit.
    pub(super) fn may_mention_file(&self) -> bool {
        let begins_word = |rest: &str| rest.starts_with(char::is_alphanumeric);
        self.is_about_files()
            || self.all().any(|word| FILE_CHANGE_WORDS.contains(&word))
            || self.text.contains(['"', '/', '\\', '`', '\u{201c}'])
            || self.text.split('.').skip(1).any(begins_word)
    }

    /// Returns `true` if the conversation contains the identifier `text`, ignoring whitespace: `LX
    /// 318` and `LX318` are the same flight. An identifier has no whitespace.
    pub(super) fn has_identifier(&self, text: &str) -> bool {
        let without_spaces = || self.text.split_whitespace().collect::<String>();
        !text.contains(char::is_whitespace) && (self.text.contains(text) || without_spaces().contains(text))
    }

    /// Returns `true` if `word`, in lower case, is a word of the conversation: the letter `m` in
    /// "size M", and not in "I'm".
    fn has_whole_word(&self, word: &str) -> bool {
        contracted_words(&self.text).any(|known| known == word)
    }

    /// Returns `true` if the conversation has `code`, a value of one or two letters: the zone `A`
    /// in "a ticket for zone A", and not in "a ticket".
    pub(super) fn has_short_code(&self, code: &str) -> bool {
        let word = code.to_lowercase();
        self.short_words.contains(code) || !SHORT_WORDS.contains(&word.as_str()) && self.has_whole_word(&word)
    }

    /// Returns the number of places where the conversation contains the lower-case `text`.
    pub(super) fn occurrences(&self, text: &str) -> usize {
        self.text.matches(text).count()
    }

    /// Returns `true` if the conversation has one of `words` before a text for which `is_next`
    /// returns `true`.
    pub(super) fn has_before(&self, words: &[&str], is_next: fn(&str) -> bool) -> bool {
        words.iter().any(|word| {
            self.text.match_indices(word).any(|(start, _)| {
                let before = self.text.get(..start).and_then(|text| text.chars().next_back());
                let rest = self.text.get(start + word.len()..).unwrap_or_default();
                before.is_none_or(|letter| !letter.is_alphanumeric())
                    && rest.starts_with(' ')
                    && is_next(rest)
            })
        })
    }

    /// Returns `true` if the conversation has a determiner for a single thing before a word of the
    /// parameter name `name`: "a year" for `years`, and any period for `duration`.
    pub(super) fn has_one_of(&self, name: &str) -> bool {
        const DETERMINERS: [&str; 12] =
            ["a", "an", "another", "each", "every", "last", "next", "one", "past", "per", "single", "this"];
        const PERIODS: [&str; 7] = ["day", "hour", "minute", "month", "night", "week", "year"];
        let name = spaced_words(name);
        let text = format!(" {}", self.text);
        let is_stated = |noun: &str| {
            let mut phrases = DETERMINERS.iter().map(|determiner| format!(" {determiner} {noun}"));
            phrases.any(|phrase| {
                let ends_word = |rest: &str| !rest.starts_with(char::is_alphabetic);
                text.match_indices(&phrase)
                    .any(|(at, _)| text.get(at + phrase.len()..).is_some_and(ends_word))
            })
        };
        name.split(' ').any(|word| match word.trim_end_matches('s') {
            "duration" | "term" => PERIODS.iter().any(|period| is_stated(period)),
            "night" => {
                is_stated("night") || self.words.contains("tonight") || self.words.contains("overnight")
            }
            noun => PERIODS.contains(&noun) && is_stated(noun),
        })
    }

    /// Returns `true` if the user is the only person of the request: "a hotel, just me", but not
    /// "just me and my wife".
    pub(in crate::few_shot) fn is_for_user_only(&self) -> bool {
        const PHRASES: [&str; 7] =
            ["by myself", "for me only", "for myself", "just for me", "just me", "on my own", "only me"];
        const COMPANY: [&str; 5] = [" &", " and", " plus", " with", ", my"];
        let is_final = |phrase: &str| {
            self.text.split_once(phrase).is_some_and(|(before, after)| {
                !before.ends_with(char::is_alphanumeric)
                    && !after.starts_with(char::is_alphanumeric)
                    && !COMPANY.iter().any(|company| after.starts_with(company))
            })
        };
        PHRASES.into_iter().any(is_final)
    }

    /// Returns `true` if the request is for a single person: "a table for one".
    pub(super) fn has_one_person(&self) -> bool {
        const PHRASES: [&str; 4] = ["for one", "one person", "one adult", "one guest"];
        const WORDS: [&str; 4] = ["alone", "myself", "single", "solo"];
        self.is_for_user_only()
            || PHRASES.iter().any(|phrase| self.has_words(phrase))
            || WORDS.iter().any(|word| self.words.contains(*word))
    }

    /// Returns `true` if the conversation has a time in digits, such as `9 am` or `17:30`.
    pub(super) fn has_digit_time(&self) -> bool {
        !TextValues::new(&self.text, None).times.is_empty()
    }

    /// Returns the words of the conversation, in lower case.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// Returns `true` if the conversation contains the text or number `value` exactly once.
    pub(super) fn occurs_once(&self, value: &Value) -> bool {
        let text = match value {
            Value::String(text) if !text.is_empty() => text.to_lowercase(),
            Value::Number(number) => number.to_string(),
            _ => return false,
        };
        self.occurrences(&text) == 1
    }

    /// Returns the number of words of the lower-case `text` that the conversation contains.
    pub(super) fn count(&self, text: &str) -> usize {
        split_words(text).filter(|word| self.words.contains(*word)).count()
    }

    /// Returns `true` if all numbers among the words of `text` are in the conversation.
    pub(super) fn has_numbers_of(&self, text: &str) -> bool {
        let mut numbers = split_words(text).filter(|word| word.chars().all(char::is_numeric));
        numbers.all(|number| self.words.contains(number))
    }

    /// Returns `true` if the conversation is probably English: it contains a word that only English
    /// has, and another frequent English word.
    pub(in crate::few_shot) fn is_english(&self) -> bool {
        self.language.is_english()
    }

    /// Returns `true` if the conversation may be English: it has only ASCII letters, and a frequent
    /// English word.
    pub(super) fn may_be_english(&self) -> bool {
        self.language.may_be_english()
    }

    /// Returns `true` if the conversation contains a negation in English or German.
    pub(in crate::few_shot) fn has_negation(&self) -> bool {
        NEGATIONS.iter().any(|word| self.words.contains(*word))
    }

    /// Returns `true` if the conversation has a word for the order of results, such as `sorted`,
    /// `newest` or `first`.
    pub(in crate::few_shot) fn has_order(&self) -> bool {
        const WORDS: [&str; 27] = [
            "alphabetical",
            "alphabetically",
            "ascending",
            "best",
            "chronological",
            "descending",
            "first",
            "high",
            "highly",
            "latest",
            "least",
            "low",
            "most",
            "newly",
            "order",
            "ordered",
            "popular",
            "popularity",
            "rank",
            "ranked",
            "recent",
            "sort",
            "sorted",
            "sorting",
            "top",
            "trending",
            "worst",
        ];
        const NO_SUPERLATIVES: [&str; 14] = [
            "arrest", "budapest", "contest", "east", "forest", "guest", "harvest", "interest", "invest",
            "protest", "request", "suggest", "test", "west",
        ];
        // "At least 4" is not an order.
        let text = self.text.replace("at least", "").replace("at most", "");
        let is_superlative =
            |word: &str| word.len() > 4 && word.ends_with("est") && !NO_SUPERLATIVES.contains(&word);
        split_words(&text).any(|word| WORDS.contains(&word) || is_superlative(word))
    }

    /// Returns `true` if the conversation has a name of the unit `name`: `kilojoules` for `kJ`.
    pub(super) fn has_unit(&self, name: &str) -> bool {
        // "I'm" has the word `m`.
        let is_unit = |word: &str, unit: Unit| word.len() > 1 && Unit::from_name(word) == Some(unit);
        Unit::from_name(&name.to_lowercase())
            .is_some_and(|unit| self.words.iter().any(|word| is_unit(word, unit)))
    }

    /// Returns `true` if the conversation has a word with the beginning of one of `words` at most
    /// [`MAX_NEGATED_WORDS`] words after a negation: "I don't want to change trains".
    pub(super) fn negates<'w>(&self, mut words: impl Iterator<Item = &'w str>) -> bool {
        let conversation: Vec<_> = split_words(&self.text).collect();
        let is_negation = |word: &&str| NEGATIONS.contains(word);
        let negated = |stem: &str| {
            conversation.iter().enumerate().filter(|(_, word)| word.starts_with(stem)).any(|(index, _)| {
                let start = index.saturating_sub(MAX_NEGATED_WORDS);
                conversation.get(start..index).unwrap_or_default().iter().any(is_negation)
            })
        };
        words.any(|word| stem(word).is_some_and(|stem| negated(&stem)))
    }

    /// Returns `true` if the conversation is about a journey back.
    pub(super) fn mentions_return(&self) -> bool {
        ["back", "return", "round"].iter().any(|word| self.words.contains(*word))
    }

    /// Returns `true` if the conversation has a word for the removal of a text, or is not English.
    pub(super) fn may_remove_text(&self) -> bool {
        const WORDS: [&str; 12] = [
            "blank", "clear", "delete", "empty", "erase", "no", "none", "nothing", "remove", "reset",
            "unset", "without",
        ];
        !self.is_english() || WORDS.iter().any(|word| self.words.contains(*word))
    }

    /// Returns `true` if the conversation contains all words of the lower-case `text` next to each
    /// other.
    pub(in crate::few_shot) fn has_words(&self, text: &str) -> bool {
        let conversation: Vec<_> = split_words(&self.text).collect();
        let words: Vec<_> = split_words(text).collect();
        !words.is_empty() && conversation.windows(words.len()).any(|window| window == words)
    }

    /// Returns `true` if the conversation contains at least half of the words of `name`, the
    /// lower-case value of an enumeration.
    pub(in crate::few_shot) fn mentions(&self, name: &str) -> bool {
        split_words(name).next().is_some() && self.share(&name.replace('_', " ")) >= 0.5
    }

    /// Returns the share of the words of the lower-case `text` that the conversation contains, from
    /// 0 to 1. A text without words has the share 1.
    pub(super) fn share(&self, text: &str) -> f64 {
        let words: Vec<_> = split_words(text).collect();
        if words.is_empty() {
            return 1.0;
        }
        let known = words.iter().filter(|word| !EMPTY_WORDS.contains(word) && self.knows(word)).count();
        let all = words.iter().filter(|word| !EMPTY_WORDS.contains(word)).count().max(1);
        known as f64 / all as f64
    }

    /// Returns `true` if the conversation has `synonym`: a word, a symbol, or a text of several
    /// words.
    pub(super) fn has_synonym(&self, synonym: &str) -> bool {
        match synonym.chars().all(char::is_alphabetic) {
            true => self.words.contains(synonym),
            false => self.text.contains(synonym),
        }
    }

    /// Returns `true` if `word` contains the beginning of a word of the conversation. After a
    /// negating prefix, the conversation must have a negation: `unpaid` is not `paid`, but "have
    /// not been paid".
    fn contains_stem_of(&self, word: &str) -> bool {
        let follows_prefix = |stem: &str| {
            let mut prefixes = NEGATING_PREFIXES.iter();
            prefixes.any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(stem)))
        };
        let mut stems = self.stems.iter().filter(|stem| word.contains(stem.as_str()));
        stems.any(|stem| !follows_prefix(stem) || self.has_negation())
    }

    fn knows(&self, word: &str) -> bool {
        let synonyms = SYNONYMS.iter().find(|(known, _)| *known == word).map(|(_, synonyms)| *synonyms);
        self.words.contains(word)
            || synonyms.is_some_and(|synonyms| synonyms.iter().any(|synonym| self.has_synonym(synonym)))
            || (word.len() >= MIN_STEM_LENGTH && self.contains_stem_of(word))
            // Languages without spaces between words have long words in the conversation.
            || (!word.is_ascii() && self.text.contains(word))
    }
}

/// Frequent English words of one or two letters.
const SHORT_WORDS: [&str; 29] = [
    "a", "am", "an", "as", "at", "be", "by", "do", "go", "he", "i", "if", "in", "is", "it", "me", "my", "no",
    "of", "on", "or", "pm", "so", "to", "up", "us", "we", "ok", "hi",
];
/// Prefixes that give a verb the opposite meaning.
const NEGATING_PREFIXES: [&str; 3] = ["de", "dis", "un"];

/// Returns `true` if `word` is the opposite of `verb`: `unlock` of `lock`.
pub(in crate::few_shot) fn is_opposite(word: &str, verb: &str) -> bool {
    NEGATING_PREFIXES.iter().any(|prefix| word.strip_prefix(prefix) == Some(verb))
}

fn compact(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphanumeric()).collect()
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns the first [`MIN_STEM_LENGTH`] letters of `word`. Returns `None` if it is shorter or a
/// number.
pub(in crate::few_shot) fn stem(word: &str) -> Option<String> {
    let stem: String = word.chars().take(MIN_STEM_LENGTH).collect();
    (stem.chars().count() == MIN_STEM_LENGTH && !stem.chars().all(char::is_numeric)).then_some(stem)
}

/// Returns the words of `text`. A contraction, such as "I'm", is one word.
pub(super) fn contracted_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '\'' | '\u{2019}'))
}

/// Returns the words of one or two letters in `text` that do not begin a sentence.
fn short_words(text: &str) -> HashSet<String> {
    let sentences = text.split(['.', '?', '!', '\n']).map(str::trim_start);
    let words = sentences.flat_map(|sentence| contracted_words(sentence).skip(1));
    words.filter(|word| (1..=2).contains(&word.chars().count())).map(str::to_owned).collect()
}

/// Returns `true` if `text` has a capitalized word of at least two letters that does not begin a
/// sentence. The name in a currency, such as "Swiss francs", does not count.
fn has_name(text: &str) -> bool {
    let mut begins_sentence = true;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().map(|next| next.trim_end_matches(|letter: char| !letter.is_alphabetic()));
        if next.is_some_and(is_currency_name) {
            begins_sentence = false;
            continue;
        }
        let letters: Vec<char> = word.chars().filter(|letter| letter.is_alphabetic()).take(2).collect();
        let is_name =
            matches!(letters.as_slice(), [first, second] if first.is_uppercase() && second.is_lowercase());
        if is_name && !begins_sentence {
            return true;
        }
        begins_sentence = word.ends_with(['.', '!', '?', ':', '"']);
    }
    false
}
