//! Calls for the further items of a list, derived from the call for the item before.

use haft_core::{Schema, ToolCall, schema::Property};
use serde_json::{Map, Value};

use super::calls::argument_text;
use super::correction::missing_code;
use super::grounding::{KnownWords, enumeration, spaced_json};
use super::question::{SEPARATORS, is_name, starts_with_phrase};
use super::quotes::MARKS;
use super::values::{parse_date, parse_time};
use crate::respond::call_id;

/// Adverbs after the last item of a list that belong to all items.
const ADVERBS: [&str; 5] = [" at the moment", " right now", " currently", " now", " please"];

/// An item of a list that replaces an argument of the call for the item before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListArgument {
    /// The name of the argument.
    name: String,
    value: Value,
}

impl ListArgument {
    /// Finds the argument of `earlier` that is directly before `item` in `question`: `city` for the
    /// item `for Oslo` of "the weather for Rome and for Oslo". `schema` is the input schema of the
    /// tool. Returns `None` if `item` has other words than a name, or if `schema` does not permit
    /// it.
    pub(super) fn find(question: &str, item: &str, earlier: &ToolCall, schema: &Schema) -> Option<Self> {
        let item = ADVERBS.iter().find_map(|adverb| item.strip_suffix(adverb)).unwrap_or(item);
        let arguments = earlier.arguments.value_or_string();
        let members = arguments.as_object()?;
        let question = question.to_lowercase();
        let mut found = members.iter().filter_map(|(argument, value)| {
            let text = argument_text(value)?;
            let mut forms = [ItemParts::of(item, value), ItemParts::of_last_word(item)].into_iter().flatten();
            let others = members.iter().filter(|(other, _)| *other != argument);
            let others: Vec<_> = others.filter_map(|(_, value)| argument_text(value)).collect();
            let parts = forms.find(|parts| is_adjacent(&question, &text, parts, &others))?;
            Some((argument, value, parts.name))
        });
        let (argument, value, name) = found.next().filter(|_| found.next().is_none())?;
        let property = schema.properties().find(|property| property.name == argument)?;
        // The code of another item is not in the question: `Intel` for the symbol `INTC`.
        if missing_code(&property, name).is_some() {
            return None;
        }
        let value = value_like(value, name).into_iter().find(|candidate| {
            let mut changed = members.clone();
            changed.insert(argument.clone(), candidate.clone());
            schema.is_valid(&Value::Object(changed))
        })?;
        Some(Self { name: argument.clone(), value })
    }

    /// Returns `call` with the item as its argument.
    pub(super) fn replace_in(&self, call: &ToolCall) -> Option<ToolCall> {
        let arguments = call.arguments.value_or_string();
        let mut changed = arguments.as_object()?.clone();
        let is_same = |value: &Value| {
            argument_text(value)
                .is_some_and(|text| argument_text(&self.value).is_some_and(|item| item == text))
        };
        if changed.get(&self.name).is_some_and(is_same) {
            return None;
        }
        changed.insert(self.name.clone(), self.value.clone());
        Some(ToolCall::new(call_id(), call.name.clone(), spaced_json(&Value::Object(changed))))
    }

    /// Returns `true` if the other arguments of `earlier` are the same for all items: they are in
    /// `question`, or defaults, optional values of an enumeration, dates or times. A longitude
    /// depends on the item.
    pub(super) fn others_are_common(&self, question: &str, earlier: &ToolCall, schema: &Schema) -> bool {
        let arguments = earlier.arguments.value_or_string();
        let empty = Map::new();
        let members = arguments.as_object().unwrap_or(&empty);
        let words = KnownWords::new(question);
        let is_common = |name: &String, value: &Value| {
            let property = schema.properties().find(|property| property.name == name);
            // A required value of an enumeration may be a property of one item: the league of a
            // team.
            let is_fixed = |property: &Property<'_>| {
                let is_choice = !enumeration(schema.as_value(), property.schema).is_empty();
                property.schema.get("default") == Some(value) || is_choice && !property.is_required
            };
            let is_moment = |text: &str| parse_date(text).is_some() || parse_time(text).is_some();
            value.is_boolean()
                || property.is_some_and(|property| is_fixed(&property))
                || argument_text(value).is_some_and(|text| words.mentions(&text) || is_moment(&text))
        };
        members.iter().all(|(name, value)| *name == self.name || is_common(name, value))
    }
}

/// The parts of a list item.
struct ItemParts<'a> {
    /// The words before the name, such as articles and prepositions.
    prefix: &'a str,
    /// The name, the number or the single word.
    name: &'a str,
    /// The unit after a number, with a space before it.
    unit: &'a str,
}

impl<'a> ItemParts<'a> {
    /// Splits `item` before its last word: `at x = ` and `-1`. The same words must precede the item
    /// before it.
    fn of_last_word(item: &'a str) -> Option<Self> {
        let start = item.rfind(' ')? + 1;
        Some(Self { prefix: item.get(..start)?, name: item.get(start..)?, unit: "" })
    }

    /// Splits `item`, which follows `earlier`. Returns `None` if it has other words. A name of
    /// several words has the capitals of `earlier`: `Ursus maritimus` after `Canis lupus`.
    fn of(item: &'a str, earlier: &Value) -> Option<Self> {
        let mut rest = item;
        while starts_with_phrase(rest) {
            rest = rest.split_once(' ')?.1;
        }
        let prefix = item.strip_suffix(rest)?;
        let (number, unit) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let is_number = earlier.is_number() && number.parse::<f64>().is_ok();
        if is_number && !unit.trim_start().contains(' ') {
            return Some(Self { prefix, name: number, unit });
        }
        let form = |text: &str| text.split(' ').map(is_name).collect::<Vec<_>>();
        let same_form = earlier.as_str().filter(|text| text.contains(' ')).and_then(|text| {
            let end = rest.match_indices(' ').map(|(at, _)| at).nth(text.split(' ').count() - 1);
            let (name, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
            let continues = after.split_whitespace().next().is_some_and(is_name);
            let has_capital = text.contains(char::is_uppercase);
            (has_capital && !continues && form(name) == form(text)).then_some(name)
        });
        let is_possessive = rest.split(' ').any(|word| word.ends_with("'s") || word.ends_with("\u{2019}s"));
        let is_bare = (!rest.contains(' ') || rest.split(' ').all(is_name)) && !is_possessive;
        // "news about Tesla and Rivian": the item has the form of a part of the text only.
        let is_phrase = earlier
            .as_str()
            .is_some_and(|text| text.contains(' ') && text.split(' ').any(|word| !is_name(word)));
        let name = is_bare.then_some(rest).filter(|_| !is_phrase).or(same_form);
        let name = name.filter(|name| !name.is_empty())?;
        Some(Self { prefix, name, unit: "" })
    }
}

/// Returns `true` if `question`, in lower case, contains `text` and the name of `parts` with only a
/// separator of list items between them, and with the same words before and after both. The text
/// must not be the second part of a pair with one of `others`, the other arguments: `TX` in
/// "Austin, TX and Denver, CO".
fn is_adjacent(question: &str, text: &str, parts: &ItemParts<'_>, others: &[String]) -> bool {
    let ItemParts { prefix, name, unit } = parts;
    let (prefix, item) = (prefix.to_lowercase(), format!("{name}{unit}").to_lowercase());
    let ends_word =
        |after: &str| !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '%');
    question.match_indices(text).any(|(at, _)| {
        let before = question.get(..at).unwrap_or_default().trim_end_matches(MARKS);
        let after = question.get(at + text.len()..).and_then(|after| after.strip_prefix(unit));
        let after = after.unwrap_or_default().trim_start_matches(MARKS);
        let rest = without_separators(after);
        let next = rest.strip_prefix(prefix.as_str()).unwrap_or_default().trim_start_matches(MARKS);
        rest.len() < after.len()
            && !before.ends_with(|letter: char| letter.is_alphanumeric() || ":.-".contains(letter))
            && !others
                .iter()
                .any(|other| before.trim_end_matches(", ").ends_with(other) && before.ends_with(", "))
            && before.ends_with(prefix.as_str())
            && next.strip_prefix(item.as_str()).is_some_and(ends_word)
    })
}

/// Returns `text` without the separators of list items at its beginning: `, and `.
fn without_separators(text: &str) -> &str {
    let first = SEPARATORS.iter().find_map(|separator| text.strip_prefix(separator));
    let Some(rest) = first else { return text };
    SEPARATORS.iter().find_map(|separator| rest.strip_prefix(separator.trim_start())).unwrap_or(rest)
}

/// Returns `item` as values of the type of `earlier`, in the spellings of a value.
fn value_like(earlier: &Value, item: &str) -> Vec<Value> {
    match earlier {
        Value::Number(_) => item.parse().ok().map(Value::Number).into_iter().collect(),
        _ => {
            let lower = item.to_lowercase();
            [item.to_owned(), lower.clone(), lower.replace(' ', "_")].into_iter().map(Value::String).collect()
        }
    }
}

#[cfg(test)]
mod tests;
