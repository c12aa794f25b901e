//! Generates example values from JSON Schemas.

mod choices;
mod list;
mod merged;
mod number;
mod object;
mod pattern;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;

use serde_json::Value;

use self::choices::Choices;
use self::merged::{JsonType, MergedSchema};
use self::text::Texts;
use haft_core::Schema;
use haft_schema::reference::Reference;

/// Maximum number of values that are generated and validated for one example.
const MAX_ATTEMPTS: usize = 500;

/// Maximum nesting depth of a generated value. The validator accepts deeper values.
const MAX_DEPTH: usize = 40;

/// The budget of all attempts for one example. Each generated value costs one unit. A text with
/// `minLength` costs one more unit per 64 characters. The budget bounds the memory for hostile
/// schemas, such as nested lists with a large `minItems`.
const BUDGET: usize = 100_000;

/// The error of [`example()`]: no valid value was found. A valid value may still exist, because the
/// search is not exhaustive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no example of the schema could be made, at {}: {reason}", if .pointer.is_empty() { "/" } else { .pointer })]
pub struct NoExample {
    /// The JSON pointer to the part of the value that could not be generated. Empty for the root.
    pub pointer: String,
    /// The reason why the last attempt failed.
    pub reason: String,
}

/// Generates a small value that is valid for a schema. The same schema always gives the same value.
///
/// Objects contain required members only. Texts are `a` and numbers are 0, or the nearest values
/// that the schema allows. A text with a `pattern` or `format` is generated in that form. If that
/// fails, the `examples` and the `default` of the schema are tried. For `anyOf`, `oneOf`, `if`,
/// `enum` and several types, the alternatives are tried in turn until the whole value is valid.
///
/// # Errors
///
/// Returns [`NoExample`] if no valid value was found in 500 attempts, or if the smallest valid
/// value is too large.
///
/// # Examples
///
/// ```
/// use haft_core::Schema;
/// use haft_testing::example;
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
/// assert_eq!(example(&schema)?, json!({"to": "a@example.org", "copies": 1}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn example(schema: &Schema) -> Result<Value, NoExample> {
    nth_example(schema, 0)
}

/// Generates the example with this number. Different numbers give different examples, as long as
/// the schema allows it.
///
/// `number` is used as a mixed-radix number. Each open choice of the schema, such as an `anyOf`,
/// takes one digit.
pub(super) fn nth_example(schema: &Schema, number: usize) -> Result<Value, NoExample> {
    let mut generator = Generator::new(schema.as_value());
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        generator.choices.begin(number);
        let errors = match generator.value(&[generator.root], "", 0) {
            Ok(value) => match schema.validate(&value) {
                Ok(()) => return Ok(value),
                Err(violations) => violations.iter().map(invalid).collect(),
            },
            Err(error) => vec![error],
        };
        let has_next = generator.choices.advance(errors.iter().map(|error| error.pointer.as_str()));
        last = errors.into_iter().next();
        if !has_next || generator.budget == 0 {
            break;
        }
    }
    Err(last.unwrap_or_else(|| no_example("", "no valid value was found")))
}

fn invalid(violation: &haft_core::schema::Violation) -> NoExample {
    let reason = format!("expected {}, but generated {}", violation.expected, violation.received);
    NoExample { pointer: violation.pointer.clone(), reason }
}

fn no_example(pointer: &str, reason: impl Into<String>) -> NoExample {
    NoExample { pointer: pointer.to_owned(), reason: reason.into() }
}

/// A generator of values for one schema and its subschemas.
struct Generator<'s> {
    root: &'s Value,
    /// The subschemas with an anchor, by their `$anchor`, `$dynamicAnchor` or draft-07 `$id`.
    anchors: HashMap<&'s str, &'s Value>,
    is_draft_7: bool,
    has_references: bool,
    choices: Choices,
    texts: Texts,
    /// The addresses of the subschemas of all enclosing values, to detect recursion.
    ancestors: Vec<usize>,
    /// Set while unique items or names are generated. The generator then offers 5,000 different
    /// texts and numbers.
    needs_distinct: bool,
    /// The unused units of [`BUDGET`].
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
            budget: BUDGET,
        };
        generator.index_anchors(root);
        generator
    }

    /// Collects the anchors of the schema and detects references. Recursion is safe: schemas have a
    /// bounded depth.
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
                self.has_references |= members.contains_key("$ref") || members.contains_key("$dynamicRef");
                members.values().for_each(|member| self.index_anchors(member));
            }
            _ => {}
        }
    }

    fn resolve(&self, reference: &str) -> Option<&'s Value> {
        match Reference::parse(reference)? {
            Reference::Pointer(pointer) => self.root.pointer(&pointer),
            Reference::Anchor(name) => self.anchors.get(name.as_str()).copied(),
        }
    }

    /// Generates a value that is valid for all `schemas`. `pointer` and `depth` are its place in
    /// the whole value.
    fn value(&mut self, schemas: &[&'s Value], pointer: &str, depth: usize) -> Result<Value, NoExample> {
        let outer = self.ancestors.len();
        let value = self.dispatch(schemas, pointer, depth);
        self.ancestors.truncate(outer);
        value
    }

    /// Takes units from the budget. Returns an error if the budget is used up.
    fn spend(&mut self, units: usize, pointer: &str) -> Result<(), NoExample> {
        self.budget = self.budget.saturating_sub(units);
        if self.budget == 0 {
            return Err(no_example(pointer, "the example would be too large"));
        }
        Ok(())
    }

    fn dispatch(&mut self, schemas: &[&'s Value], pointer: &str, depth: usize) -> Result<Value, NoExample> {
        if depth > MAX_DEPTH {
            return Err(no_example(pointer, "the schema requires infinitely nested values"));
        }
        self.spend(1, pointer)?;
        let merged = self.merge_all(schemas, pointer)?;
        if let Some(options) = merged.allowed_values() {
            let Some(last) = options.len().checked_sub(1) else {
                return Err(no_example(pointer, "no value satisfies every `enum` and `const`"));
            };
            let chosen = self.choices.choose(pointer, "enum", 0, options.len());
            return Ok(options[chosen.min(last)].clone());
        }
        self.ancestors.extend(merged.parts.iter().map(|part| address(*part)));
        let types = merged.types();
        let chosen = self.choices.choose(pointer, "type", 0, types.len());
        match types.get(chosen) {
            None => Err(no_example(pointer, "no type satisfies every `type`")),
            Some(JsonType::Object) => self.object(merged, pointer, depth),
            Some(JsonType::Array) => self.list(&merged, pointer, depth),
            Some(JsonType::Text) => self.text(&merged, pointer),
            Some(JsonType::Integer) => self.number(&merged, pointer, true),
            Some(JsonType::Number) => self.number(&merged, pointer, false),
            Some(JsonType::Boolean) => Ok(Value::Bool(self.choices.choose(pointer, "boolean", 0, 2) == 1)),
            Some(JsonType::Null) => Ok(Value::Null),
        }
    }

    /// Merges `schemas` into one: follows references and selects one alternative of each choice.
    fn merge_all(&mut self, schemas: &[&'s Value], pointer: &str) -> Result<MergedSchema<'s>, NoExample> {
        let mut merged = MergedSchema::default();
        for schema in schemas {
            self.merge(&mut merged, schema, pointer)?;
        }
        Ok(merged)
    }

    /// Adds a schema to `merged`. The recursion ends, because the schema compiler rejects reference
    /// cycles that do not descend into the value.
    fn merge(
        &mut self,
        merged: &mut MergedSchema<'s>,
        schema: &'s Value,
        pointer: &str,
    ) -> Result<(), NoExample> {
        let Value::Object(keywords) = schema else {
            let is_open = schema.as_bool() != Some(false);
            return if is_open { Ok(()) } else { Err(no_example(pointer, "the schema allows nothing here")) };
        };
        for reference in ["$ref", "$dynamicRef"] {
            if let Some(target) = keywords.get(reference).and_then(Value::as_str) {
                let target =
                    self.resolve(target).ok_or_else(|| no_example(pointer, "unresolved reference"))?;
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

    /// Adds either the `if` and `then` schemas, or only the `else` schema.
    fn merge_condition(
        &mut self,
        merged: &mut MergedSchema<'s>,
        schema: &'s Value,
        pointer: &str,
    ) -> Result<(), NoExample> {
        let Some(condition) = schema.get("if") else { return Ok(()) };
        let (then, otherwise) = (schema.get("then"), schema.get("else"));
        if then.or(otherwise).is_none() {
            return Ok(());
        }
        let is_met = self.choices.choose(pointer, "if", address(schema), 2) == 1;
        let parts = if is_met { [Some(condition), then] } else { [None, otherwise] };
        parts.into_iter().flatten().try_for_each(|part| self.merge(merged, part, pointer))
    }

    /// Sorts the alternatives of an `anyOf` or `oneOf`. Alternatives with a finite value are first,
    /// and alternatives that always recurse are last.
    fn sort_terminating_first(&self, ways: &'s [Value]) -> Vec<&'s Value> {
        let mut ways: Vec<_> = ways.iter().collect();
        if self.has_references {
            let mut steps = 0;
            ways.sort_by_cached_key(|way| !self.terminates(way, &mut self.ancestors.clone(), &mut steps));
        }
        ways
    }

    /// Returns `true` if a value of `schema` can be generated without entering the same subschema
    /// twice. `open` contains the addresses of the entered subschemas. After 1,000 `steps` the
    /// result is `true`.
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
        let terminates = keywords
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|it| self.resolve(it))
            .is_none_or(|it| self.terminates(it, open, steps))
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

/// Returns the address of a subschema as its identity.
fn address<T>(schema: &T) -> usize {
    std::ptr::from_ref(schema).addr()
}
