//! Static comparison of an output schema with the input schema of a consumer, such as the next tool
//! of a chain.

use serde_json::{Map, Value};

use super::{Schema, json_type, reference};

/// The maximum nesting of the compared schemas, in levels. Deeper subschemas are assumed to be
/// compatible.
const MAX_DEPTH: usize = 16;
/// The maximum number of compared pairs of subschemas. Further pairs are assumed to be compatible.
const MAX_PAIRS: usize = 2_000;

/// A location where no produced value can be valid for the schema of the consumer, found by
/// [`Schema::find_incompatibility`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatibility {
    /// The JSON pointer of the location in the consumed value, such as `/x`. The pointer of the
    /// root is empty.
    pub pointer: String,
    /// The reason for the incompatibility, for example `expected integer, produced string`.
    pub reason: String,
}

impl Schema {
    /// Compares this schema, the output schema of a producer, with the input schema `consumer`. If
    /// `property` is given, the produced value becomes this property of the consumed object.
    ///
    /// Returns the first location where no produced value can be valid. Returns `None` if there is
    /// no such location, if `consumer` does not declare `property`, or if the comparison is
    /// inconclusive. The comparison stops after 16 levels or 2,000 pairs of subschemas, and does
    /// not evaluate every keyword.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let text = Schema::new(json!({"type": "string"}))?;
    /// let number = Schema::new(json!({"type": "number"}))?;
    /// assert!(text.find_incompatibility(&number, None).is_some());
    /// assert!(number.find_incompatibility(&number, None).is_none());
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn find_incompatibility(&self, consumer: &Self, property: Option<&str>) -> Option<Incompatibility> {
        let root = consumer.as_value();
        let consumed = match property {
            None => root,
            Some(name) => consumer.properties().find(|it| it.name == name)?.schema,
        };
        let pointer = property.map_or_else(String::new, |name| reference::join_pointer("", name));
        let (produced, is_closed) = (self.as_value(), self.0.is_closed);
        let mut comparison = Comparison { produced, consumed: root, is_closed, remaining_pairs: MAX_PAIRS };
        comparison.compare(
            Pair { produced: self.as_value(), consumed, is_partial: false },
            &pointer,
            MAX_DEPTH,
        )
    }
}

/// The state of a comparison: the root schemas of the producer and the consumer, and the remaining
/// number of comparisons.
struct Comparison<'s> {
    produced: &'s Value,
    consumed: &'s Value,
    /// `true` if the producer never writes undeclared properties, because its schema was derived
    /// from a Rust type.
    is_closed: bool,
    /// The number of pairs of subschemas that may still be compared. Initially [`MAX_PAIRS`].
    remaining_pairs: usize,
}

/// A subschema of the producer and a subschema of the consumer, for the same location in a value.
#[derive(Clone, Copy)]
struct Pair<'s> {
    produced: &'s Value,
    consumed: &'s Value,
    /// `true` if `produced` is a branch of `anyOf`, `oneOf` or `allOf`. The schema around the
    /// branch, and its other branches, may declare further properties of the same object.
    is_partial: bool,
}

impl<'s> Comparison<'s> {
    fn compare(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        self.remaining_pairs = self.remaining_pairs.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let produced = reference::follow(self.produced, pair.produced);
        let consumed = reference::follow(self.consumed, pair.consumed);
        let pair = Pair { produced, consumed, ..pair };
        if *consumed == Value::Bool(false) {
            return Some(Incompatibility {
                pointer: pointer.to_owned(),
                reason: "no value is accepted".to_owned(),
            });
        }
        self.compare_branches(pair, pointer, depth).or_else(|| self.compare_types(pair, pointer, depth))
    }

    /// Compares the branches of `anyOf`, `oneOf` and `allOf`. For `anyOf` and `oneOf`, one
    /// compatible branch is enough. For `allOf`, all branches must be compatible. Returns the first
    /// incompatibility, or `None` if there is none.
    fn compare_branches(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Pair { produced, consumed, .. } = pair;
        for keyword in ["anyOf", "oneOf"] {
            let by_produced =
                keyword_items(produced, keyword).map(|produced| Pair { produced, is_partial: true, ..pair });
            let by_consumed = keyword_items(consumed, keyword).map(|consumed| Pair { consumed, ..pair });
            let incompatibility = self
                .compare_any(by_produced, pointer, depth)
                .or_else(|| self.compare_any(by_consumed, pointer, depth));
            if incompatibility.is_some() {
                return incompatibility;
            }
        }
        let produced =
            keyword_items(produced, "allOf").map(|produced| Pair { produced, is_partial: true, ..pair });
        let consumed = keyword_items(consumed, "allOf").map(|consumed| Pair { consumed, ..pair });
        produced.chain(consumed).find_map(|pair| self.compare(pair, pointer, depth))
    }

    /// Compares `pairs`, the alternatives of a union. Returns the incompatibility of the first pair
    /// if all pairs are incompatible. Returns `None` if `pairs` is empty or at least one pair is
    /// compatible.
    fn compare_any(
        &mut self,
        pairs: impl Iterator<Item = Pair<'s>>,
        pointer: &str,
        depth: usize,
    ) -> Option<Incompatibility> {
        let incompatibilities: Option<Vec<_>> =
            pairs.map(|pair| self.compare(pair, pointer, depth)).collect();
        incompatibilities?.into_iter().next()
    }

    fn compare_types(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Pair { produced, consumed, .. } = pair;
        let (produced_types, consumed_types) = (allowed_types(produced), allowed_types(consumed)?);
        let common: Vec<_> = match &produced_types {
            None => consumed_types.clone(),
            Some(produced) => {
                produced.iter().copied().filter(|it| is_compatible_type(it, &consumed_types)).collect()
            }
        };
        let incompatibility = |reason: String| Some(Incompatibility { pointer: pointer.to_owned(), reason });
        match common.as_slice() {
            [] => incompatibility(format!(
                "expected {}, produced {}",
                consumed_types.join(" or "),
                produced_types.unwrap_or_default().join(" or ")
            )),
            ["object"] => self.compare_properties(pair, pointer, depth),
            ["array"] => {
                let item = |schema: &'s Value| schema.get("items").filter(|it| it.is_object());
                let pair = Pair { produced: item(produced)?, consumed: item(consumed)?, is_partial: false };
                self.compare(pair, &reference::join_pointer(pointer, "0"), depth)
            }
            _ => {
                let (produced, consumed) = (listed_values(produced)?, listed_values(consumed)?);
                let none = !produced.iter().any(|value| consumed.contains(value));
                let listed =
                    |values: &[&Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                none.then(|| {
                    incompatibility(format!(
                        "expected one of {}, produced {}",
                        listed(&consumed),
                        listed(&produced)
                    ))
                })?
            }
        }
    }

    fn compare_properties(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Pair { produced, consumed, .. } = pair;
        let (produced_members, consumed_members) =
            (declared_properties(produced), declared_properties(consumed));
        let incompatibility = |name: &str, reason: &str| {
            Some(Incompatibility {
                pointer: reference::join_pointer(pointer, name),
                reason: reason.to_owned(),
            })
        };
        let is_complete =
            is_closed(produced) || self.is_closed && !pair.is_partial && declares_all_members(produced);
        for name in required_names(consumed) {
            if is_complete && !produced_members.is_some_and(|it| it.contains_key(name)) {
                return incompatibility(name, "required, but never produced");
            }
        }
        if is_closed(consumed) {
            for name in required_names(produced) {
                if !consumed_members.is_some_and(|it| it.contains_key(name)) {
                    return incompatibility(name, "always produced, but not accepted");
                }
            }
        }
        let both = consumed_members?
            .iter()
            .filter_map(|(name, consumed)| Some((name, produced_members?.get(name)?, consumed)));
        both.filter(|(name, ..)| {
            required_names(produced).chain(required_names(pair.consumed)).any(|it| it == name.as_str())
        })
        .find_map(|(name, produced, consumed)| {
            let pair = Pair { produced, consumed, is_partial: false };
            self.compare(pair, &reference::join_pointer(pointer, name), depth)
        })
    }
}

fn keyword_items<'s>(schema: &'s Value, keyword: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn declared_properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    keyword_items(schema, "required").filter_map(Value::as_str)
}

/// Returns `true` if `schema` rejects undeclared properties: it has `additionalProperties: false`
/// and no `patternProperties`.
fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none()
}

/// Returns `true` if `schema` declares at least one property, and has no keyword that could allow
/// undeclared properties.
fn declares_all_members(schema: &Value) -> bool {
    const OPENING_KEYWORDS: [&str; 8] = [
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "$ref",
    ];
    declared_properties(schema).is_some_and(|listed| !listed.is_empty())
        && OPENING_KEYWORDS.iter().all(|it| schema.get(it).is_none())
}

/// Returns the value of `const`. Without `const`, returns the values of `enum`, or `None` if
/// `schema` has no `enum` either.
fn listed_values(schema: &Value) -> Option<Vec<&Value>> {
    let listed = schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect());
    schema.get("const").map(|value| vec![value]).or(listed)
}

/// Returns the names of the JSON types that the `type` of `schema` allows. Without `type`, returns
/// the types of the values in `const` or `enum`, or `None` if `schema` has none of these keywords.
fn allowed_types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(vec![name]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => {
            let mut types: Vec<_> = listed_values(schema)?.into_iter().map(json_type).collect();
            types.dedup();
            Some(types)
        }
    }
}

/// Returns `true` if a value of the type `produced` may have one of the types in `consumed`. The
/// types `number` and `integer` match each other, because a `number` may be an integer.
fn is_compatible_type(produced: &str, consumed: &[&str]) -> bool {
    let is_number = |name: &str| matches!(name, "number" | "integer");
    consumed.iter().any(|consumed| *consumed == produced || (is_number(consumed) && is_number(produced)))
}
