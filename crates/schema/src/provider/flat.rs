//! A subschema with what it refers to and what its `allOf` says put together.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::Value;

use super::super::reference::{Reference, join};
use super::change::{SchemaChange, SchemaChangeKind};

/// How many subschemas are read for one wire schema. Each is read as often as it is referred to.
const EFFORT: usize = 20_000;

/// How many are read before references are left out, where each is written out.
const WRITTEN_OUT: usize = 12_000;

/// The keywords that say which values fit. All others describe.
const ASSERTIONS: [&str; 42] = [
    "$dynamicRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// The keywords that say something of the properties which others declare.
const REMAINDERS: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "patternProperties"];

/// The keywords that say something of the items behind those which others declare.
const REMAINING_ITEMS: [&str; 3] = ["items", "additionalItems", "unevaluatedItems"];

/// A keyword or a property.
#[derive(Clone)]
pub(super) struct Entry<'s> {
    pub(super) name: &'s str,
    pub(super) value: &'s Value,
    /// Of a keyword, where the schema is that has it; of a property, where its own is.
    pub(super) at: Rc<str>,
}

/// A subschema that is a reference and nothing else, or has none.
#[derive(Clone, Default)]
pub(super) struct Flat<'s> {
    pub(super) at: Rc<str>,
    pub(super) reference: Option<&'s str>,
    pub(super) keywords: Vec<Entry<'s>>,
    pub(super) properties: Vec<Entry<'s>>,
    pub(super) required: Vec<&'s str>,
    /// The places of what it referred to and now holds, by JSON pointer.
    pub(super) targets: Vec<Rc<str>>,
}

/// Reads the subschemas of one document.
pub(super) struct Reader<'s> {
    root: &'s Value,
    /// What stands beside `$ref` does not count in draft-07.
    is_draft_7: bool,
    effort: Cell<usize>,
    /// What was given up since parts cannot be put together exactly. Without a place for that, it is an error.
    given_up: Option<RefCell<Vec<SchemaChange>>>,
}

/// Whether a keyword says which values fit.
pub(crate) fn is_assertion(keyword: &str) -> bool {
    ASSERTIONS.contains(&keyword)
}

/// Whether a schema only says which properties must be there.
pub(super) fn is_requirement(schema: &Value) -> bool {
    let mut keywords = schema.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    schema.is_object() && keywords.all(|name| name == "required" || !is_assertion(name))
}

impl<'s> Reader<'s> {
    /// A reader that puts parts together only where that says exactly the same.
    pub(super) fn exact(root: &'s Value) -> Self {
        let dialect = root.get("$schema").and_then(Value::as_str);
        let is_draft_7 = dialect.is_some_and(|uri| uri.contains("draft-07"));
        Self { root, is_draft_7, effort: Cell::new(EFFORT), given_up: None }
    }

    /// A reader that gives up what cannot be put together: what was said first stays.
    pub(super) fn lossy(root: &'s Value) -> Self {
        Self { effort: Cell::new(WRITTEN_OUT), given_up: Some(RefCell::default()), ..Self::exact(root) }
    }

    /// What was given up since this was asked last.
    pub(super) fn changes(&self) -> Vec<SchemaChange> {
        self.given_up.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// A subschema. A mere reference is left as it is.
    pub(super) fn flat(&self, at: &str, schema: &'s Value) -> Result<Flat<'s>, SchemaChange> {
        let properties = schema.get("properties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        self.spend(at, 1 + properties / 8).or_else(|change| self.give_up(|| change, None))?;
        let Some(members) = schema.as_object() else {
            let is_none = schema == &Value::Bool(false);
            let what = if is_none { "no value fits" } else { "any value fits" };
            let lost = is_none.then_some((at, "type"));
            self.give_up(|| SchemaChange::not_strict(at, "type", what), lost)?;
            return Ok(Flat { at: at.into(), ..Flat::default() });
        };
        let reference = members.get("$ref").and_then(Value::as_str);
        let counts = |name: &str| !(self.is_draft_7 && reference.is_some() && is_assertion(name));
        let mut flat = Flat { at: at.into(), ..Flat::default() };
        for (name, value) in members.iter().filter(|(name, _)| counts(name)) {
            flat.add(name, value);
        }
        let all_of = members.get("allOf").and_then(Value::as_array).filter(|_| counts("allOf"));
        let mut parts = Vec::new();
        for (index, part) in all_of.into_iter().flatten().enumerate() {
            parts.push(self.flat(&format!("{at}/allOf/{index}"), part)?);
        }
        if let Some(reference) = reference {
            parts.push(Flat { at: at.into(), reference: Some(reference), ..Flat::default() });
        }
        if let [Flat { reference: Some(reference), .. }] = parts.as_slice()
            && flat.is_silent()
        {
            flat.reference = Some(reference);
            let described = parts.pop().map(|part| part.keywords).unwrap_or_default();
            flat.keywords.extend(described);
            return Ok(flat);
        }
        for part in parts {
            self.merge(&mut flat, self.behind(part)?, "allOf")?;
        }
        Ok(flat)
    }

    /// Adds what another schema says of the same value.
    pub(super) fn merge(
        &self,
        flat: &mut Flat<'s>,
        mut other: Flat<'s>,
        keyword: &str,
    ) -> Result<(), SchemaChange> {
        let at = flat.at.clone();
        let refuse = |lost: Option<(&str, &str)>| {
            self.give_up(
                || SchemaChange::not_strict(&at, keyword, "its parts cannot be merged exactly"),
                lost,
            )
        };
        // What is said of the remaining properties or items would be about others now.
        let [outside, inside] = [flat.remainders(&other), other.remainders(flat)];
        for entry in outside.iter().chain(&inside) {
            refuse(Some((&entry.at, entry.name)))?;
        }
        flat.keywords.retain(|it| outside.iter().all(|lost| lost.name != it.name));
        other.keywords.retain(|it| inside.iter().all(|lost| lost.name != it.name));
        for entry in other.properties {
            match flat.property(entry.name) {
                Some(known) if known.value != entry.value => refuse(Some((&entry.at, "type")))?,
                Some(_) => {}
                None => flat.properties.push(entry),
            }
        }
        for entry in other.keywords {
            match flat.keyword(entry.name) {
                Some(known) if is_assertion(entry.name) && known.value != entry.value => {
                    refuse(Some((&entry.at, entry.name)))?;
                }
                Some(_) => {}
                None => flat.keywords.push(entry),
            }
        }
        let missing: Vec<_> =
            other.required.into_iter().filter(|name| !flat.required.contains(name)).collect();
        flat.required.extend(missing);
        flat.targets.extend(other.targets);
        Ok(())
    }

    /// A subschema that is no reference.
    pub(super) fn followed(&self, at: &str, schema: &'s Value) -> Result<Flat<'s>, SchemaChange> {
        self.behind(self.flat(at, schema)?)
    }

    /// Where a reference leads in the end, by JSON pointer.
    pub(super) fn target(&self, at: &str, reference: &str) -> Result<(String, &'s Value), SchemaChange> {
        let unknown = || SchemaChange::not_strict(at, "$ref", "it refers to an anchor");
        let Some(Reference::Pointer(pointer)) = Reference::parse(reference) else { return Err(unknown()) };
        let target = self.root.pointer(&pointer).ok_or_else(unknown)?;
        match target.as_object() {
            Some(members) if members.len() == 1 => match members.get("$ref").and_then(Value::as_str) {
                Some(next) => self.target(&pointer, next),
                None => Ok((pointer, target)),
            },
            _ => Ok((pointer, target)),
        }
    }

    fn behind(&self, flat: Flat<'s>) -> Result<Flat<'s>, SchemaChange> {
        let Some(reference) = flat.reference else { return Ok(flat) };
        let mut described = Flat { reference: None, ..flat };
        let target = self.spend(&described.at, 1).and_then(|()| self.target(&described.at, reference));
        let (pointer, target) = match target {
            Ok(target) => target,
            Err(change) => {
                self.give_up(|| change, Some((&described.at, "$ref")))?;
                return Ok(described);
            }
        };
        self.merge(&mut described, self.followed(&pointer, target)?, "$ref")?;
        described.targets.push(pointer.into());
        Ok(described)
    }

    fn spend(&self, at: &str, cost: usize) -> Result<(), SchemaChange> {
        let left = self.effort.get().checked_sub(cost);
        self.effort.set(
            left.ok_or_else(|| SchemaChange::not_strict(at, "$ref", "its references stand for too much"))?,
        );
        Ok(())
    }

    /// Fails with the obstacle, or notes what is lost and goes on.
    fn give_up(
        &self,
        obstacle: impl FnOnce() -> SchemaChange,
        lost: Option<(&str, &str)>,
    ) -> Result<(), SchemaChange> {
        let Some(given_up) = &self.given_up else { return Err(obstacle()) };
        let lost = lost.map(|(at, keyword)| SchemaChange::new(at, keyword, SchemaChangeKind::Dropped));
        given_up.borrow_mut().extend(lost);
        Ok(())
    }
}

impl<'s> Flat<'s> {
    fn add(&mut self, name: &'s str, value: &'s Value) {
        match name {
            "$ref" | "allOf" | "$defs" | "definitions" => {}
            "properties" => {
                let at = join(&self.at, name);
                let properties = value.as_object().into_iter().flatten();
                let entry = |(name, value): (&'s String, &'s Value)| Entry {
                    name,
                    value,
                    at: join(&at, name).into(),
                };
                self.properties = properties.map(entry).collect();
            }
            "required" => {
                self.required = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            }
            _ => self.keywords.push(Entry { name, value, at: self.at.clone() }),
        }
    }

    pub(super) fn keyword(&self, name: &str) -> Option<&Entry<'s>> {
        self.keywords.iter().find(|it| it.name == name)
    }

    /// Takes a keyword out.
    pub(super) fn take(&mut self, name: &str) -> Option<Entry<'s>> {
        let index = self.keywords.iter().position(|it| it.name == name)?;
        Some(self.keywords.remove(index))
    }

    /// This schema without what describes it.
    pub(super) fn bare(&self) -> Self {
        let mut bare = self.clone();
        bare.keywords.retain(|it| is_assertion(it.name));
        bare
    }

    /// Whether it says nothing of which values fit.
    pub(super) fn is_silent(&self) -> bool {
        let says_nothing = self.keywords.iter().all(|it| !is_assertion(it.name));
        says_nothing && self.properties.is_empty() && self.required.is_empty()
    }

    fn property(&self, name: &str) -> Option<&Entry<'s>> {
        self.properties.iter().find(|it| it.name == name)
    }

    /// The keywords that mean something else beside what another schema declares.
    fn remainders(&self, other: &Self) -> Vec<Entry<'s>> {
        let mut names = Vec::new();
        if other.properties.iter().any(|it| self.property(it.name).is_none()) {
            names.extend(REMAINDERS);
        }
        if other.has_tuple() && !self.has_tuple() {
            names.extend(REMAINING_ITEMS);
        }
        let says_something = |it: &&Entry<'_>| it.value != &Value::Bool(true);
        names.into_iter().filter_map(|name| self.keyword(name)).filter(says_something).cloned().collect()
    }

    fn has_tuple(&self) -> bool {
        let is_tuple = |it: &Entry<'_>| it.name == "prefixItems" || it.name == "items" && it.value.is_array();
        self.keywords.iter().any(is_tuple)
    }
}
