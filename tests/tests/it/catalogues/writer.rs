//! Generates arguments for schemas, and converts arguments to the form required by strict schemas.

use std::collections::HashMap;

use haft_core::Schema;
use serde_json::{Map, Number, Value, json};

/// The texts to try if a schema has a `pattern`, a `format`, or a minimum or maximum length.
const TEXTS: [&str; 22] = [
    "a",
    "text",
    "Some longer text than that",
    "1",
    "12345678",
    "2026-11-22",
    "2026-11-22T05:30:00Z",
    "05:30:00Z",
    "05:30",
    "P1D",
    "someone@example.org",
    "https://example.org/a",
    "example.org",
    "127.0.0.1",
    "::1",
    "A1",
    "01234567-89ab-4cde-8f01-23456789abcd",
    "0123456789abcdef0123456789abcdef",
    "#a0b1c2",
    "a/b",
    "/a/b",
    "a_b-c.d",
];

/// The nesting depth at which optional properties and array items are no longer generated.
const MAX_DEPTH: usize = 8;

/// Generates values for a schema.
pub(super) struct Writer<'s> {
    root: &'s Value,
    /// The number that selects between alternatives, for example those of an `anyOf`. Optional
    /// properties are generated only if it is odd.
    variant: usize,
    texts: &'s mut Texts,
}

/// A cache of the texts in [`TEXTS`] that are valid for a schema. The key is the JSON of the rules
/// for the text. The value is `None` if none of the texts is valid.
pub(super) type Texts = HashMap<String, Option<&'static str>>;

impl<'s> Writer<'s> {
    pub(super) fn new(root: &'s Value, variant: usize, texts: &'s mut Texts) -> Self {
        Self { root, variant, texts }
    }

    pub(super) fn arguments(&mut self) -> Value {
        self.write(self.root, 0)
    }

    fn write(&mut self, schema: &Value, depth: usize) -> Value {
        let schema = self.merged(schema, depth);
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(options) = schema["enum"].as_array().filter(|options| !options.is_empty()) {
            return options[self.variant % options.len()].clone();
        }
        match self.kind(&schema) {
            "object" => self.object(&schema, depth),
            "array" => self.array(&schema, depth),
            "integer" | "number" => number(&schema),
            "boolean" => json!(self.variant % 4 < 2),
            "null" => Value::Null,
            _ => self.text(&schema),
        }
    }

    /// Merges `schema` with the target of its `$ref`, its subschemas in `allOf`, and one
    /// alternative from each of `anyOf` and `oneOf`. Returns the merged schema.
    fn merged(&mut self, schema: &Value, depth: usize) -> Value {
        let mut whole = schema.clone();
        let mut parts = Vec::new();
        if let Some(pointer) =
            schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')).filter(|_| depth < 40)
        {
            parts.extend(self.root.pointer(pointer).cloned());
        }
        parts.extend(schema["allOf"].as_array().into_iter().flatten().cloned());
        for keyword in ["anyOf", "oneOf"] {
            if let Some(alternatives) = schema[keyword].as_array() {
                let is_end = |it: &&Value| depth > MAX_DEPTH && it["type"] == "null";
                let end = alternatives.iter().find(is_end);
                parts.extend(end.or(alternatives.get(self.variant / 2 % alternatives.len().max(1))).cloned());
            }
        }
        for part in parts {
            let part = self.merged(&part, depth + 1);
            merge(&mut whole, &part);
        }
        whole
    }

    fn kind<'v>(&self, schema: &'v Value) -> &'v str {
        match &schema["type"] {
            Value::String(name) => name,
            Value::Array(names) if !names.is_empty() => {
                names[self.variant / 2 % names.len()].as_str().unwrap()
            }
            _ if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
            _ if schema.get("items").is_some() => "array",
            _ => "string",
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let none = Vec::new();
        let required = schema["required"].as_array().unwrap_or(&none);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&json!(name)) || (self.variant % 2 == 1 && depth < MAX_DEPTH) {
                object.insert(name.clone(), self.write(property, depth + 1));
            }
        }
        let others = Some(&schema["additionalProperties"]).filter(|it| it.is_object() && depth < MAX_DEPTH);
        if let Some(others) = others.filter(|_| self.variant % 2 == 1 || object.is_empty()) {
            object.insert("other".to_owned(), self.write(others, depth + 1));
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        let first = schema["prefixItems"].as_array().into_iter().flatten();
        let mut items: Vec<_> = first.map(|item| self.write(item, depth + 1)).collect();
        let least = schema["minItems"]
            .as_u64()
            .unwrap_or(0)
            .max(u64::from(self.variant % 2 == 1 && depth < MAX_DEPTH));
        while (items.len() as u64) < least && schema["items"] != json!(false) {
            items.push(self.write(&schema["items"], depth + 1));
        }
        Value::Array(items)
    }

    fn text(&mut self, schema: &Value) -> Value {
        let rules = ["pattern", "format", "minLength", "maxLength"];
        let rules: Map<_, _> =
            rules.iter().filter_map(|it| Some(((*it).to_owned(), schema.get(*it)?.clone()))).collect();
        if rules.is_empty() {
            return json!(TEXTS[self.variant % 2]);
        }
        let given = schema["examples"].as_array().into_iter().flatten().chain(schema.get("default"));
        let mut given = given.filter(|it| it.is_string());
        let fitting = self.texts.entry(Value::Object(rules.clone()).to_string()).or_insert_with(|| {
            let schema = Schema::new(Value::Object(rules)).unwrap();
            TEXTS.into_iter().find(|text| schema.is_valid(&json!(text)))
        });
        fitting.map(Value::from).or_else(|| given.next().cloned()).unwrap_or_else(|| json!("text"))
    }
}

/// Merges the schema `part` into the schema `whole`. Both schemas apply to the same value.
fn merge(whole: &mut Value, part: &Value) {
    let (Value::Object(whole), Value::Object(part)) = (whole, part) else { return };
    for (keyword, value) in part {
        match (keyword.as_str(), whole.get_mut(keyword), value) {
            (_, None, _) => drop(whole.insert(keyword.clone(), value.clone())),
            ("properties", Some(Value::Object(known)), Value::Object(more)) => {
                for (name, schema) in more {
                    known.entry(name).or_insert_with(|| schema.clone());
                }
            }
            ("required", Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
            // If one of the schemas allows only one type, the merged schema allows only this type.
            ("type", Some(known), Value::String(_)) => *known = value.clone(),
            _ => {}
        }
    }
}

fn number(schema: &Value) -> Value {
    let bound = |inclusive: &str, exclusive: &str, step: f64| {
        schema[inclusive].as_f64().into_iter().chain(schema[exclusive].as_f64().map(|it| it + step))
    };
    let step = schema["multipleOf"].as_f64().unwrap_or(1.0);
    let least = bound("minimum", "exclusiveMinimum", step).fold(f64::NEG_INFINITY, f64::max);
    let most = bound("maximum", "exclusiveMaximum", -step).fold(f64::INFINITY, f64::min);
    let wanted = (1.0_f64.max(least).min(most) / step).ceil() * step;
    #[expect(clippy::cast_possible_truncation, reason = "the number has no fraction")]
    let whole = (wanted.fract() == 0.0).then_some(wanted as i64);
    whole.map_or_else(|| Number::from_f64(wanted).map_or(Value::Null, Value::Number), Value::from)
}

/// Returns the forms of `value` that a strict schema may accept, with `null` in place of absent
/// properties. Alternatives in the schema can lead to several forms. Returns an empty list if
/// `value` has a property that is not in the schema.
pub(super) fn strict_values(root: &Value, schema: &Value, value: &Value) -> Vec<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return strict_values(root, root.pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        return parts.iter().flat_map(|part| strict_values(root, part, value)).take(MAX_FORMS).collect();
    }
    match value {
        Value::Object(members) if schema["type"] == "object" => {
            let properties = schema["properties"].as_object().unwrap();
            if members.keys().any(|name| !properties.contains_key(name)) {
                return Vec::new();
            }
            properties.iter().fold(vec![json!({})], |objects, (name, property)| {
                let ways = match members.get(name) {
                    Some(member) => strict_values(root, property, member),
                    None => vec![Value::Null],
                };
                combined(&objects, &ways, |object, way| object[name] = way)
            })
        }
        Value::Array(items) if schema["type"] == "array" => {
            items.iter().fold(vec![json!([])], |lists, item| {
                let ways = strict_values(root, &schema["items"], item);
                combined(&lists, &ways, |list, way| list.as_array_mut().unwrap().push(way))
            })
        }
        _ => vec![value.clone()],
    }
}

/// The maximum number of forms returned for a value.
const MAX_FORMS: usize = 50;

/// Combines each value in `values` with each form in `ways`: `add` adds the form to a copy of the
/// value. Returns at most [`MAX_FORMS`] combinations.
fn combined(values: &[Value], ways: &[Value], mut add: impl FnMut(&mut Value, Value)) -> Vec<Value> {
    let mut all = Vec::new();
    for (value, way) in
        values.iter().flat_map(|value| ways.iter().map(move |way| (value, way))).take(MAX_FORMS)
    {
        let mut value = value.clone();
        add(&mut value, way.clone());
        all.push(value);
    }
    all
}
