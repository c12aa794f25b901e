//! Compares the reported changes of a schema conversion with its actual changes.

use std::collections::HashSet;

use haft_core::schema::{ProviderSchema, SchemaChange, SchemaChangeKind};
use serde_json::{Value, json};

use super::subschemas::{Document, Part, Parts};

/// Returns a description of each unreported change, and of each reported change without a matching
/// keyword in the original schema.
pub(super) fn find_mistakes(original: &Value, converted: &ProviderSchema) -> Vec<String> {
    if &converted.value == original {
        let only_obstacle =
            converted.changes.iter().all(|change| matches!(change.kind, SchemaChangeKind::NotStrict { .. }));
        return if only_obstacle {
            Vec::new()
        } else {
            vec!["a change is reported, and the schema is unchanged".to_owned()]
        };
    }
    let mut comparison = Comparison {
        original: Document::new(original),
        sent: Document::new(&converted.value),
        changes: &converted.changes,
        seen: HashSet::new(),
        wrong: Vec::new(),
    };
    comparison.compare(&comparison.original.root(), &comparison.sent.root());
    let invented = converted.changes.iter().filter(|change| !has_reported_keyword(original, change));
    comparison.wrong.extend(invented.map(|change| format!("the original has no such keyword: {change}")));
    comparison.wrong
}

/// Returns `true` if the reported `change` can apply to the schema `original`. The pointer of the
/// change must exist, and the keyword must be present or absent there, as the kind of the change
/// implies.
fn has_reported_keyword(original: &Value, change: &SchemaChange) -> bool {
    let Some(place) = original.pointer(&change.pointer) else { return false };
    match change.kind {
        SchemaChangeKind::Dropped | SchemaChangeKind::Described | SchemaChangeKind::Flattened => {
            place.get(&change.keyword).is_some()
        }
        SchemaChangeKind::TypeAssumed => place.get("type").is_none(),
        _ => true,
    }
}

/// Compares the subschemas of a schema with those of the converted schema.
struct Comparison<'v> {
    original: Document<'v>,
    sent: Document<'v>,
    changes: &'v [SchemaChange],
    seen: HashSet<(Vec<*const Value>, Vec<*const Value>)>,
    wrong: Vec<String>,
}

impl<'v> Comparison<'v> {
    fn compare(&mut self, original: &Parts<'v>, sent: &Parts<'v>) {
        let places = |parts: &Parts<'v>| parts.0.iter().map(|part| std::ptr::from_ref(part.schema)).collect();
        if !self.seen.insert((places(original), places(sent))) {
            return;
        }
        for part in &original.0 {
            for (keyword, value) in self.original.assertions(part) {
                let is_reported =
                    self.is_named(part, keyword) || self.is_null_alone(original, keyword, value, sent);
                if !is_reported && !is_kept(part, keyword, value, sent) {
                    self.wrong.push(format!("{}: `{keyword}` is lost and not reported", part.pointer));
                }
            }
        }
        // Stop at a reference that was not expanded. The target of the reference is not sent, so it
        // cannot be compared.
        let is_cut = |change: &SchemaChange| {
            change.kind == SchemaChangeKind::Unexpanded
                && original.0.iter().any(|part| part.pointer == change.pointer)
        };
        if self.changes.iter().any(is_cut) {
            return;
        }
        for name in original.names() {
            self.compare(&self.original.property(original, name), &self.sent.property(sent, name));
        }
        for keyword in ["items", "additionalProperties"] {
            let below = self.sent.below(sent, keyword);
            // If a keyword was omitted, skip the subschemas in its value, because only the keyword
            // itself is reported.
            if !below.0.is_empty() {
                self.compare(&self.original.below(original, keyword), &below);
            }
        }
    }

    /// Returns `true` if the value of `keyword` differs from the original only by a missing `null`.
    /// The schema must accept `null` through `nullable`, or the conversion must have reported that
    /// `null` is expressed by an absent property. The alternatives in `anyOf` and `oneOf` are not
    /// compared here.
    fn is_null_alone(&self, original: &Parts<'v>, keyword: &str, value: &Value, sent: &Parts<'v>) -> bool {
        let is_nullable = sent.all("nullable").next().is_some();
        let is_reported = |change: &SchemaChange| {
            change.kind == SchemaChangeKind::AbsentForNull
                && original.0.iter().any(|part| part.pointer == change.pointer)
        };
        if !is_nullable && !self.changes.iter().any(is_reported) {
            return false;
        }
        let others = |values: &Value| {
            values.as_array().is_some_and(|it| it.iter().any(|it| !it.is_null() && it != "null"))
        };
        match keyword {
            "anyOf" | "oneOf" => true,
            "type" if others(value) => {
                let types = sent.items("type");
                value.as_array().unwrap().iter().all(|name| name == "null" || types.contains(&name))
            }
            "type" => value == "null",
            "const" => value.is_null(),
            _ => false,
        }
    }

    fn is_named(&self, part: &Part<'v>, keyword: &str) -> bool {
        self.changes.iter().any(|change| change.pointer == part.pointer && change.keyword == keyword)
    }
}

/// Returns `true` if the converted schema `sent` has the same constraint as `keyword` with the
/// value `value` in `part`.
fn is_kept(part: &Part<'_>, keyword: &str, value: &Value, sent: &Parts<'_>) -> bool {
    let types = sent.items("type");
    let has_type = |name: &str| types.iter().any(|it| *it == name);
    let constants = || sent.items("enum").into_iter().chain(sent.all("const"));
    match keyword {
        "type" => {
            let names = value.as_array().map_or_else(|| vec![value], |names| names.iter().collect());
            // The type may be omitted if there is an `enum`, because the values of the `enum` imply
            // it.
            !types.is_empty()
                && (names.iter().all(|name| types.contains(name)) || part.schema.get("enum").is_some())
        }
        "properties" => {
            let names = sent.names();
            let is_sent =
                |(name, schema): (&String, &Value)| names.contains(&&**name) || schema == &json!(false);
            value.as_object().unwrap().iter().all(is_sent)
        }
        "required" => value.as_array().unwrap().iter().all(|name| sent.items("required").contains(&name)),
        "enum" => value.as_array().unwrap().iter().all(|value| constants().any(|it| it == value)),
        "const" => constants().any(|it| it == value),
        "additionalProperties" | "unevaluatedProperties" if value == &json!(false) => {
            sent.all("additionalProperties").any(|it| it == value)
        }
        "items" if !types.is_empty() && !has_type("array") => true,
        // The schemas `{}` and `true` accept any value, so they can be omitted.
        "additionalProperties" | "items" if value == &json!({}) || value == &json!(true) => true,
        "additionalProperties" | "items" => sent.all(keyword).next().is_some(),
        "anyOf" | "oneOf" => sent.all(keyword).next().is_some(),
        _ => {
            let is_relevant = subject(keyword).is_none_or(|name| has_type(name) || types.is_empty());
            let is_number = subject(keyword) == Some("number") && has_type("integer");
            !(is_relevant || is_number) || sent.all(keyword).any(|it| it == value)
        }
    }
}

/// Returns the JSON type to which `keyword` applies. Values of other types are always valid. `None`
/// if the keyword applies to several types.
fn subject(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        "minItems" | "maxItems" | "uniqueItems" | "prefixItems" | "contains" => "array",
        "minProperties" | "maxProperties" | "propertyNames" | "patternProperties" => "object",
        _ => return None,
    })
}
