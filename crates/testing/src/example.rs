//! Example values for JSON Schemas, the arguments of [`TestModel`](super::TestModel).

mod merged_schema;
mod pattern;
#[cfg(test)]
mod tests;

use serde_json::{Map, Number, Value, json};

use self::merged_schema::MergedSchema;
use haft_core::{Schema, schema::Violation};
use haft_schema::reference::{Reference, join_pointer};

/// The maximum number of values that are generated and validated before the search fails.
const MAX_ATTEMPTS: usize = 500;

/// The maximum nesting depth of a generated value.
const MAX_DEPTH: usize = 40;

/// The budget for all attempts to generate one example. A value costs one unit, and a string one
/// more unit per 64 characters. The budget bounds the memory for hostile schemas, such as nested
/// lists with a large `minItems`.
const BUDGET: usize = 100_000;

/// The strings to try for a `pattern` or a `format`. They include a valid string for each `format`
/// that the validator enforces.
const SAMPLE_TEXTS: [&str; 16] = [
    "2026-11-22T05:30:00Z",
    "2026-11-22",
    "05:30:00Z",
    "P1D",
    "a@example.org",
    "example.org",
    "127.0.0.1",
    "::1",
    "https://example.org/a",
    "01234567-89ab-4cde-8f01-23456789abcd",
    "/a",
    "0/a",
    "a",
    "1",
    "A",
    "",
];

/// The error returned by [`generate_example`] if no valid value was found. A valid value may still
/// exist, because the search is not exhaustive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no example of the schema could be made, at {}: {reason}", if .pointer.is_empty() { "/" } else { .pointer })]
pub struct ExampleError {
    /// The JSON pointer to the part of the value that could not be generated. Empty for the root.
    pub pointer: String,
    /// The reason why the last attempt to generate a value failed.
    pub reason: String,
}

impl ExampleError {
    fn new(pointer: &str, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), reason: reason.into() }
    }
}

/// Generates a small value that is valid for `schema`. The same schema always gives the same value.
///
/// Objects contain the required members and lists `minItems` items. Strings are `a` and numbers are
/// 0 if the schema allows it. The alternatives of `anyOf` and `oneOf` are tried in turn.
///
/// # Errors
///
/// Returns an [`ExampleError`] if none of up to 500 attempts generates a valid value, or if the
/// schema requires a very large value. Keywords that are rare in the schemas of tools, such as `if`,
/// `not`, `contains` and `uniqueItems`, are only checked: an example must be valid without
/// further effort.
///
/// # Examples
///
/// ```
/// use haft_core::Schema;
/// use haft_testing::generate_example;
/// use serde_json::json;
///
/// let schema = Schema::new(json!({
///     "type": "object",
///     "properties": {
///         "to": {"type": "string", "format": "email"},
///         "copies": {"type": "integer", "minimum": 1},
///         "note": {"type": "string"},
///     },
///     "required": ["to", "copies"],
/// }))?;
/// assert_eq!(generate_example(&schema)?, json!({"to": "a@example.org", "copies": 1}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn generate_example(schema: &Schema) -> Result<Value, ExampleError> {
    generate_nth_example(schema, 0)
}

/// Generates an example of `schema`. Different values of `number` select different alternatives of
/// `anyOf` and `oneOf`.
pub(super) fn generate_nth_example(schema: &Schema, number: usize) -> Result<Value, ExampleError> {
    let mut generator = Generator { root: schema.as_value(), budget: BUDGET, number, combinations: 1 };
    let mut attempt = 0;
    loop {
        (generator.number, generator.combinations) = (number + attempt, 1);
        let error = match generator.value(&[generator.root], "", 0) {
            Ok(value) => match schema.validate(&value) {
                Ok(()) => return Ok(value),
                Err(violations) => match violations.iter().next() {
                    Some(Violation { pointer, expected, received, .. }) => {
                        ExampleError::new(pointer, format!("expected {expected}, but generated {received}"))
                    }
                    None => ExampleError::new("", "the value is not valid"),
                },
            },
            Err(error) => error,
        };
        attempt += 1;
        if attempt == MAX_ATTEMPTS.min(generator.combinations) || generator.budget == 0 {
            return Err(error);
        }
    }
}

struct Generator<'s> {
    root: &'s Value,
    /// The remaining units of [`BUDGET`].
    budget: usize,
    /// A mixed-radix number that selects the alternatives: each `anyOf` and `oneOf` takes one digit.
    number: usize,
    /// The number of combinations of the alternatives in this attempt.
    combinations: usize,
}

impl<'s> Generator<'s> {
    /// Generates a value that should satisfy every schema in `schemas`. `pointer` is the JSON
    /// pointer of the value in the example, and `depth` is its nesting depth.
    fn value(&mut self, schemas: &[&'s Value], pointer: &str, depth: usize) -> Result<Value, ExampleError> {
        if depth > MAX_DEPTH {
            return Err(ExampleError::new(pointer, "the schema requires infinitely nested values"));
        }
        self.spend(1, pointer)?;
        let mut merged = MergedSchema::default();
        for schema in schemas {
            self.merge(&mut merged, schema, pointer)?;
        }
        if let Some(values) = merged.enumerated_values() {
            let first = values.into_iter().next().cloned();
            return first
                .ok_or_else(|| ExampleError::new(pointer, "no value satisfies every `enum` and `const`"));
        }
        match merged.json_type() {
            Some("object") => self.object(&merged, pointer, depth),
            Some("array") => self.list(&merged, pointer, depth),
            Some("string") => self.text(&merged, pointer),
            Some(kind @ ("integer" | "number")) => number(&merged, kind, pointer),
            Some("boolean") => Ok(Value::Bool(false)),
            Some(_) => Ok(Value::Null),
            None => Err(ExampleError::new(pointer, "no type satisfies every `type`")),
        }
    }

    /// Subtracts `units` from the budget. Returns an error for the value at `pointer` if it is used
    /// up.
    fn spend(&mut self, units: usize, pointer: &str) -> Result<(), ExampleError> {
        self.budget = self.budget.saturating_sub(units);
        if self.budget == 0 {
            return Err(ExampleError::new(pointer, "the example would be too large"));
        }
        Ok(())
    }

    /// Adds `schema` to `merged`, together with the schemas that it references, its `allOf` schemas
    /// and one alternative of each `anyOf` and `oneOf`.
    ///
    /// The recursion always ends, because the schema compiler rejects reference cycles in which all
    /// schemas apply to the same value.
    fn merge(
        &mut self,
        merged: &mut MergedSchema<'s>,
        schema: &'s Value,
        pointer: &str,
    ) -> Result<(), ExampleError> {
        if *schema == Value::Bool(false) {
            return Err(ExampleError::new(pointer, "the schema allows nothing here"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let target = match Reference::parse(reference) {
                Some(Reference::Pointer(target)) => self.root.pointer(&target),
                _ => None,
            };
            let target = target.ok_or_else(|| ExampleError::new(pointer, "unsupported reference"))?;
            self.merge(merged, target, pointer)?;
        }
        merged.add(keywords);
        let list = |keyword| keywords.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for part in list("allOf") {
            self.merge(merged, part, pointer)?;
        }
        for alternatives in [list("anyOf"), list("oneOf")] {
            let count = alternatives.len().max(1);
            let chosen = alternatives.get(self.number % count);
            self.number /= count;
            self.combinations = self.combinations.saturating_mul(count);
            chosen.map_or(Ok(()), |it| self.merge(merged, it, pointer))?;
        }
        Ok(())
    }

    fn object(
        &mut self,
        merged: &MergedSchema<'s>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        let mut members = Map::new();
        for name in merged.required_names() {
            let schemas = merged.member_schemas(name);
            let member = self.value(&schemas, &join_pointer(pointer, name), depth + 1)?;
            members.insert(name.to_owned(), member);
        }
        Ok(Value::Object(members))
    }

    fn list(
        &mut self,
        merged: &MergedSchema<'s>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        let items: Vec<_> = merged.values("items").collect();
        let items = (0..merged.lower_bound("minItems"))
            .map(|index| self.value(&items, &join_pointer(pointer, &index.to_string()), depth + 1));
        items.collect::<Result<_, _>>().map(Value::Array)
    }

    fn text(&mut self, merged: &MergedSchema<'s>, pointer: &str) -> Result<Value, ExampleError> {
        let least = merged.lower_bound("minLength");
        self.spend(least / 64, pointer)?;
        let patterns = merged.values("pattern").filter_map(Value::as_str);
        let texts = ["a".repeat(least.max(1))]
            .into_iter()
            .chain(SAMPLE_TEXTS.iter().map(|text| (*text).to_owned()))
            .chain(patterns.flat_map(|pattern| pattern::generate_texts(pattern, least)))
            .map(Value::from);
        first_valid(merged, "string", ["pattern", "format", "minLength", "maxLength"], texts, pointer)
    }
}

fn number(merged: &MergedSchema<'_>, kind: &str, pointer: &str) -> Result<Value, ExampleError> {
    let bound = |keyword| merged.values(keyword).filter_map(Value::as_f64).next();
    let above = bound("exclusiveMinimum").or_else(|| bound("minimum"));
    let below = bound("exclusiveMaximum").or_else(|| bound("maximum"));
    let between = above.zip(below).map(|(above, below)| f64::midpoint(above, below));
    let near = [above.map(|it| it.floor() + 1.0), below.map(|it| it.ceil() - 1.0), between];
    let numbers = [0, 1]
        .map(Value::from)
        .into_iter()
        .chain(merged.values("minimum").cloned())
        .chain(near.into_iter().flatten().filter_map(to_json_number))
        .chain(["maximum", "multipleOf"].into_iter().flat_map(|it| merged.values(it)).cloned());
    let keywords = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"];
    first_valid(merged, kind, keywords, numbers, pointer)
}

/// Converts a number without a fraction to a JSON integer, so that it is written as `4` and not as
/// `4.0`.
fn to_json_number(number: f64) -> Option<Value> {
    match format!("{number}").parse::<i64>() {
        Ok(integer) => Some(integer.into()),
        Err(_) => Number::from_f64(number).map(Value::Number),
    }
}

/// Returns the first value of the type `kind` that satisfies `keywords`. The candidates are
/// `candidates`, and then the `default` and the `examples` of the schema.
fn first_valid<const N: usize>(
    merged: &MergedSchema<'_>,
    kind: &str,
    keywords: [&str; N],
    candidates: impl Iterator<Item = Value>,
    pointer: &str,
) -> Result<Value, ExampleError> {
    let mut rules = merged.only(&keywords);
    rules.insert(0, json!({"type": kind}));
    let given =
        merged.values("examples").filter_map(Value::as_array).flatten().chain(merged.values("default"));
    let schema = Schema::new(json!({"allOf": rules}));
    let is_valid = |value: &Value| schema.as_ref().is_ok_and(|schema| schema.is_valid(value));
    candidates.chain(given.cloned()).find(is_valid).ok_or_else(|| {
        let rules: Vec<_> = rules.iter().map(Value::to_string).collect();
        ExampleError::new(pointer, format!("no value was found for {}", rules.join(" and ")))
    })
}
