//! Codes of languages, currencies and units.

use super::parameter_names::{description_of, has_word_of};
use super::{Parameter, words::KnownWords};
use crate::few_shot::values::Unit;

/// Codes of languages in ISO 639-1, with their English names.
pub(in crate::few_shot) const LANGUAGES: [(&str, &str); 24] = [
    ("ar", "Arabic"),
    ("cs", "Czech"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("he", "Hebrew"),
    ("hi", "Hindi"),
    ("hu", "Hungarian"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("ko", "Korean"),
    ("nl", "Dutch"),
    ("no", "Norwegian"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ru", "Russian"),
    ("sv", "Swedish"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("zh", "Chinese"),
];
/// Codes of currencies in ISO 4217, with the words that users write for them.
const CURRENCY_NAMES: [(&str, &[&str]); 12] = [
    ("aud", &["dollar", "dollars"]),
    ("cad", &["dollar", "dollars"]),
    ("chf", &["franc", "francs", "sfr"]),
    ("cny", &["rmb", "yuan"]),
    ("eur", &["euro", "euros", "\u{20ac}"]),
    ("gbp", &["pound", "pounds", "quid", "sterling", "\u{a3}"]),
    ("inr", &["rupee", "rupees", "\u{20b9}"]),
    ("jpy", &["yen", "\u{a5}"]),
    ("krw", &["won", "\u{20a9}"]),
    ("mxn", &["peso", "pesos"]),
    ("sek", &["krona", "kronor"]),
    ("usd", &["bucks", "dollar", "dollars", "$"]),
];

/// Returns the English name of the language with the code `code`: `Arabic` for `ar`.
pub(in crate::few_shot) fn language_name(code: &str) -> Option<&'static str> {
    LANGUAGES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

/// Returns `true` if the parameter `name` is a code with a meaning for the user only, such as the
/// key of a project.
pub(super) fn is_key_of_user(name: &str) -> bool {
    has_word_of(
        name,
        &["account", "board", "channel", "key", "project", "repo", "repository", "space", "workspace"],
    )
}

/// Returns `true` if the parameter `name` may be a letter from the user, such as the zone of a
/// ticket. The letters of units, symbols and variables are known or derived.
pub(super) fn is_letter_of_user(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "block", "category", "class", "drive", "gate", "grade", "group", "hall", "level", "platform", "row",
        "section", "size", "terminal", "tier", "zone",
    ];
    has_word_of(name, &NAMES)
}

/// Returns `true` if `word` is the name of a currency. The verb `won` does not count.
pub(super) fn is_currency_name(word: &str) -> bool {
    word != "won" && CURRENCY_NAMES.iter().any(|(_, names)| names.contains(&word))
}

/// Returns `false` if `parameter` is a unit, a language or a currency, and if the conversation has
/// neither a word for the lower-case code `text` nor, for a language or a currency, a proper name
/// that may imply it, such as a country.
pub(super) fn may_be_stated(parameter: Parameter<'_>, text: &str, words: &KnownWords) -> bool {
    if has_word_of(parameter.name, &["unit", "units"]) && Unit::from_name(text).is_some() {
        return words.has_unit(text);
    }
    // The names of languages and currencies are English.
    let description = if words.may_be_english() { description_of(parameter.schema) } else { String::new() };
    let name = format!("{} {description}", parameter.name.to_lowercase());
    let language = language_name(text).filter(|_| name.contains("lang"));
    let currency = CURRENCY_NAMES.iter().find(|(code, _)| *code == text && name.contains("currency"));
    if language.is_none() && currency.is_none() || words.has_name() {
        return true;
    }
    language.is_some_and(|language| words.has_word(&language.to_lowercase()))
        || currency.is_some_and(|(_, names)| names.iter().any(|name| words.has_synonym(name)))
}
