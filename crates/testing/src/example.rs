//! Values made from schemas.

mod choices;
mod flat;
mod list;
mod number;
mod object;
mod pattern;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;

use serde_json::Value;

use self::choices::Choices;
use self::flat::{Flat, Kind};
use self::text::Texts;
use haft_core::Schema;
use haft_schema::reference::Reference;

/// How often a value is made anew in another way, where the one before did not fit.
const ATTEMPTS: usize = 500;

/// How deep a value may be nested: below what a schema is held against.
const DEPTH: usize = 40;

/// How much is made in all attempts together: values, of which a long text counts as several. A schema may ask for more than fits into memory.
const EFFORT: usize = 100_000;

/// No value could be made that fits a schema. There may be one all the same: a schema can ask for anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no example of the schema could be made, at {}: {reason}", if .place.is_empty() { "/" } else { .place })]
pub struct NoExample {
    /// The JSON pointer of the part of the value that could not be made. The root is the empty pointer.
    pub place: String,
    /// What was wrong with the last one that was tried.
    pub reason: String,
}

/// Makes a small value that fits a schema: always the same one, and never one that does not fit.
///
/// It holds what is required and no more. Texts are `a`, numbers 0, or the nearest that the schema allows; what has a `pattern`
/// or a `format` gets a text of that form, from the schema's own `examples` and `default` where none can be made up. Each way
/// that a schema leaves open (`anyOf`, `oneOf`, `if`, `enum`, several types) is tried until the whole fits.
///
/// # Errors
///
/// Fails with the place and the reason where no value was found, and where the smallest would be too large.
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

/// The example for which the ways that a schema leaves open are gone from another one on: the first that is met is told by the
/// number modulo how many ways there are, the next by what is left of it.
pub(super) fn nth_example(schema: &Schema, number: usize) -> Result<Value, NoExample> {
    let mut maker = Maker::new(schema.as_value());
    let mut last = None;
    for _ in 0..ATTEMPTS {
        maker.choices.begin(number);
        let misfits = match maker.value(&[maker.root], "", 0) {
            Ok(value) => match schema.validate(&value) {
                Ok(()) => return Ok(value),
                Err(violations) => violations.iter().map(misfit).collect(),
            },
            Err(misfit) => vec![misfit],
        };
        let goes_on = maker.choices.advance(misfits.iter().map(|misfit| misfit.place.as_str()));
        last = misfits.into_iter().next();
        if !goes_on || maker.effort == 0 {
            break;
        }
    }
    Err(last.unwrap_or_else(|| misfit_at("", "nothing fits")))
}

fn misfit(violation: &haft_core::schema::Violation) -> NoExample {
    let reason = format!("expected {}, but made {}", violation.expected, violation.received);
    NoExample { place: violation.pointer.clone(), reason }
}

fn misfit_at(place: &str, reason: impl Into<String>) -> NoExample {
    NoExample { place: place.to_owned(), reason: reason.into() }
}

/// Makes values of the parts of one schema.
struct Maker<'s> {
    root: &'s Value,
    /// Subschemas by the name they give themselves.
    anchors: HashMap<&'s str, &'s Value>,
    is_draft_7: bool,
    has_references: bool,
    choices: Choices,
    texts: Texts,
    /// The subschemas of the values around the one that is made.
    around: Vec<usize>,
    /// Whether there is no end of plain texts and numbers, since items must differ.
    unlimited: bool,
    /// How much may still be made.
    effort: usize,
}

impl<'s> Maker<'s> {
    fn new(root: &'s Value) -> Self {
        let mut maker = Self {
            root,
            anchors: HashMap::new(),
            is_draft_7: root["$schema"].as_str().is_some_and(|uri| uri.contains("draft-07")),
            has_references: false,
            choices: Choices::default(),
            texts: Texts::default(),
            around: Vec::new(),
            unlimited: false,
            effort: EFFORT,
        };
        maker.survey(root);
        maker
    }

    /// The depth of a schema is bounded.
    fn survey(&mut self, value: &'s Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.survey(item)),
            Value::Object(members) => {
                for keyword in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                        self.anchors.insert(name, value);
                    }
                }
                // Draft-07 names a place by an `$id` that is a fragment.
                if let Some(name) =
                    members.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'))
                {
                    self.anchors.insert(name, value);
                }
                self.has_references |= members.contains_key("$ref") || members.contains_key("$dynamicRef");
                members.values().for_each(|member| self.survey(member));
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

    /// Makes a value for all of these schemas.
    fn value(&mut self, schemas: &[&'s Value], place: &str, depth: usize) -> Result<Value, NoExample> {
        let outer = self.around.len();
        let made = self.value_inside(schemas, place, depth);
        self.around.truncate(outer);
        made
    }

    fn spend(&mut self, effort: usize, place: &str) -> Result<(), NoExample> {
        self.effort = self.effort.saturating_sub(effort);
        if self.effort == 0 {
            return Err(misfit_at(place, "the schema asks for more than an example may hold"));
        }
        Ok(())
    }

    fn value_inside(&mut self, schemas: &[&'s Value], place: &str, depth: usize) -> Result<Value, NoExample> {
        if depth > DEPTH {
            return Err(misfit_at(place, "the schema asks for values without an end"));
        }
        self.spend(1, place)?;
        let flat = self.flat(schemas, place)?;
        if let Some(options) = flat.options() {
            let Some(last) = options.len().checked_sub(1) else {
                return Err(misfit_at(place, "no value is allowed by all that the schema lists"));
            };
            let chosen = self.choices.choose(place, "enum", 0, options.len());
            return Ok(options[chosen.min(last)].clone());
        }
        self.around.extend(flat.parts.iter().map(|part| address(*part)));
        let kinds = flat.kinds();
        let chosen = self.choices.choose(place, "type", 0, kinds.len());
        match kinds.get(chosen) {
            None => Err(misfit_at(place, "no type is allowed by all that the schema says")),
            Some(Kind::Object) => self.object(flat, place, depth),
            Some(Kind::Array) => self.list(&flat, place, depth),
            Some(Kind::Text) => self.text(&flat, place),
            Some(Kind::Integer) => self.number(&flat, place, true),
            Some(Kind::Number) => self.number(&flat, place, false),
            Some(Kind::Boolean) => Ok(Value::Bool(self.choices.choose(place, "boolean", 0, 2) == 1)),
            Some(Kind::Null) => Ok(Value::Null),
        }
    }

    /// What all of these schemas say together of one value, with what they refer to and one way of each that they leave open.
    fn flat(&mut self, schemas: &[&'s Value], place: &str) -> Result<Flat<'s>, NoExample> {
        let mut flat = Flat::default();
        for schema in schemas {
            self.gather(&mut flat, schema, place)?;
        }
        Ok(flat)
    }

    /// References that come back without a step into the value are refused before a schema is compiled.
    fn gather(&mut self, flat: &mut Flat<'s>, schema: &'s Value, place: &str) -> Result<(), NoExample> {
        let Value::Object(keywords) = schema else {
            let is_open = schema.as_bool() != Some(false);
            return if is_open { Ok(()) } else { Err(misfit_at(place, "the schema allows nothing here")) };
        };
        for reference in ["$ref", "$dynamicRef"] {
            if let Some(target) = keywords.get(reference).and_then(Value::as_str) {
                let target =
                    self.resolve(target).ok_or_else(|| misfit_at(place, "a reference leads nowhere"))?;
                self.gather(flat, target, place)?;
                if self.is_draft_7 {
                    return Ok(());
                }
            }
        }
        flat.parts.push(keywords);
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.gather(flat, part, place)?;
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(ways) = keywords.get(keyword).and_then(Value::as_array) {
                let ways = self.ending_first(ways);
                let chosen = self.choices.choose(place, keyword, address(schema), ways.len());
                if let Some(way) = ways.get(chosen) {
                    self.gather(flat, way, place)?;
                }
            }
        }
        self.gather_condition(flat, schema, place)
    }

    /// Of a condition that is not met, or one that is.
    fn gather_condition(
        &mut self,
        flat: &mut Flat<'s>,
        schema: &'s Value,
        place: &str,
    ) -> Result<(), NoExample> {
        let Some(condition) = schema.get("if") else { return Ok(()) };
        let (then, otherwise) = (schema.get("then"), schema.get("else"));
        if then.or(otherwise).is_none() {
            return Ok(());
        }
        let is_met = self.choices.choose(place, "if", address(schema), 2) == 1;
        let parts = if is_met { [Some(condition), then] } else { [None, otherwise] };
        parts.into_iter().flatten().try_for_each(|part| self.gather(flat, part, place))
    }

    /// Those of several ways that come to an end before those that only lead back to themselves.
    fn ending_first(&self, ways: &'s [Value]) -> Vec<&'s Value> {
        let mut ways: Vec<_> = ways.iter().collect();
        if self.has_references {
            let mut steps = 0;
            ways.sort_by_cached_key(|way| !self.ends(way, &mut self.around.clone(), &mut steps));
        }
        ways
    }

    /// Whether a value can be made without going through the same subschema again.
    fn ends(&self, schema: &'s Value, open: &mut Vec<usize>, steps: &mut usize) -> bool {
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
        let ends = keywords
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|it| self.resolve(it))
            .is_none_or(|it| self.ends(it, open, steps))
            && list("allOf").all(|part| self.ends(part, open, steps))
            && ["anyOf", "oneOf"].iter().all(|keyword| {
                list(keyword).next().is_none() || list(keyword).any(|way| self.ends(way, open, steps))
            })
            && list("required")
                .filter_map(|name| schema.get("properties")?.get(name.as_str()?))
                .all(|it| self.ends(it, open, steps))
            && (keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0) == 0
                || keywords.get("items").is_none_or(|items| self.ends(items, open, steps)));
        open.pop();
        ends
    }
}

/// Tells one subschema from another.
fn address<T>(schema: &T) -> usize {
    std::ptr::from_ref(schema).addr()
}
