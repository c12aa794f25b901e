//! Whether the losses of a wire schema are those that there are.

use std::collections::HashSet;

use haft_core::schema::{ProviderSchema, SchemaChange, SchemaChangeKind};
use serde_json::{Value, json};

use super::place::{Document, Part, Parts};

/// What is wrong with the losses that are told.
pub(super) fn wrong(original: &Value, wire: &ProviderSchema) -> Vec<String> {
    if &wire.value == original {
        let only_obstacle =
            wire.changes.iter().all(|loss| matches!(loss.kind, SchemaChangeKind::NotStrict { .. }));
        return if only_obstacle {
            Vec::new()
        } else {
            vec!["nothing is lost, and losses are told".to_owned()]
        };
    }
    let mut comparison = Comparison {
        original: Document::new(original),
        sent: Document::new(&wire.value),
        losses: &wire.changes,
        seen: HashSet::new(),
        wrong: Vec::new(),
    };
    comparison.compare(&comparison.original.root(), &comparison.sent.root());
    let invented = wire.changes.iter().filter(|loss| !is_there(original, loss));
    comparison.wrong.extend(invented.map(|loss| format!("nothing is there: {loss}")));
    comparison.wrong
}

/// Whether a loss is about something that the original says.
fn is_there(original: &Value, loss: &SchemaChange) -> bool {
    let Some(place) = original.pointer(&loss.pointer) else { return false };
    match loss.kind {
        SchemaChangeKind::Dropped | SchemaChangeKind::Described | SchemaChangeKind::Flattened => {
            place.get(&loss.keyword).is_some()
        }
        SchemaChangeKind::TypeAssumed => place.get("type").is_none(),
        _ => true,
    }
}

/// Goes through a schema and what is sent of it, value by value.
struct Comparison<'v> {
    original: Document<'v>,
    sent: Document<'v>,
    losses: &'v [SchemaChange],
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
                let is_told =
                    self.is_named(part, keyword) || self.is_null_alone(original, keyword, value, sent);
                if !is_told && !is_said(part, keyword, value, sent) {
                    self.wrong.push(format!("{}: `{keyword}` is lost without a word", part.pointer));
                }
            }
        }
        // What is not written out again says nothing of what is inside.
        let is_cut = |loss: &SchemaChange| {
            loss.kind == SchemaChangeKind::Unexpanded
                && original.0.iter().any(|part| part.pointer == loss.pointer)
        };
        if self.losses.iter().any(is_cut) {
            return;
        }
        for name in original.names() {
            self.compare(&self.original.property(original, name), &self.sent.property(sent, name));
        }
        for keyword in ["items", "additionalProperties"] {
            let below = self.sent.below(sent, keyword);
            // Where it is not sent at all, that was one loss.
            if !below.0.is_empty() {
                self.compare(&self.original.below(original, keyword), &below);
            }
        }
    }

    /// Whether only `null` is missing, of which it is said elsewhere that it is.
    fn is_null_alone(&self, original: &Parts<'v>, keyword: &str, value: &Value, sent: &Parts<'v>) -> bool {
        let is_nullable = sent.all("nullable").next().is_some();
        let is_told = |loss: &SchemaChange| {
            loss.kind == SchemaChangeKind::AbsentForNull
                && original.0.iter().any(|part| part.pointer == loss.pointer)
        };
        if !is_nullable && !self.losses.iter().any(is_told) {
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
        self.losses.iter().any(|loss| loss.pointer == part.pointer && loss.keyword == keyword)
    }
}

/// Whether what is sent says the same.
fn is_said(part: &Part<'_>, keyword: &str, value: &Value, sent: &Parts<'_>) -> bool {
    let types = sent.items("type");
    let has_type = |name: &str| types.iter().any(|it| *it == name);
    let constants = || sent.items("enum").into_iter().chain(sent.all("const"));
    match keyword {
        "type" => {
            let names = value.as_array().map_or_else(|| vec![value], |names| names.iter().collect());
            // A type of which no constant is need not be said.
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
        // Any value fits.
        "additionalProperties" | "items" if value == &json!({}) || value == &json!(true) => true,
        "additionalProperties" | "items" => sent.all(keyword).next().is_some(),
        "anyOf" | "oneOf" => sent.all(keyword).next().is_some(),
        _ => {
            let is_about = subject(keyword).is_none_or(|name| has_type(name) || types.is_empty());
            let is_number = subject(keyword) == Some("number") && has_type("integer");
            !(is_about || is_number) || sent.all(keyword).any(|it| it == value)
        }
    }
}

/// The type that a keyword is about. Of values of other types it says nothing.
fn subject(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        "minItems" | "maxItems" | "uniqueItems" | "prefixItems" | "contains" => "array",
        "minProperties" | "maxProperties" | "propertyNames" | "patternProperties" => "object",
        _ => return None,
    })
}
