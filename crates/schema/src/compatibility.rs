//! Static comparison of a producer's schema with a consumer's.

use serde_json::{Map, Value};

use super::{Schema, describe, reference};

/// How deep values are compared, and how many of their parts. What is beyond is not decided.
const DEPTH: usize = 16;
const PARTS: usize = 2_000;

/// A place where no value of one schema is valid for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatibility {
    /// Where in the value, as JSON pointer.
    pub pointer: String,
    /// What is asked for there, and what is given.
    pub reason: String,
}

impl Schema {
    /// Compares this schema, of a produced value, with the schema of its consumer, or with the
    /// consumer's property `property`.
    ///
    /// Returns the first place where no produced value can be valid. `None` means that values can fit,
    /// or that the comparison is undecided: it stops after 16 levels or 2,000 parts, and does not
    /// evaluate every keyword.
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
    pub fn incompatibility(&self, taker: &Self, property: Option<&str>) -> Option<Incompatibility> {
        let root = taker.as_value();
        let asked = match property {
            None => root,
            Some(name) => taker.properties().find(|it| it.name == name)?.schema,
        };
        let pointer = property.map_or_else(String::new, |name| reference::join("", name));
        let (given, lists_all) = (self.as_value(), self.0.lists_all);
        let mut comparison = Comparison { given, asked: root, lists_all, parts: PARTS };
        comparison.of(Side { given: self.as_value(), asked, is_partial: false }, &pointer, DEPTH)
    }
}

/// Two documents, for the references in them.
struct Comparison<'s> {
    given: &'s Value,
    asked: &'s Value,
    /// Whether a given object has no members that its schema does not list.
    lists_all: bool,
    parts: usize,
}

/// Two schemas for one place.
#[derive(Clone, Copy)]
struct Side<'s> {
    given: &'s Value,
    asked: &'s Value,
    /// Whether more is said elsewhere of what is given.
    is_partial: bool,
}

impl<'s> Comparison<'s> {
    fn of(&mut self, side: Side<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        self.parts = self.parts.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let given = reference::follow(self.given, side.given);
        let asked = reference::follow(self.asked, side.asked);
        let side = Side { given, asked, ..side };
        if *asked == Value::Bool(false) {
            return Some(Incompatibility {
                pointer: pointer.to_owned(),
                reason: "no value is accepted".to_owned(),
            });
        }
        self.alternatives(side, pointer, depth).or_else(|| self.here(side, pointer, depth))
    }

    /// Of the alternatives of each side, one must fit; of what holds together, all.
    fn alternatives(&mut self, side: Side<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Side { given, asked, .. } = side;
        for keyword in ["anyOf", "oneOf"] {
            let by_given = branches(given, keyword).map(|given| Side { given, is_partial: true, ..side });
            let by_asked = branches(asked, keyword).map(|asked| Side { asked, ..side });
            let incompatibility =
                self.all(by_given, pointer, depth).or_else(|| self.all(by_asked, pointer, depth));
            if incompatibility.is_some() {
                return incompatibility;
            }
        }
        let given = branches(given, "allOf").map(|given| Side { given, is_partial: true, ..side });
        let asked = branches(asked, "allOf").map(|asked| Side { asked, ..side });
        given.chain(asked).find_map(|side| self.of(side, pointer, depth))
    }

    /// The incompatibility of the first of several, if none of them fits.
    fn all(
        &mut self,
        sides: impl Iterator<Item = Side<'s>>,
        pointer: &str,
        depth: usize,
    ) -> Option<Incompatibility> {
        let incompatibilities: Option<Vec<_>> = sides.map(|side| self.of(side, pointer, depth)).collect();
        incompatibilities?.into_iter().next()
    }

    fn here(&mut self, side: Side<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Side { given, asked, .. } = side;
        let (given_types, asked_types) = (types(given), types(asked)?);
        let common: Vec<_> = match &given_types {
            None => asked_types.clone(),
            Some(given) => given.iter().copied().filter(|it| is_one_of(it, &asked_types)).collect(),
        };
        let incompatibility = |reason: String| Some(Incompatibility { pointer: pointer.to_owned(), reason });
        match common.as_slice() {
            [] => incompatibility(format!(
                "expected {}, produced {}",
                asked_types.join(" or "),
                given_types.unwrap_or_default().join(" or ")
            )),
            ["object"] => self.members(side, pointer, depth),
            ["array"] => {
                let item = |schema: &'s Value| schema.get("items").filter(|it| it.is_object());
                let side = Side { given: item(given)?, asked: item(asked)?, is_partial: false };
                self.of(side, &reference::join(pointer, "0"), depth)
            }
            _ => {
                let (given, asked) = (values(given)?, values(asked)?);
                let none = !given.iter().any(|value| asked.contains(value));
                let listed =
                    |values: &[&Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                none.then(|| {
                    incompatibility(format!(
                        "expected one of {}, produced {}",
                        listed(&asked),
                        listed(&given)
                    ))
                })?
            }
        }
    }

    fn members(&mut self, side: Side<'s>, pointer: &str, depth: usize) -> Option<Incompatibility> {
        let Side { given, asked, .. } = side;
        let (gives, takes) = (members(given), members(asked));
        let incompatibility = |name: &str, reason: &str| {
            Some(Incompatibility { pointer: reference::join(pointer, name), reason: reason.to_owned() })
        };
        let is_told = is_closed(given) || self.lists_all && !side.is_partial && is_plain(given);
        for name in required(asked) {
            if is_told && !gives.is_some_and(|gives| gives.contains_key(name)) {
                return incompatibility(name, "required, but never produced");
            }
        }
        if is_closed(asked) {
            for name in required(given) {
                if !takes.is_some_and(|takes| takes.contains_key(name)) {
                    return incompatibility(name, "always produced, but not accepted");
                }
            }
        }
        let both = takes?.iter().filter_map(|(name, asked)| Some((name, gives?.get(name)?, asked)));
        both.filter(|(name, ..)| required(given).chain(required(side.asked)).any(|it| it == name.as_str()))
            .find_map(|(name, given, asked)| {
                let side = Side { given, asked, is_partial: false };
                self.of(side, &reference::join(pointer, name), depth)
            })
    }
}

fn branches<'s>(schema: &'s Value, keyword: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn members(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    branches(schema, "required").filter_map(Value::as_str)
}

/// Whether a schema says that the members of an object are those that it lists. Most allow more.
fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none()
}

/// Whether a schema lists members and says nothing of others.
fn is_plain(schema: &Value) -> bool {
    const MORE: [&str; 8] = [
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "$ref",
    ];
    members(schema).is_some_and(|listed| !listed.is_empty()) && MORE.iter().all(|it| schema.get(it).is_none())
}

/// The values that a schema lists.
fn values(schema: &Value) -> Option<Vec<&Value>> {
    let listed = schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect());
    schema.get("const").map(|value| vec![value]).or(listed)
}

/// The types that a schema allows; `None` if any.
fn types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(vec![name]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => {
            let mut types: Vec<_> = values(schema)?.into_iter().map(describe::kind).collect();
            types.dedup();
            Some(types)
        }
    }
}

/// Whether a value of a type may be of one of the others: a number may be an integer.
fn is_one_of(given: &str, asked: &[&str]) -> bool {
    let is_number = |name: &str| matches!(name, "number" | "integer");
    asked.iter().any(|asked| *asked == given || (is_number(asked) && is_number(given)))
}
