//! Generates example values from JSON Schemas.

mod array;
mod choices;
mod merged_schema;
mod number;
mod object;
mod pattern;
mod string;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::Value;

use self::choices::Choices;
use self::merged_schema::{JsonType, MergedSchema};
use self::string::Texts;
use haft_core::Schema;
use haft_schema::reference::Reference;

/// The maximum number of candidate values that are generated and validated before the search for an
/// example fails.
const MAX_ATTEMPTS: usize = 500;

/// The maximum nesting depth of a generated value. If a schema requires a deeper value,
/// [`generate_example`] fails.
const MAX_VALUE_DEPTH: usize = 40;

/// The budget for all attempts to generate one example. Each generated JSON value costs one unit,
/// including each nested value. A string costs one more unit per 64 characters of its `minLength`.
/// The budget bounds the memory for hostile schemas, such as nested lists with a large `minItems`.
const VALUE_BUDGET: usize = 100_000;

/// The keywords whose value is a reference to another subschema.
const REFERENCE_KEYWORDS: [&str; 2] = ["$ref", "$dynamicRef"];

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

/// Generates a small value that is valid for `schema`. The same schema always gives the same value.
///
/// Objects contain the required members, and more members only if the schema needs them, for
/// example because of `minProperties`. Strings are `a` and numbers are 0. If the schema does not
/// allow these values, values near them are used. For a string with a `pattern` or `format`, common
/// strings (such as dates) are tried first, then strings generated from the pattern, and then the
/// `examples` and the `default` of the schema. If the schema has alternatives (`anyOf`, `oneOf`,
/// `if`, `enum` or several types), they are tried in turn until the whole value is valid.
///
/// # Errors
///
/// Returns an [`ExampleError`] if none of up to 500 attempts generates a valid value, or if the
/// schema requires a very large value.
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

/// Generates an example of `schema`. `number` selects the example: different numbers usually give
/// different examples if the schema allows several values.
///
/// `number` is read as a mixed-radix number. Each choice in the schema, such as an `anyOf`, takes
/// one digit, which selects one of its options.
pub(super) fn generate_nth_example(schema: &Schema, number: usize) -> Result<Value, ExampleError> {
    let mut generator = Generator::new(schema.as_value());
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        generator.choices.begin_attempt(number);
        let errors = match generator.value(&[generator.root], "", 0) {
            Ok(value) => match schema.validate(&value) {
                Ok(()) => return Ok(value),
                Err(violations) => violations.iter().map(to_example_error).collect(),
            },
            Err(error) => vec![error],
        };
        let has_next = generator.choices.advance(errors.iter().map(|error| error.pointer.as_str()));
        last = errors.into_iter().next();
        if !has_next || generator.budget == 0 {
            break;
        }
    }
    Err(last.unwrap_or_else(|| example_error("", "no valid value was found")))
}

fn to_example_error(violation: &haft_core::schema::Violation) -> ExampleError {
    let reason = format!("expected {}, but generated {}", violation.expected, violation.received);
    ExampleError { pointer: violation.pointer.clone(), reason }
}

fn example_error(pointer: &str, reason: impl Into<String>) -> ExampleError {
    ExampleError { pointer: pointer.to_owned(), reason: reason.into() }
}

/// A generator of values for a schema and its subschemas.
struct Generator<'s> {
    root: &'s Value,
    /// The subschemas with an anchor, by anchor name. A name comes from `$anchor`, `$dynamicAnchor`
    /// or, in draft-07, the fragment of `$id`.
    anchors: HashMap<&'s str, &'s Value>,
    is_draft_7: bool,
    has_references: bool,
    choices: Choices,
    texts: Texts,
    /// The memory addresses of the subschemas that apply to the current value or to its parents.
    /// They are used to detect recursive schemas.
    ancestors: Vec<usize>,
    /// `true` while the generated values must differ, for example the items of an array with
    /// `uniqueItems`. Numbers and plain strings are then selected from 5,000 candidates instead of
    /// a few.
    needs_distinct: bool,
    /// The remaining units of [`VALUE_BUDGET`].
    budget: usize,
}

impl<'s> Generator<'s> {
    fn new(root: &'s Value) -> Self {
        let mut generator = Self {
            root,
            anchors: HashMap::new(),
            is_draft_7: root["$schema"].as_str().is_some_and(|uri| uri.contains("draft-07")),
            has_references: false,
            choices: Choices::default(),
            texts: Texts::default(),
            ancestors: Vec::new(),
            needs_distinct: false,
            budget: VALUE_BUDGET,
        };
        generator.index_anchors(root);
        generator
    }

    /// Adds the subschemas in `value` that have an anchor to `anchors`, and sets `has_references`
    /// if `value` contains a reference. The recursion is bounded, because the depth of a compiled
    /// schema is limited.
    fn index_anchors(&mut self, value: &'s Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.index_anchors(item)),
            Value::Object(members) => {
                for keyword in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                        self.anchors.insert(name, value);
                    }
                }
                // In draft-07, an `$id` with only a fragment declares an anchor.
                if let Some(name) =
                    members.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'))
                {
                    self.anchors.insert(name, value);
                }
                self.has_references |=
                    REFERENCE_KEYWORDS.iter().any(|keyword| members.contains_key(*keyword));
                members.values().for_each(|member| self.index_anchors(member));
            }
            _ => {}
        }
    }

    fn resolve_reference(&self, reference: &str) -> Option<&'s Value> {
        match Reference::parse(reference)? {
            Reference::Pointer(pointer) => self.root.pointer(&pointer),
            Reference::Anchor(name) => self.anchors.get(name.as_str()).copied(),
        }
    }

    /// Generates a value that should satisfy every schema in `schemas`. `pointer` is the JSON
    /// pointer of the value in the example, and `depth` is its nesting depth.
    fn value(&mut self, schemas: &[&'s Value], pointer: &str, depth: usize) -> Result<Value, ExampleError> {
        let outer = self.ancestors.len();
        let value = self.dispatch(schemas, pointer, depth);
        self.ancestors.truncate(outer);
        value
    }

    /// Subtracts `units` from the budget. If the budget is used up, returns an error for the value
    /// at `pointer`.
    fn spend_budget(&mut self, units: usize, pointer: &str) -> Result<(), ExampleError> {
        self.budget = self.budget.saturating_sub(units);
        if self.budget == 0 {
            return Err(example_error(pointer, "the example would be too large"));
        }
        Ok(())
    }

    fn dispatch(
        &mut self,
        schemas: &[&'s Value],
        pointer: &str,
        depth: usize,
    ) -> Result<Value, ExampleError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(example_error(pointer, "the schema requires infinitely nested values"));
        }
        self.spend_budget(1, pointer)?;
        let merged = self.merge_all(schemas, pointer)?;
        if let Some(options) = merged.allowed_values() {
            let Some(last) = options.len().checked_sub(1) else {
                return Err(example_error(pointer, "no value satisfies every `enum` and `const`"));
            };
            let chosen = self.choices.choose(pointer, "enum", 0, options.len());
            return Ok(options[chosen.min(last)].clone());
        }
        self.ancestors.extend(merged.parts.iter().map(|part| address(*part)));
        let types = merged.allowed_types();
        let chosen = self.choices.choose(pointer, "type", 0, types.len());
        match types.get(chosen) {
            None => Err(example_error(pointer, "no type satisfies every `type`")),
            Some(JsonType::Object) => self.object(merged, pointer, depth),
            Some(JsonType::Array) => self.list(&merged, pointer, depth),
            Some(JsonType::String) => self.text(&merged, pointer),
            Some(JsonType::Integer) => self.number(&merged, pointer, true),
            Some(JsonType::Number) => self.number(&merged, pointer, false),
            Some(JsonType::Boolean) => Ok(Value::Bool(self.choices.choose(pointer, "boolean", 0, 2) == 1)),
            Some(JsonType::Null) => Ok(Value::Null),
        }
    }

    /// Merges `schemas` into one schema. Follows references, and selects one alternative of each
    /// `anyOf`, `oneOf` and `if`.
    fn merge_all(&mut self, schemas: &[&'s Value], pointer: &str) -> Result<MergedSchema<'s>, ExampleError> {
        let mut merged = MergedSchema::default();
        for schema in schemas {
            self.merge(&mut merged, schema, pointer)?;
        }
        Ok(merged)
    }

    /// Adds `schema` to `merged`, together with the schemas that it references, its `allOf`
    /// schemas, and the selected alternative of each `anyOf`, `oneOf` and `if`. In draft-07, all
    /// keywords next to a `$ref` are ignored.
    ///
    /// The recursion always ends, because the schema compiler rejects reference cycles in which all
    /// schemas apply to the same value.
    fn merge(
        &mut self,
        merged: &mut MergedSchema<'s>,
        schema: &'s Value,
        pointer: &str,
    ) -> Result<(), ExampleError> {
        let Value::Object(keywords) = schema else {
            let is_open = schema.as_bool() != Some(false);
            return if is_open {
                Ok(())
            } else {
                Err(example_error(pointer, "the schema allows nothing here"))
            };
        };
        for reference in REFERENCE_KEYWORDS {
            if let Some(target) = keywords.get(reference).and_then(Value::as_str) {
                let target = self
                    .resolve_reference(target)
                    .ok_or_else(|| example_error(pointer, "unresolved reference"))?;
                self.merge(merged, target, pointer)?;
                if self.is_draft_7 {
                    return Ok(());
                }
            }
        }
        merged.parts.push(keywords);
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.merge(merged, part, pointer)?;
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(ways) = keywords.get(keyword).and_then(Value::as_array) {
                let ways = self.sort_terminating_first(ways);
                let chosen = self.choices.choose(pointer, keyword, address(schema), ways.len());
                if let Some(way) = ways.get(chosen) {
                    self.merge(merged, way, pointer)?;
                }
            }
        }
        self.merge_condition(merged, schema, pointer)
    }

    /// Merges the `if` of `schema`: adds either the `if` and `then` schemas or the `else` schema to
    /// `merged`, as selected by a choice. Does nothing if `schema` has no `if`, or neither `then`
    /// nor `else`.
    fn merge_condition(
        &mut self,
        merged: &mut MergedSchema<'s>,
        schema: &'s Value,
        pointer: &str,
    ) -> Result<(), ExampleError> {
        let Some(condition) = schema.get("if") else { return Ok(()) };
        let (then, otherwise) = (schema.get("then"), schema.get("else"));
        if then.or(otherwise).is_none() {
            return Ok(());
        }
        let is_met = self.choices.choose(pointer, "if", address(schema), 2) == 1;
        let parts = if is_met { [Some(condition), then] } else { [None, otherwise] };
        parts.into_iter().flatten().try_for_each(|part| self.merge(merged, part, pointer))
    }

    /// Returns the alternatives `ways` of an `anyOf` or `oneOf`. Alternatives that always lead back
    /// to themselves or to an enclosing subschema are moved to the end, to avoid deep recursion.
    fn sort_terminating_first(&self, ways: &'s [Value]) -> Vec<&'s Value> {
        let mut ways: Vec<_> = ways.iter().collect();
        if self.has_references {
            let mut steps = 0;
            ways.sort_by_cached_key(|way| !self.terminates(way, &mut self.ancestors.clone(), &mut steps));
        }
        ways
    }

    /// Returns `true` if a value of `schema` can be generated without entering a subschema twice.
    /// `open` contains the memory addresses of the subschemas entered so far. `steps` counts the
    /// visited subschemas. To bound the search, the function returns `true` after 1,000 of them.
    fn terminates(&self, schema: &'s Value, open: &mut Vec<usize>, steps: &mut usize) -> bool {
        *steps += 1;
        if *steps > 1_000 {
            return true;
        }
        let Value::Object(keywords) = schema else { return true };
        if open.contains(&address(keywords)) {
            return false;
        }
        open.push(address(keywords));
        let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let targets = REFERENCE_KEYWORDS
            .iter()
            .filter_map(|keyword| self.resolve_reference(keywords.get(*keyword)?.as_str()?));
        let terminates = targets.into_iter().all(|target| self.terminates(target, open, steps))
            && list("allOf").all(|part| self.terminates(part, open, steps))
            && ["anyOf", "oneOf"].iter().all(|keyword| {
                list(keyword).next().is_none() || list(keyword).any(|way| self.terminates(way, open, steps))
            })
            && list("required")
                .filter_map(|name| schema.get("properties")?.get(name.as_str()?))
                .all(|it| self.terminates(it, open, steps))
            && (keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0) == 0
                || keywords.get("items").is_none_or(|items| self.terminates(items, open, steps)));
        open.pop();
        terminates
    }
}

/// Returns the memory address of `schema`, which identifies a subschema.
fn address<T>(schema: &T) -> usize {
    std::ptr::from_ref(schema).addr()
}
