//! Static check of an output schema against the input schema of a consumer.

use serde_json::{Map, Value};

use super::{Schema, reference, text};

/// Maximum nesting of the compared schemas. Deeper levels are assumed to be compatible.
const MAX_DEPTH: usize = 16;
/// Maximum number of compared pairs of subschemas. Further pairs are assumed to be compatible.
const MAX_PAIRS: usize = 2_000;

/// A location where the values produced by one schema are never valid for another schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatibility {
    /// The JSON pointer of the location, in the consumed value.
    pub pointer: String,
    /// The reason, as text: `expected integer, produced string`.
    pub reason: String,
}

impl Schema {
    /// Checks this schema, which describes produced values, against the schema of a consumer. With
    /// `property`, the produced value becomes this property of the consumed object.
    ///
    /// Returns the first location where no produced value can be valid. `None` means that a
    /// produced value may be valid, or that the comparison is inconclusive: it stops after 16
    /// levels or 2,000 pairs of subschemas, and does not evaluate every keyword.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let text = Schema::new(json!({"type": "string"}))?;
    /// let number = Schema::new(json!({"type": "number"}))?;
    /// assert!(text.incompatibility(&number, None).is_some());
    /// assert!(number.incompatibility(&number, None).is_none());
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn incompatibility(&self, consumer: &Self, property: Option<&str>) -> Option<Incompatibility> {
        let root = consumer.as_value();
        let consumed = match property {
            None => root,
            Some(name) => consumer.properties().find(|it| it.name == name)?.schema,
        };
        let pointer = property.map_or_else(String::new, |name| reference::join("", name));
        let (produced, is_closed) = (self.as_value(), self.0.is_closed);
        let mut comparison = Comparison { produced, consumed: root, is_closed, remaining_pairs: MAX_PAIRS };
        comparison.compare(
            Pair { produced: self.as_value(), consumed, is_partial: false },
            &pointer,
            MAX_DEPTH,
        )
    }
}

/// A comparison in progress: the root schemas of both sides, and the remaining budget.
struct Comparison<'s> {
    produced: &'s Value,
    consumed: &'s Value,
    /// Set if produced objects contain only the declared properties.
    is_closed: bool,
    /// Remaining number of pairs of subschemas to compare.
    remaining_pairs: usize,
}

/// The subschemas of the producer and the consumer for the same location.
#[derive(Clone, Copy)]
struct Pair<'s> {
    produced: &'s Value,
    consumed: &'s Value,
    /// Set if `produced` is a part of `anyOf`, `oneOf` or `allOf`, so that other subschemas may
    /// declare further properties of the same value.
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

    /// Compares the parts of `anyOf` and `oneOf`, where one part must be compatible, and the parts
    /// of `allOf`, where all parts must be compatible.
    fn compare_branches(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Pair { produced, consumed, .. } = pair;
        for keyword in ["anyOf", "oneOf"] {
            let by_produced =
                branches(produced, keyword).map(|produced| Pair { produced, is_partial: true, ..pair });
            let by_consumed = branches(consumed, keyword).map(|consumed| Pair { consumed, ..pair });
            let incompatibility = self
                .compare_any(by_produced, pointer, depth)
                .or_else(|| self.compare_any(by_consumed, pointer, depth));
            if incompatibility.is_some() {
                return incompatibility;
            }
        }
        let produced =
            branches(produced, "allOf").map(|produced| Pair { produced, is_partial: true, ..pair });
        let consumed = branches(consumed, "allOf").map(|consumed| Pair { consumed, ..pair });
        produced.chain(consumed).find_map(|pair| self.compare(pair, pointer, depth))
    }

    /// Returns `None` if any pair is compatible, and the incompatibility of the first pair
    /// otherwise.
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
            Some(produced) => produced.iter().copied().filter(|it| is_one_of(it, &consumed_types)).collect(),
        };
        let incompatibility = |reason: String| Some(Incompatibility { pointer: pointer.to_owned(), reason });
        match common.as_slice() {
            [] => incompatibility(format!(
                "expected {}, produced {}",
                consumed_types.join(" or "),
                produced_types.unwrap_or_default().join(" or ")
            )),
            ["object"] => self.compare_members(pair, pointer, depth),
            ["array"] => {
                let item = |schema: &'s Value| schema.get("items").filter(|it| it.is_object());
                let pair = Pair { produced: item(produced)?, consumed: item(consumed)?, is_partial: false };
                self.compare(pair, &reference::join(pointer, "0"), depth)
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

    fn compare_members(&mut self, pair: Pair<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Pair { produced, consumed, .. } = pair;
        let (produced_members, consumed_members) =
            (declared_properties(produced), declared_properties(consumed));
        let incompatibility = |name: &str, reason: &str| {
            Some(Incompatibility { pointer: reference::join(pointer, name), reason: reason.to_owned() })
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
            self.compare(pair, &reference::join(pointer, name), depth)
        })
    }
}

fn branches<'s>(schema: &'s Value, keyword: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn declared_properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    branches(schema, "required").filter_map(Value::as_str)
}

/// Returns `true` if a schema rejects undeclared properties.
fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none()
}

/// Returns `true` if a schema declares properties, and has no keyword that could allow other
/// properties.
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

/// Returns the values listed by `const` or `enum`.
fn listed_values(schema: &Value) -> Option<Vec<&Value>> {
    let listed = schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect());
    schema.get("const").map(|value| vec![value]).or(listed)
}

/// Returns the names of the allowed types, or `None` if the schema does not restrict the type.
fn allowed_types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(vec![name]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => {
            let mut types: Vec<_> = listed_values(schema)?.into_iter().map(text::kind).collect();
            types.dedup();
            Some(types)
        }
    }
}

/// Returns `true` if a value of the type `produced` may have one of the types in `consumed`. A
/// `number` may be an `integer`.
fn is_one_of(produced: &str, consumed: &[&str]) -> bool {
    let is_number = |name: &str| matches!(name, "number" | "integer");
    consumed.iter().any(|consumed| *consumed == produced || (is_number(consumed) && is_number(produced)))
}
