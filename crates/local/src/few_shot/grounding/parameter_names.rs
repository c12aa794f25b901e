//! The meaning of a parameter, derived from its name.

use serde_json::Value;

/// Names of texts that the model composes. They need not have words of the conversation.
const COMPOSED: [&str; 23] = [
    "answer",
    "body",
    "caption",
    "code",
    "command",
    "comment",
    "content",
    "description",
    "expression",
    "formula",
    "message",
    "note",
    "pattern",
    "prompt",
    "query",
    "regex",
    "script",
    "sql",
    "subject",
    "summary",
    "text",
    "thought",
    "title",
];
/// Words in the names of numbers that control a tool, which users seldom state.
const LIMITS: [&str; 13] = [
    "count", "depth", "limit", "max", "maximum", "min", "minimum", "num", "offset", "page", "size", "top",
    "total",
];

/// Words in the names of numbers of persons.
const PERSONS: [&str; 13] = [
    "adults",
    "attendees",
    "children",
    "guests",
    "members",
    "participants",
    "party",
    "passengers",
    "people",
    "persons",
    "players",
    "travelers",
    "travellers",
];
/// Words in the names of numbers of things that the user orders.
const ORDERED: [&str; 6] = ["copies", "quantity", "rooms", "seats", "stars", "tickets"];
/// Words in the names of numbers that only the user knows, even if they are 1.
const STATED_NUMBERS: [&str; 16] = [
    "age", "duration", "height", "hours", "income", "minutes", "months", "nights", "rating", "revision",
    "salary", "term", "version", "weeks", "weight", "years",
];
/// Words in the names of amounts of money, which are seldom a limit of the results.
const AMOUNTS: [&str; 5] = ["amount", "balance", "cost", "principal", "total"];

/// Returns `true` if `name` is the name of a parameter for an identifier, such as `event_id`,
/// `orderIds` or `issue_number`. The model cannot derive the value of an identifier.
pub(in crate::few_shot) fn is_identifier(name: &str) -> bool {
    let is_id = |name: &str| name == "id" || name.ends_with("_id") || name.ends_with("Id");
    is_id(name)
        || name.strip_suffix('s').is_some_and(is_id)
        || name.ends_with("_number")
        || name.ends_with("Number")
}

/// Returns `true` if `name` is the name of a parameter for a code of a language, a currency, an
/// airport or a unit.
pub(in crate::few_shot) fn is_code(name: &str) -> bool {
    let name = name.to_lowercase();
    ["airport", "currency", "iata", "lang", "locale", "unit"].iter().any(|part| name.contains(part))
}

/// Returns `true` if `name` is the name of a parameter for the symbol of a stock.
pub(super) fn is_ticker(name: &str) -> bool {
    let name = name.to_lowercase();
    ["symbol", "ticker"].iter().any(|part| name.trim_end_matches('s').ends_with(part))
}

/// Separates the words of a name by spaces: `heightCm` and `height_cm` are `height cm`.
pub(in crate::few_shot) fn spaced_words(name: &str) -> String {
    let letters = name.chars().flat_map(|letter| match letter {
        '_' | '-' => vec![' '],
        _ if letter.is_uppercase() => vec![' ', letter],
        _ => vec![letter],
    });
    letters.collect::<String>().to_lowercase().trim_start().to_owned()
}

/// Returns `true` if `name` is the name of a parameter for a text that the model composes.
pub(in crate::few_shot) fn is_composed(name: &str) -> bool {
    let name = name.to_lowercase();
    COMPOSED.iter().any(|composed| name == *composed || name.ends_with(&format!("_{composed}")))
}

/// Returns `true` if the model composes the value of the parameter `name` with the schema
/// `schema`. The code of a coupon or a booking is no program.
pub(super) fn is_composed_text(name: &str, schema: &Value) -> bool {
    let is_program = || has_program_word(name, schema);
    is_composed(name) && (!name.to_lowercase().ends_with("code") || is_program())
}

/// Returns `true` if the name or the description in `schema` has a word for programs.
pub(super) fn has_program_word(name: &str, schema: &Value) -> bool {
    const PROGRAM_WORDS: [&str; 14] = [
        "compile",
        "execute",
        "executed",
        "function",
        "html",
        "javascript",
        "program",
        "python",
        "run",
        "rust",
        "script",
        "snippet",
        "source",
        "sql",
    ];
    let text = format!("{} {}", spaced_words(name), description_of(schema));
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| PROGRAM_WORDS.contains(&word))
}

/// Returns the description in `schema` in lower case, or an empty text.
pub(super) fn description_of(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_lowercase()
}

/// Returns `true` if the parameter `name` is an e-mail address.
pub(super) fn is_address(name: &str, schema: &Value) -> bool {
    let text = format!("{} {}", spaced_words(name), description_of(schema));
    let is_email = text.contains("email address") || text.contains("e-mail address");
    // A name or an address: the tool finds the address.
    let may_be_name = ["contact", "name", " or "].iter().any(|word| text.contains(word));
    (is_email && !may_be_name) || schema.get("format").is_some_and(|format| format == "email")
}

/// Returns `true` if `name` is the name of a parameter for a latitude or a longitude.
pub(in crate::few_shot) fn is_coordinate(name: &str) -> bool {
    let name = name.to_lowercase();
    ["lat", "lon", "lng"].iter().any(|part| name.starts_with(part))
}

/// Returns `true` if `name` is the name of a parameter for a number that controls the tool.
pub(super) fn is_limit(name: &str) -> bool {
    spaced_words(name).split_whitespace().next().is_some_and(|word| LIMITS.contains(&word))
}

/// Returns `true` if the user must state `number`, 0, 1 or a limit, for the parameter `name`. A
/// duration may have a part that is 0, such as the minutes of "two hours".
pub(super) fn must_be_stated(name: &str, number: f64) -> bool {
    match number {
        0.0 => has_word_of(name, &AMOUNTS) && !has_word_of(name, &["min", "minimum"]),
        1.0 => is_number_of_persons(name) || has_word_of(name, &STATED_NUMBERS),
        _ => has_word_of(name, &AMOUNTS) || is_number_of_persons(name),
    }
}

/// Returns `true` if the parameter `name` is a number of persons.
pub(in crate::few_shot) fn is_number_of_persons(name: &str) -> bool {
    has_word_of(name, &PERSONS)
}

/// Returns `true` if the parameter `name` is a version or a rating.
pub(super) fn is_rank(name: &str) -> bool {
    has_word_of(name, &["rating", "revision", "version"])
}

/// Returns `true` if the parameter `name` is a number of persons or things, but neither a date nor
/// a time.
pub(super) fn is_count(name: &str) -> bool {
    const MOMENTS: [&str; 7] = ["date", "day", "hour", "minute", "month", "time", "year"];
    (is_number_of_persons(name) || has_word_of(name, &ORDERED)) && !has_word_of(name, &MOMENTS)
}

/// Returns `true` if the parameter `name` is the unit or the format of a result, which users seldom
/// state. The units of a conversion are not.
pub(in crate::few_shot) fn is_format(name: &str) -> bool {
    has_word_of(name, &["format", "unit", "units"]) && !has_word_of(name, &["from", "source", "target", "to"])
}

/// Returns `true` if the parameter name `name` has one of `words`.
pub(in crate::few_shot) fn has_word_of(name: &str, words: &[&str]) -> bool {
    spaced_words(name).split(' ').any(|word| words.contains(&word))
}

/// Returns `true` if the parameter `name` with the schema `schema` is a time zone. A name with only
/// `zone`, such as `from_zone`, also needs a description of a time zone.
pub(in crate::few_shot) fn is_time_zone(name: &str, schema: &Value) -> bool {
    let words = spaced_words(name);
    let has_word = |expected: &str| words.split(' ').any(|word| word == expected);
    let is_described =
        || ["iana ", "time zone", "timezone"].iter().any(|text| description_of(schema).contains(text));
    words.replace(' ', "").contains("timezone")
        || has_word("tz")
        || name.eq_ignore_ascii_case("tz")
        || has_word("zone") && is_described()
}

/// Returns `true` if `name` is the name of a parameter for the path of a file, such as `file_path`,
/// `filePath` or `paths`. The folder of a mail and a career path are no files.
pub(super) fn is_path(name: &str) -> bool {
    const PATHS: [&str; 6] = ["file", "filename", "filepath", "files", "path", "paths"];
    let name: String = name
        .chars()
        .flat_map(|letter| letter.is_uppercase().then_some('_').into_iter().chain(letter.to_lowercase()))
        .collect();
    match name.split('_').collect::<Vec<_>>().as_slice() {
        [.., "file" | "dir" | "directory", "name" | "path"] => true,
        [name] | ["source" | "destination" | "target" | "input" | "output", name] => PATHS.contains(name),
        _ => false,
    }
}
