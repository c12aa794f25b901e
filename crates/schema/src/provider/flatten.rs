//! Merging of a subschema with its `allOf` and with the target of its `$ref`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::Value;

use super::super::reference::{Reference, join_pointer};
use super::change::{SchemaChange, SchemaChangeKind};

/// The maximum number of subschemas that an [exact](Flattener::exact) flattener reads. A subschema
/// counts once per reference to it.
const MAX_SUBSCHEMAS: usize = 20_000;

/// The maximum number of subschemas that a [lossy](Flattener::lossy) flattener reads. Further
/// references are dropped.
const MAX_INLINED_SUBSCHEMAS: usize = 12_000;

/// Assertions: the keywords that restrict the valid values. All other keywords are annotations.
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

/// Keywords for properties that are not declared by name. A merge with further declared properties
/// may change their effect. For example, `additionalProperties` applies to all undeclared
/// properties.
const PROPERTY_DEPENDENT_KEYWORDS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "patternProperties"];

/// Keywords that depend on the tuple items declared beside them. For example, `items` of draft
/// 2020-12 applies to all items after the tuple.
const TUPLE_DEPENDENT_KEYWORDS: [&str; 3] = ["items", "additionalItems", "unevaluatedItems"];

/// A keyword or a declared property of a schema, with its value.
#[derive(Clone)]
pub(super) struct KeywordEntry<'s> {
    pub(super) name: &'s str,
    pub(super) value: &'s Value,
    /// For a keyword, the JSON pointer of the schema that contains it. For a property, the JSON
    /// pointer of the property's schema.
    pub(super) at: Rc<str>,
}

/// A subschema merged with its `allOf`. It is either a reference with annotations only, or a schema
/// without references.
#[derive(Clone, Default)]
pub(super) struct FlatSchema<'s> {
    pub(super) pointer: Rc<str>,
    pub(super) reference: Option<&'s str>,
    pub(super) keywords: Vec<KeywordEntry<'s>>,
    pub(super) properties: Vec<KeywordEntry<'s>>,
    pub(super) required: Vec<&'s str>,
    /// The JSON pointers of all reference targets that were merged into this schema.
    pub(super) targets: Vec<Rc<str>>,
}

/// A converter for the subschemas of the document `root`. It merges a subschema with its `allOf`
/// and with the target of its `$ref`.
pub(super) struct Flattener<'s> {
    root: &'s Value,
    /// `true` if the document uses draft-07, which ignores all keywords beside a `$ref`.
    is_draft_7: bool,
    /// The remaining budget, in subschemas. A subschema with eight or more properties counts as
    /// several subschemas.
    budget: Cell<usize>,
    /// The changes for the keywords that were dropped because they could not be merged exactly.
    /// `None` for an exact flattener, which returns an error for these keywords.
    dropped: Option<RefCell<Vec<SchemaChange>>>,
}

/// Returns `true` if `keyword` restricts the valid values, unlike an annotation such as `title`.
pub(crate) fn is_assertion(keyword: &str) -> bool {
    ASSERTIONS.contains(&keyword)
}

/// Returns `true` if `schema` is a JSON object without assertions, except `required`.
pub(super) fn has_only_required(schema: &Value) -> bool {
    let mut keywords = schema.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    schema.is_object() && keywords.all(|name| name == "required" || !is_assertion(name))
}

impl<'s> Flattener<'s> {
    /// Creates a flattener that fails if subschemas cannot be merged exactly.
    pub(super) fn exact(root: &'s Value) -> Self {
        let dialect = root.get("$schema").and_then(Value::as_str);
        let is_draft_7 = dialect.is_some_and(|uri| uri.contains("draft-07"));
        Self { root, is_draft_7, budget: Cell::new(MAX_SUBSCHEMAS), dropped: None }
    }

    /// Creates a flattener that drops keywords if they cannot be merged exactly. If a keyword or a
    /// property occurs with different values, the first value is kept.
    pub(super) fn lossy(root: &'s Value) -> Self {
        Self {
            budget: Cell::new(MAX_INLINED_SUBSCHEMAS),
            dropped: Some(RefCell::default()),
            ..Self::exact(root)
        }
    }

    /// Removes and returns the changes for the keywords dropped since the previous call. The list
    /// of an exact flattener is always empty.
    pub(super) fn take_changes(&self) -> Vec<SchemaChange> {
        self.dropped.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Returns `schema`, the subschema at the JSON pointer `at`, merged with its `allOf`. The
    /// target of its `$ref` is also merged, unless all other keywords are annotations. In this
    /// case, the `$ref` is kept.
    pub(super) fn flatten(&self, at: &str, schema: &'s Value) -> Result<FlatSchema<'s>, SchemaChange> {
        let properties = schema.get("properties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        self.spend(at, 1 + properties / 8).or_else(|change| self.drop_or_fail(|| change, None))?;
        let Some(members) = schema.as_object() else {
            let is_none = schema == &Value::Bool(false);
            let what = if is_none { "no value fits" } else { "any value fits" };
            let lost = is_none.then_some((at, "type"));
            self.drop_or_fail(|| SchemaChange::not_strict(at, "type", what), lost)?;
            return Ok(FlatSchema { pointer: at.into(), ..FlatSchema::default() });
        };
        let reference = members.get("$ref").and_then(Value::as_str);
        let counts = |name: &str| !(self.is_draft_7 && reference.is_some() && is_assertion(name));
        let mut flat = FlatSchema { pointer: at.into(), ..FlatSchema::default() };
        for (name, value) in members.iter().filter(|(name, _)| counts(name)) {
            flat.add_keyword(name, value);
        }
        let all_of = members.get("allOf").and_then(Value::as_array).filter(|_| counts("allOf"));
        let mut parts = Vec::new();
        for (index, part) in all_of.into_iter().flatten().enumerate() {
            parts.push(self.flatten(&format!("{at}/allOf/{index}"), part)?);
        }
        if let Some(reference) = reference {
            parts.push(FlatSchema {
                pointer: at.into(),
                reference: Some(reference),
                ..FlatSchema::default()
            });
        }
        if let [FlatSchema { reference: Some(reference), .. }] = parts.as_slice()
            && flat.has_no_assertions()
        {
            flat.reference = Some(reference);
            let described = parts.pop().map(|part| part.keywords).unwrap_or_default();
            flat.keywords.extend(described);
            return Ok(flat);
        }
        for part in parts {
            self.merge(&mut flat, self.resolve_reference(part)?, "allOf")?;
        }
        Ok(flat)
    }

    /// Merges `other` into `flat`. Both apply to the same value, because `keyword` combines them.
    /// The error of an exact flattener names `keyword`.
    pub(super) fn merge(
        &self,
        flat: &mut FlatSchema<'s>,
        mut other: FlatSchema<'s>,
        keyword: &str,
    ) -> Result<(), SchemaChange> {
        let at = flat.pointer.clone();
        let conflict = |lost: Option<(&str, &str)>| {
            self.drop_or_fail(
                || SchemaChange::not_strict(&at, keyword, "its parts cannot be merged exactly"),
                lost,
            )
        };
        // `additionalProperties` and similar keywords apply to all undeclared properties or items.
        // After the merge, they would apply to a different set of properties or items.
        let [outside, inside] = [flat.dependent_keywords(&other), other.dependent_keywords(flat)];
        for entry in outside.iter().chain(&inside) {
            conflict(Some((&entry.at, entry.name)))?;
        }
        flat.keywords.retain(|it| outside.iter().all(|lost| lost.name != it.name));
        other.keywords.retain(|it| inside.iter().all(|lost| lost.name != it.name));
        for entry in other.properties {
            match flat.property(entry.name) {
                Some(known) if known.value != entry.value => conflict(Some((&entry.at, "type")))?,
                Some(_) => {}
                None => flat.properties.push(entry),
            }
        }
        for entry in other.keywords {
            match flat.keyword(entry.name) {
                Some(known) if is_assertion(entry.name) && known.value != entry.value => {
                    conflict(Some((&entry.at, entry.name)))?;
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

    /// Returns `schema`, the subschema at the JSON pointer `at`, merged with its `allOf` and with
    /// the target of its `$ref`.
    pub(super) fn resolve(&self, at: &str, schema: &'s Value) -> Result<FlatSchema<'s>, SchemaChange> {
        self.resolve_reference(self.flatten(at, schema)?)
    }

    /// Returns the JSON pointer of the target of `reference`, and the target itself. If a target
    /// contains only a `$ref`, this `$ref` is also followed. Fails if a reference is an anchor or
    /// has no target.
    pub(super) fn resolve_target(
        &self,
        at: &str,
        reference: &str,
    ) -> Result<(String, &'s Value), SchemaChange> {
        let unknown = || SchemaChange::not_strict(at, "$ref", "it refers to an anchor");
        let Some(Reference::Pointer(pointer)) = Reference::parse(reference) else { return Err(unknown()) };
        let target = self.root.pointer(&pointer).ok_or_else(unknown)?;
        match target.as_object() {
            Some(members) if members.len() == 1 => match members.get("$ref").and_then(Value::as_str) {
                Some(next) => self.resolve_target(&pointer, next),
                None => Ok((pointer, target)),
            },
            _ => Ok((pointer, target)),
        }
    }

    fn resolve_reference(&self, flat: FlatSchema<'s>) -> Result<FlatSchema<'s>, SchemaChange> {
        let Some(reference) = flat.reference else { return Ok(flat) };
        let mut described = FlatSchema { reference: None, ..flat };
        let target = self
            .spend(&described.pointer, 1)
            .and_then(|()| self.resolve_target(&described.pointer, reference));
        let (pointer, target) = match target {
            Ok(target) => target,
            Err(change) => {
                self.drop_or_fail(|| change, Some((&described.pointer, "$ref")))?;
                return Ok(described);
            }
        };
        self.merge(&mut described, self.resolve(&pointer, target)?, "$ref")?;
        described.targets.push(pointer.into());
        Ok(described)
    }

    /// Subtracts `cost` from the budget. If the budget is used up, fails with a change for the
    /// subschema at the JSON pointer `at`.
    fn spend(&self, at: &str, cost: usize) -> Result<(), SchemaChange> {
        let left = self.budget.get().checked_sub(cost);
        self.budget.set(left.ok_or_else(|| {
            SchemaChange::not_strict(at, "$ref", "its references expand to too many subschemas")
        })?);
        Ok(())
    }

    /// Fails with `obstacle` if this flattener is exact. If it is lossy, succeeds and records the
    /// keyword in `lost` as dropped. `lost` consists of a JSON pointer and the name of the keyword.
    fn drop_or_fail(
        &self,
        obstacle: impl FnOnce() -> SchemaChange,
        lost: Option<(&str, &str)>,
    ) -> Result<(), SchemaChange> {
        let Some(dropped) = &self.dropped else { return Err(obstacle()) };
        let lost = lost.map(|(at, keyword)| SchemaChange::new(at, keyword, SchemaChangeKind::Dropped));
        dropped.borrow_mut().extend(lost);
        Ok(())
    }
}

impl<'s> FlatSchema<'s> {
    fn add_keyword(&mut self, name: &'s str, value: &'s Value) {
        match name {
            "$ref" | "allOf" | "$defs" | "definitions" => {}
            "properties" => {
                let at = join_pointer(&self.pointer, name);
                let properties = value.as_object().into_iter().flatten();
                let entry = |(name, value): (&'s String, &'s Value)| KeywordEntry {
                    name,
                    value,
                    at: join_pointer(&at, name).into(),
                };
                self.properties = properties.map(entry).collect();
            }
            "required" => {
                self.required = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            }
            _ => self.keywords.push(KeywordEntry { name, value, at: self.pointer.clone() }),
        }
    }

    pub(super) fn keyword(&self, name: &str) -> Option<&KeywordEntry<'s>> {
        self.keywords.iter().find(|it| it.name == name)
    }

    /// Removes and returns the keyword `name`. Returns `None` if this schema does not have the
    /// keyword.
    pub(super) fn take_keyword(&mut self, name: &str) -> Option<KeywordEntry<'s>> {
        let index = self.keywords.iter().position(|it| it.name == name)?;
        Some(self.keywords.remove(index))
    }

    /// Returns a copy of this schema without annotations.
    pub(super) fn assertions_only(&self) -> Self {
        let mut bare = self.clone();
        bare.keywords.retain(|it| is_assertion(it.name));
        bare
    }

    /// Returns `true` if this schema has no assertions, so that it accepts every value.
    pub(super) fn has_no_assertions(&self) -> bool {
        let has_only_annotations = self.keywords.iter().all(|it| !is_assertion(it.name));
        has_only_annotations && self.properties.is_empty() && self.required.is_empty()
    }

    fn property(&self, name: &str) -> Option<&KeywordEntry<'s>> {
        self.properties.iter().find(|it| it.name == name)
    }

    /// Returns the keywords of this schema that would apply to a different set of properties or
    /// items after a merge with `other`.
    fn dependent_keywords(&self, other: &Self) -> Vec<KeywordEntry<'s>> {
        let mut names = Vec::new();
        if other.properties.iter().any(|it| self.property(it.name).is_none()) {
            names.extend(PROPERTY_DEPENDENT_KEYWORDS);
        }
        if other.has_tuple() && !self.has_tuple() {
            names.extend(TUPLE_DEPENDENT_KEYWORDS);
        }
        let restricts_values = |it: &&KeywordEntry<'_>| it.value != &Value::Bool(true);
        names.into_iter().filter_map(|name| self.keyword(name)).filter(restricts_values).cloned().collect()
    }

    fn has_tuple(&self) -> bool {
        let is_tuple =
            |it: &KeywordEntry<'_>| it.name == "prefixItems" || it.name == "items" && it.value.is_array();
        self.keywords.iter().any(is_tuple)
    }
}
