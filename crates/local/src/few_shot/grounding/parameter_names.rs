//! The meaning of a parameter, derived from its name.

use serde_json::Value;

/// Names of texts that the model composes. They need not have words of the conversation.
const COMPOSED: [&str; 22] = [
    "answer",
    "body",
    "caption",
    "code",
    "command",
    "comment",
    "content",
    "description",
    "expression",
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

/// Words in the names of numbers that only the user knows.
const STATED_NUMBERS: [&str; 33] = [
    "adults",
    "age",
    "amount",
    "attendees",
    "balance",
    "budget",
    "cost",
    "fee",
    "goal",
    "guests",
    "height",
    "income",
    "members",
    "participants",
    "party",
    "people",
    "persons",
    "price",
    "principal",
    "rating",
    "revision",
    "salary",
    "score",
    "spent",
    "stars",
    "target",
    "temperature",
    "term",
    "tip",
    "total",
    "version",
    "volume",
    "weight",
];
/// Words in the names of durations.
const DURATIONS: [&str; 8] = ["duration", "hours", "minutes", "months", "nights", "term", "weeks", "years"];

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
    const PROGRAM_WORDS: [&str; 8] =
        ["compil", "execut", "javascript", "program", "python", "run", "script", "source"];
    let is_program = || {
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{name} {description}").to_lowercase();
        PROGRAM_WORDS.iter().any(|word| text.contains(word))
    };
    is_composed(name) && (!name.to_lowercase().ends_with("code") || is_program())
}

/// Returns `true` if the parameter `name` is an e-mail address.
pub(super) fn is_address(name: &str, schema: &Value) -> bool {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{} {description}", spaced_words(name)).to_lowercase();
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
pub(super) fn is_stated_number(name: &str, number: f64) -> bool {
    let words = spaced_words(name);
    let has_one = |list: &[&str]| words.split(' ').any(|word| list.contains(&word));
    has_one(&STATED_NUMBERS) || number != 0.0 && has_one(&DURATIONS)
}

/// Returns `true` if the parameter `name` may be the year, the month or the day of a date.
pub(super) fn is_part_of_date(name: &str) -> bool {
    const PARTS: [&str; 12] = [
        "age", "birth", "date", "day", "decade", "month", "period", "quarter", "season", "time", "week",
        "year",
    ];
    let name = spaced_words(name);
    PARTS.iter().any(|part| name.contains(part))
}

/// Returns `true` if the parameter `name` with the schema `schema` is a time zone. A name with only
/// `zone`, such as `from_zone`, also needs a description of a time zone.
pub(in crate::few_shot) fn is_time_zone(name: &str, schema: &Value) -> bool {
    let words = spaced_words(name);
    let has_word = |expected: &str| words.split(' ').any(|word| word == expected);
    let description = || schema.get("description").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let is_described = || ["iana ", "time zone", "timezone"].iter().any(|text| description().contains(text));
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
