//! Mutations of fuzz inputs that preserve valid JSON.
//!
//! If libFuzzer changes the bytes of an input, the result is rarely valid JSON, and even more
//! rarely a schema. The mutations in this module change the JSON tree. For example, they add a
//! keyword, insert a reference, copy a subtree, or change a part of a value.

mod random;
mod random_part;
mod value_writer;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use self::random_part::{random_part, random_part_mut, random_reference};
use self::value_writer::ValueWriter;
use crate::Case;

/// Mutates the fuzz input in the first `size` bytes of `data` in place. Returns the new length, at
/// most `max_size`. Returns `None` if the input does not start with JSON, or if the mutated input
/// is too long. Also returns `None` at random in one of ten calls. In these cases, the fuzz targets
/// let libFuzzer mutate the bytes.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> Option<usize> {
    let mut rng = Rng::with_seed(seed.into());
    if rng.u8(..10) == 0 {
        return None;
    }
    let case = mutated(Case::parse(data.get(..size)?)?, &mut rng);
    copy_into(data.get_mut(..max_size)?, &case.to_bytes())
}

/// Combines two fuzz inputs and writes the result to `out`. Returns the length of the result.
/// Returns 0 if an input does not start with JSON, or if the result is longer than `out`.
pub fn cross_over(first: &[u8], second: &[u8], out: &mut [u8], seed: u32) -> usize {
    let mut rng = Rng::with_seed(seed.into());
    let (Some(first), Some(second)) = (Case::parse(first), Case::parse(second)) else { return 0 };
    copy_into(out, &crossed_over(first, &second, &mut rng).to_bytes()).unwrap_or(0)
}

/// Applies one to three random changes to `case`.
pub fn mutated(mut case: Case, rng: &mut Rng) -> Case {
    for _ in 0..=rng.u8(..3) {
        if rng.bool() || !case.has_json_values() {
            change_schema(&mut case.schema, rng);
        } else {
            let mut values = case.values();
            change_values(&case.schema, &mut values, rng);
            case = Case::new(case.schema, &values);
        }
    }
    case
}

/// Replaces a random part of the schema in `case` with a random part of the schema in `other`, or
/// replaces the values in `case` with the values in `other`.
pub fn crossed_over(mut case: Case, other: &Case, rng: &mut Rng) -> Case {
    if rng.bool() {
        let part = random_part(&other.schema, rng).clone();
        *random_part_mut(&mut case.schema, rng) = part;
        return case;
    }
    Case { schema: case.schema, values_text: other.values_text.clone() }
}

fn copy_into(out: &mut [u8], text: &[u8]) -> Option<usize> {
    out.get_mut(..text.len())?.copy_from_slice(text);
    Some(text.len())
}

fn change_schema(root: &mut Value, rng: &mut Rng) {
    let part = random_part(root, rng).clone();
    let to = random_reference(root, rng);
    let target = random_part_mut(root, rng);
    match rng.u8(..12) {
        0 => *target = random::schema(rng, 2),
        1 => *target = json!({"$ref": to}),
        2 => *target = part,
        3 => *target = wrapped(target.take(), rng),
        4 => *target = json!({"allOf": [{"$ref": to}, part]}),
        5 => {
            let name = *rng.choice(&["a", "b"]).unwrap_or(&"a");
            let subschema = std::mem::replace(target, json!({"$ref": format!("#/$defs/{name}")}));
            if let Some(root) = root.as_object_mut() {
                let defs = root.entry("$defs").or_insert_with(|| json!({}));
                defs.as_object_mut()
                    .into_iter()
                    .for_each(|defs| drop(defs.insert(name.into(), subschema.clone())));
            }
        }
        6 => remove(target, rng),
        7 | 8 => tweak(target, rng),
        _ => {
            let (keyword, value) = random::keyword(rng, 2);
            match target {
                Value::Object(members) => drop(members.insert(keyword, value)),
                Value::Array(items) => items.push(value),
                scalar => *scalar = json!({keyword: value}),
            }
        }
    }
}

/// Wraps the schema `inner` in another schema, such as `{"not": …}`.
fn wrapped(inner: Value, rng: &mut Rng) -> Value {
    let other = random::schema(rng, 1);
    match rng.u8(..9) {
        0 => json!({"allOf": [inner, other]}),
        1 => json!({"anyOf": [other, inner]}),
        2 => json!({"oneOf": [inner, other]}),
        3 => json!({"not": inner}),
        4 => json!({"if": inner, "then": other.clone(), "else": false}),
        5 => json!({"type": "array", "items": inner}),
        6 => json!({"type": "object", "properties": {"a": inner, "b": other}, "required": ["a"]}),
        7 => json!({"type": "object", "additionalProperties": inner}),
        _ => json!({"$ref": "#/$defs/a", "$defs": {"a": inner}}),
    }
}

fn change_values(schema: &Value, values: &mut Vec<Value>, rng: &mut Rng) {
    if values.is_empty() || (values.len() < 4 && rng.u8(..6) == 0) {
        values.push(ValueWriter::new(schema, rng).write());
        return;
    }
    let index = rng.usize(..values.len());
    let part = random_part(&values[rng.usize(..values.len())], rng).clone();
    let value = &mut values[index];
    match rng.u8(..12) {
        0..=2 => *value = ValueWriter::new(schema, rng).write(),
        3 => *value = json!({*rng.choice(&random::NAMES).unwrap_or(&"args"): value.take()}),
        4 => drop(values.swap_remove(index)),
        choice => {
            let target = random_part_mut(value, rng);
            match choice {
                5 | 6 => *target = Value::from(target.to_string()),
                7 => *target = random::value(rng, 2),
                8 => *target = part,
                9 => remove(target, rng),
                10 => tweak(target, rng),
                _ => match target {
                    Value::Object(members) => drop(members.insert(random::name(rng), Value::Null)),
                    Value::Array(items) => items.push(part),
                    scalar => *scalar = Value::Null,
                },
            }
        }
    }
}

fn remove(target: &mut Value, rng: &mut Rng) {
    match target {
        Value::Object(members) if !members.is_empty() => {
            let name = members.keys().nth(rng.usize(..members.len())).cloned();
            name.map(|name| members.shift_remove(&name));
        }
        Value::Array(items) if !items.is_empty() => drop(items.remove(rng.usize(..items.len()))),
        other => *other = Value::Null,
    }
}

/// Makes a small change to `target`, such as adding 1 to an integer.
fn tweak(target: &mut Value, rng: &mut Rng) {
    *target = match target.take() {
        Value::Null => json!("null"),
        Value::Bool(it) => Value::from(!it),
        Value::Number(number) => match (rng.u8(..4), number.as_i64()) {
            (0, Some(it)) => Value::from(it.wrapping_add(1)),
            (1, Some(it)) => Value::from(it.wrapping_sub(1)),
            (2, Some(it)) => Value::from(it as f64),
            _ => random::number(rng),
        },
        Value::String(text) => Value::from(random::text_like(&text, rng)),
        Value::Array(mut items) => {
            rng.shuffle(&mut items);
            Value::from(items)
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            if let Some(index) = (!members.is_empty()).then(|| rng.usize(..members.len())) {
                members[index].0 = random::name(rng);
            }
            Value::Object(Map::from_iter(members))
        }
    };
}
