//! Finds the subschemas that apply to a value.

use serde_json::{Map, Value};

/// The keywords that constrain a value. `allOf` and `$ref` are not listed, because they only apply
/// other subschemas.
const ASSERTION_KEYWORDS: [&str; 38] = [
    "additionalItems",
    "additionalProperties",
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
];

/// A JSON Schema document, represented by its root.
#[derive(Clone, Copy)]
pub(super) struct Document<'v> {
    root: &'v Value,
    /// `true` for draft 7, which ignores the keywords beside `$ref`.
    is_draft_7: bool,
}

/// A subschema, with its JSON pointer in the document.
#[derive(Clone)]
pub(super) struct Part<'v> {
    pub(super) pointer: String,
    pub(super) schema: &'v Value,
}

/// The subschemas that apply to the same value, including all alternatives of `anyOf` and `oneOf`.
#[derive(Clone, Default)]
pub(super) struct Parts<'v>(pub(super) Vec<Part<'v>>);

impl<'v> Document<'v> {
    pub(super) fn new(root: &'v Value) -> Self {
        let is_draft_7 = root["$schema"].as_str().is_some_and(|dialect| dialect.contains("draft-07"));
        Self { root, is_draft_7 }
    }

    pub(super) fn root(self) -> Parts<'v> {
        let mut parts = Parts::default();
        self.add(String::new(), self.root, &mut parts);
        parts
    }

    /// Adds `schema` to `parts`. Also adds the target of its `$ref`, and its subschemas in `allOf`,
    /// `anyOf` and `oneOf`.
    fn add(self, pointer: String, schema: &'v Value, parts: &mut Parts<'v>) {
        if parts.0.iter().any(|known| std::ptr::eq(known.schema, schema)) {
            return;
        }
        parts.0.push(Part { pointer: pointer.clone(), schema });
        if let Some(target) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            let target = target.replace("%24", "$");
            if let Some(schema) = self.root.pointer(&target) {
                self.add(target, schema, parts);
            }
            if self.is_draft_7 {
                return;
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (index, inner) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                self.add(format!("{pointer}/{keyword}/{index}"), inner, parts);
            }
        }
    }

    /// Returns the subschemas in the values of `keyword` in all `parts`.
    pub(super) fn below(self, parts: &Parts<'v>, keyword: &str) -> Parts<'v> {
        let mut below = Parts::default();
        for part in &parts.0 {
            if let Some(schema @ Value::Object(_)) = part.schema.get(keyword) {
                self.add(format!("{}/{keyword}", part.pointer), schema, &mut below);
            }
        }
        below
    }

    /// Returns the subschemas for the property `name` in all `parts`.
    pub(super) fn property(self, parts: &Parts<'v>, name: &str) -> Parts<'v> {
        let mut below = Parts::default();
        for part in &parts.0 {
            if let Some(schema) = part.schema["properties"].get(name) {
                let step = name.replace('~', "~0").replace('/', "~1");
                self.add(format!("{}/properties/{step}", part.pointer), schema, &mut below);
            }
        }
        below
    }

    /// Returns the keywords of `part` that constrain a value, each with its own value.
    pub(super) fn assertions(self, part: &Part<'v>) -> impl Iterator<Item = (&'v str, &'v Value)> {
        let counts = !(self.is_draft_7 && part.schema.get("$ref").is_some());
        let keywords = part.schema.as_object().filter(|_| counts).into_iter().flat_map(Map::iter);
        keywords
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(name, _)| ASSERTION_KEYWORDS.contains(name) || *name == "uniqueItems")
    }
}

impl<'v> Parts<'v> {
    /// Returns the values of `keyword` in all of these subschemas.
    pub(super) fn all(&self, keyword: &str) -> impl Iterator<Item = &'v Value> {
        self.0.iter().filter_map(move |part| part.schema.get(keyword))
    }

    /// Returns the values of `keyword` in all of these subschemas. The items of an array are
    /// returned as separate values.
    pub(super) fn items(&self, keyword: &str) -> Vec<&'v Value> {
        let each = |value: &'v Value| match value {
            Value::Array(items) => items.iter().collect(),
            single => vec![single],
        };
        self.all(keyword).flat_map(each).collect()
    }

    /// Returns the names of all properties in these subschemas, sorted and without duplicates.
    pub(super) fn names(&self) -> Vec<&'v str> {
        let mut names: Vec<&str> = self
            .all("properties")
            .filter_map(Value::as_object)
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
