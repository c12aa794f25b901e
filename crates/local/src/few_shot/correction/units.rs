//! Correction of the units of a conversion.

use haft_core::Schema;
use serde_json::{Map, Value, json};

use crate::few_shot::grounding::enumeration;
use crate::few_shot::values::Unit;

/// Returns the units `from` and `to` of a conversion with the names of their parameters, if `from`
/// is not the unit after the number in `question`: "How many ml are 3 cups?" converts from cups. A
/// target that is not in `need` is replaced by the unit that the question asks for: "… and how many
/// are 2 spoons?"
pub(super) fn units_of_conversion(
    schema: &Schema,
    arguments: &Map<String, Value>,
    need: &str,
    question: &str,
) -> Option<((String, Value), (String, Value))> {
    let find = |prefix: &str| {
        let property = schema.properties().find(|property| property.name.starts_with(prefix))?;
        let names = enumeration(schema.as_value(), property.schema);
        let names: Vec<&str> = names.into_iter().filter_map(Value::as_str).collect();
        let value = arguments.get(property.name)?.as_str()?;
        (!names.is_empty()).then_some((property.name, names, value))
    };
    let (from, names, from_unit) = find("from")?;
    let (to, _, to_unit) = find("to")?;
    let number = arguments.values().find(|value| value.is_number())?.to_string();
    let question = question.to_lowercase();
    let after = question.split(&number).nth(1)?.trim_start();
    let after = after.trim_start_matches("degrees ").trim_start_matches("degree ");
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|letter: char| letter.is_whitespace() || ",.;?!".contains(letter))
    }
    let word = words(after).next()?;
    let unit = *names.iter().find(|name| is_same_unit(name, word))?;
    let need = need.to_lowercase();
    let asked = question.split_once("how many ").and_then(|(_, after)| words(after).next());
    let asked = asked.and_then(|word| names.iter().find(|name| is_same_unit(name, word)));
    let is_stated = to_unit != unit && words(&need).any(|word| is_same_unit(to_unit, word));
    if let Some(asked) = asked.filter(|asked| **asked != unit && !is_stated) {
        return Some(((from.to_owned(), json!(unit)), (to.to_owned(), json!(asked))));
    }
    if is_same_unit(from_unit, word) && from_unit != to_unit {
        return None;
    }
    let is_other = |name: &&&str| **name != unit && words(&question).any(|word| is_same_unit(name, word));
    let other = names.iter().find(is_other).copied().unwrap_or(from_unit);
    let target = if to_unit == unit { other } else { to_unit };
    Some(((from.to_owned(), json!(unit)), (to.to_owned(), json!(target))))
}

/// Returns `true` if `word` is the singular, the plural or the symbol of `name`, a unit in an
/// enumeration.
fn is_same_unit(name: &str, word: &str) -> bool {
    const SYMBOLS: [(&str, &str); 4] =
        [("°c", "celsius"), ("c", "celsius"), ("°f", "fahrenheit"), ("f", "fahrenheit")];
    let name = name.to_lowercase();
    let singular = |text: &str| text.trim_end_matches('s').to_owned();
    let is_symbol = || Unit::from_name(&name).is_some_and(|unit| Unit::from_name(word) == Some(unit));
    !word.is_empty()
        && (singular(&name) == singular(word) || SYMBOLS.contains(&(word, name.as_str())) || is_symbol())
}
