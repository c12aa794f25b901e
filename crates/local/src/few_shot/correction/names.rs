//! Correction of texts that belong to another part of the question.

use std::sync::LazyLock;

use haft_core::schema::Property;
use jiff::civil::Date;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::{CallInProgress, TextValues, description, has_word_of, pattern, spaced_words};
use crate::few_shot::grounding::{LANGUAGES, language_name};
use crate::few_shot::question::{has_reference, is_name, starts_with_phrase};
use crate::few_shot::quotes::{MARKS, quotations};

/// Words in the names of parameters for places. A place is often stated once for several calls.
const PLACE_WORDS: [&str; 12] = [
    "address",
    "airport",
    "area",
    "city",
    "country",
    "destination",
    "location",
    "origin",
    "place",
    "region",
    "state",
    "where",
];
/// Pronouns for a person or a thing in another part of the question.
const PRONOUNS: [&str; 7] = ["he", "same", "she", "these", "they", "this", "those"];
/// Words in the descriptions of parameters for several values.
const LIST_WORDS: [&str; 6] = ["comma", "list", "multiple", "one or more", "separated", "several"];
/// The minimum number of items of a list in an argument. "Simon and Garfunkel" is a single name.
const MIN_LIST_ITEMS: usize = 3;
/// The minimum number of letters of the name of a list.
const MIN_LABEL_LETTERS: usize = 4;
/// The minimum number of words of a need that is a clause.
const MIN_CLAUSE_WORDS: usize = 3;

/// Returns the only quotation in `need`, if the argument `text` has the same words in another form,
/// or if it is a quotation in another part of `question`: `Please renew the pass` for `remind me to
/// "renew the pass"`. Returns `None` if an argument is the quotation.
pub(super) fn quoted_text(
    text: &str,
    need: &str,
    question: &str,
    arguments: &Map<String, Value>,
) -> Option<Value> {
    let in_need = quotations(need);
    let [quotation] = in_need.as_slice() else { return None };
    let contains = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
    let texts = arguments
        .values()
        .flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    let mut texts = texts.filter_map(Value::as_str).map(|text| text.replace(['_', '-'], " "));
    let plain = quotation.replace(['_', '-'], " ");
    let is_used = texts.any(|used| contains(&used, &plain));
    let mut words = quotation.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let (known, count) = (words.clone().filter(|word| contains(text, word)).count(), words.by_ref().count());
    let is_part = contains(quotation, text);
    let is_foreign = || quotations(question).contains(&text) && !need.contains(text) && !has_pronoun(need);
    let is_same = count > 1 && 2 * known > count && !is_part;
    (!is_used && (is_same || is_foreign())).then(|| json!(quotation))
}

/// Returns the only name in `need` that no argument has, if `text`, the value of `property`, is a
/// name that `question` has only before `need`: `Inception` in "the income of Inception and
/// showtimes for Tenet". A place before the need usually belongs to both parts.
pub(super) fn name_in_need(
    property: &Property<'_>,
    text: &str,
    need: &str,
    question: &str,
    call: CallInProgress<'_>,
) -> Option<Value> {
    let is_place = has_word_of(property.name, &PLACE_WORDS);
    let is_clause = need.split(' ').count() >= MIN_CLAUSE_WORDS && !starts_with_phrase(need);
    let (before, _) = question.split_once(need)?;
    let is_foreign = before.contains(text) && !need.to_lowercase().contains(&text.to_lowercase());
    if is_place || !is_clause || !is_foreign || !text.split(' ').any(is_name) || has_pronoun(need) {
        return None;
    }
    let values: Vec<_> = call.arguments.values().filter_map(Value::as_str).map(str::to_lowercase).collect();
    let is_used = |name: &str| values.iter().any(|value| value.contains(&name.to_lowercase()));
    let mut names = names(need, &spaced_words(call.tool)).into_iter().filter(|name| !is_used(name));
    let (Some(only), None) = (names.next(), names.next()) else { return None };
    Some(json!(only))
}

/// Returns the name after `from` in `question`, if `property` is the beginning of a route, if
/// another argument has the name after `to`, and if another argument has `text`, the value of
/// `property`, too: `Lyon` for "from Lyon to Turin" and Turin.
pub(super) fn place_of_departure(
    property: &Property<'_>,
    text: &str,
    question: &str,
    arguments: &Map<String, Value>,
) -> Option<Value> {
    const DEPARTURE_WORDS: [&str; 5] = ["departure", "from", "origin", "source", "start"];
    static ROUTE: LazyLock<Regex> = LazyLock::new(|| {
        let place = r"(\p{Lu}[\p{L}'-]*(?: \p{Lu}[\p{L}'-]*)*)";
        pattern(&format!(r"\b[Ff]rom {place} to {place}"))
    });
    let others = arguments.iter().filter(|(name, _)| *name != property.name);
    let others = others
        .flat_map(|(_, value)| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice))
        .filter_map(Value::as_str);
    let has = |place: &str| others.clone().any(|other| other == place);
    let mut routes = ROUTE.captures_iter(question);
    let (Some(route), None) = (routes.next(), routes.next()) else { return None };
    let (start, end) = (route.get(1)?.as_str(), route.get(2)?.as_str());
    let is_departure = has_word_of(property.name, &DEPARTURE_WORDS);
    (is_departure && has(text) && has(end) && start != text && !has(start)).then(|| json!(start))
}

/// Returns the name of the language with the code `text`, if `question` has it, and if the
/// description of `property` has a language as an example: `Portuguese` for `pt`.
pub(super) fn name_of_language(property: &Property<'_>, text: &str, question: &str) -> Option<Value> {
    let language = language_name(text)?;
    static CODE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(?i)\b(?:codes?|iso|639)\b|["'`(][a-z]{2}["'`)]"#));
    let text = format!("{} {}", spaced_words(property.name), description(property));
    let has_example = LANGUAGES.iter().any(|(_, name)| text.contains(name));
    (has_example && !CODE.is_match(&text) && question.contains(language)).then(|| json!(language))
}

/// Returns the list of words after the name of `property` in `text`: `hiring` and `rust` for "with
/// the hashtags hiring and rust". Returns `None` if `text` has the name several times, or if
/// `property` is a list of codes or addresses.
pub(super) fn labelled_items(property: &Property<'_>, text: &str) -> Option<Vec<Value>> {
    const CODES: [&str; 8] = ["address", "code", "email", "e-mail", "hex", "iso", "symbol", "ticker"];
    let kind = property.schema.get("items").and_then(|items| items.get("type")).and_then(Value::as_str);
    let description = description(property).to_lowercase();
    let name = spaced_words(property.name);
    let label = name.rsplit(' ').next().filter(|label| label.len() >= MIN_LABEL_LETTERS)?;
    if kind != Some("string") || CODES.iter().any(|code| description.contains(code)) {
        return None;
    }
    let mut lists = text.match_indices(label).filter_map(|(at, _)| {
        let (before, after) = (text.get(..at)?, text.get(at + label.len()..)?);
        after.strip_prefix([' ', ':']).filter(|_| !before.ends_with(char::is_alphanumeric))
    });
    let (Some(list), None) = (lists.next(), lists.next()) else { return None };
    let (list, rest) = list.trim_start().split_once(" and ")?;
    let last = rest.split([' ', ',', '.', ';', '?', '!', ')']).next()?;
    let continues = rest.get(last.len()..)?.starts_with(' ');
    let items = list
        .split(", ")
        .chain([last])
        .map(|item| item.trim_matches(|mark| MARKS.contains(&mark) || mark == '#' || mark == ','));
    let items: Vec<_> = items.collect();
    // "Hiring and rust now" may go on with another request.
    let are_words = items.iter().all(|item| !item.is_empty() && !item.contains(' ')) && !continues;
    are_words.then(|| items.into_iter().map(Value::from).collect())
}

/// Returns the first item of `text`, a list of names such as `Oslo, Lisbon and Athens` in
/// `question`, if `property` is a single place: its name is one of [`PLACE_WORDS`] and no plural,
/// and its description has none of [`LIST_WORDS`]. `Planes, Trains and Automobiles` is a film.
pub(super) fn first_listed(property: &Property<'_>, text: &str, question: &str) -> Option<Value> {
    let name = spaced_words(property.name);
    let description = description(property).to_lowercase();
    let is_place = name.split(' ').any(|word| PLACE_WORDS.contains(&word));
    let is_plural = LIST_WORDS.iter().any(|word| description.contains(word));
    let (before, last) = text.rsplit_once(" and ")?;
    let mut items: Vec<_> = before.trim_end_matches(',').split(", ").collect();
    items.push(last);
    let is_item = |item: &&str| item.split(' ').all(is_name);
    let is_list = items.len() >= MIN_LIST_ITEMS && items.iter().all(is_item);
    let first = items.first().filter(|_| is_list && is_place && !is_plural && question.contains(text))?;
    Some(json!(first))
}

/// Returns `true` if `need` has a pronoun for something in another part of the question.
fn has_pronoun(need: &str) -> bool {
    let mut words = need.split(|letter: char| !letter.is_alphabetic());
    has_reference(need) || words.any(|word| PRONOUNS.contains(&word.to_lowercase().as_str()))
}

/// Returns the sequences of names in `need` that end a phrase or precede a word of `tool`, the
/// words of the name of the tool: `Celeste` in "the Celeste leaderboard" for `get leaderboard`.
/// Dates and numbers are excluded, and so is the first word of `need`.
fn names<'a>(need: &'a str, tool: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let (mut start, mut end) = (None, 0);
    let mut offset = 0;
    let is_plain = |name: &str| {
        // A weekday is a date only if today is known.
        let values = TextValues::new(name, Some(Date::ZERO));
        values.dates.is_empty() && values.times.is_empty() && values.quantities.is_empty()
    };
    for (index, piece) in need.split(' ').enumerate() {
        let word = piece.trim_end_matches(['.', ',', ';', ':', '?', '!']);
        if index > 0 && is_name(word) && !word.is_empty() {
            start.get_or_insert(offset);
            end = offset + word.len();
        } else if let Some(start) = start.take() {
            // "an Italian restaurant" is no name.
            let noun = word.to_lowercase();
            let is_head =
                tool.split(' ').any(|head| head.trim_end_matches('s') == noun.trim_end_matches('s'));
            let follows_article = need.get(..start).is_some_and(|before| before.ends_with(" the "));
            let is_thing = |name: &&str| {
                starts_with_phrase(word)
                    || is_head && follows_article && !name.contains(|letter: char| letter.is_ascii_digit())
            };
            names.extend(need.get(start..end).filter(is_thing));
        }
        if word.len() < piece.len()
            && let Some(start) = start.take()
        {
            names.extend(need.get(start..end));
        }
        offset += piece.len() + 1;
    }
    names.extend(start.and_then(|start| need.get(start..end)));
    names.retain(|name| is_plain(name));
    names
}

#[cfg(test)]
mod tests {
    use haft_core::Schema;

    use super::*;

    #[test]
    fn names_end_a_phrase() {
        assert_eq!(
            names("find showtimes for Gladiator II in Chicago on 2024-11-23", ""),
            ["Gladiator II", "Chicago"]
        );
        assert_eq!(names("Find an Italian restaurant", "find restaurant"), Vec::<&str>::new());
        assert_eq!(names("get the Q3 report", "get report"), Vec::<&str>::new());
        assert_eq!(names("cancel order A-17, please", ""), ["A-17"]);
        assert_eq!(names("wake me on Monday at 7:30", ""), Vec::<&str>::new());
        assert_eq!(names("who leads the Celeste leaderboard", "get leaderboard"), ["Celeste"]);
    }

    #[test]
    fn a_name_of_another_part_is_replaced() {
        let schema =
            Schema::new(json!({"properties": {"movie": {"type": "string"}, "city": {"type": "string"}}}));
        let schema = schema.unwrap();
        let corrected = |name: &str, question: &str, need: &str, arguments: Value| {
            let property = schema.properties().find(|property| property.name == name).unwrap();
            let arguments = arguments.as_object().unwrap();
            let text = arguments[name].as_str().unwrap();
            name_in_need(
                &property,
                text,
                need,
                question,
                CallInProgress { tool: "find_showtimes", arguments },
            )
        };
        let need = "find showtimes for Tenet in Chicago";
        let question = format!("What did Inception earn? Also {need}.");
        let arguments = json!({"movie": "Inception", "city": "Chicago"});
        assert_eq!(corrected("movie", &question, need, arguments), Some(json!("Tenet")));
        let known = json!({"movie": "Tenet", "city": "Chicago"});
        assert_eq!(corrected("movie", &question, need, known), None);
        let question = "I am in Boston with Ben. Then find showtimes for Tenet";
        let place = json!({"city": "Boston"});
        assert_eq!(corrected("city", question, "find showtimes for Tenet", place), None);
        let question = "Translate Hello to French and then into German";
        assert_eq!(corrected("movie", question, "into German", json!({"movie": "Hello"})), None);
    }

    #[test]
    fn a_list_follows_the_name_of_its_parameter() {
        let schema = Schema::new(json!({"properties": {
            "hashtags": {"type": "array", "items": {"type": "string"}},
            "languages": {"type": "array", "items": {"type": "string"}, "description": "ISO 639-1 codes"},
            "to": {"type": "array", "items": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "number"}}}}));
        let schema = schema.unwrap();
        let items = |name: &str, need: &str| {
            let property = schema.properties().find(|property| property.name == name).unwrap();
            labelled_items(&property, need).map(Value::Array)
        };
        let need = "Post it at 9:00 with the hashtags hiring and rust.";
        assert_eq!(items("hashtags", need), Some(json!(["hiring", "rust"])));
        let need = "Post it with hashtags #a, #b, and #c, tomorrow at nine";
        assert_eq!(items("hashtags", need), Some(json!(["a", "b", "c"])));
        for other in [
            "Post it with the hashtags of last week",
            "Post it with the hashtags work and remind me",
            "Post it with the hashtag work and rust",
            "The hashtags of today: hashtags a and b",
        ] {
            assert_eq!(items("hashtags", other), None, "{other}");
        }
        assert_eq!(items("numbers", "The numbers one and two"), None);
        assert_eq!(items("languages", "into the languages German and French"), None);
        assert_eq!(items("to", "Send it to Ana and Bob"), None);
    }

    #[test]
    fn list_of_places_is_reduced_to_its_first_item() {
        let schema = json!({"properties": {"city": {}, "cities": {}, "movie": {}, "place": {
            "description": "Places, comma-separated"}}});
        let schema = Schema::new(schema).unwrap();
        let question = "How warm is it in Oslo, New York and Athens? Play Simon and Garfunkel.";
        let first = |name: &str, text: &str| {
            let property = schema.properties().find(|property| property.name == name).unwrap();
            first_listed(&property, text, question)
        };
        assert_eq!(first("city", "Oslo, New York and Athens"), Some(json!("Oslo")));
        assert_eq!(first("cities", "Oslo, New York and Athens"), None);
        assert_eq!(first("place", "Oslo, New York and Athens"), None);
        assert_eq!(first("movie", "Oslo, New York and Athens"), None);
        assert_eq!(first("city", "Simon and Garfunkel"), None);
        assert_eq!(first("city", "Oslo, Rome and Athens"), None);
    }

    #[test]
    fn a_quotation_replaces_a_composed_text() {
        let need = "remind me to \"renew the bus pass\" at 18:00";
        let question = format!("{need}. And 'Pay the rent' on Monday.");
        let text =
            |text: &str| quoted_text(text, need, &question, json!({"text": text}).as_object().unwrap());
        assert_eq!(text("Please renew your bus pass at 18:00"), Some(json!("renew the bus pass")));
        assert_eq!(text("Pay the rent"), Some(json!("renew the bus pass")));
        assert_eq!(text("renew the bus pass"), None);
        assert_eq!(text("bus pass"), None);
        assert_eq!(text("18:00"), None);
    }
}
