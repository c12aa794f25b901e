//! Generates values for a schema, as a model would. Most of the values are valid.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::random;

/// The maximum number of subschemas that are visited to generate a value. This limit ends the
/// recursion for a recursive schema.
const MAX_STEPS: u32 = 60;

pub(super) struct ValueWriter<'s> {
    root: &'s Value,
    rng: &'s mut Rng,
    steps_left: u32,
}

impl<'s> ValueWriter<'s> {
    pub(super) fn new(root: &'s Value, rng: &'s mut Rng) -> Self {
        Self { root, rng, steps_left: MAX_STEPS }
    }

    /// Generates a value for the root schema.
    pub(super) fn write(mut self) -> Value {
        self.value(self.root)
    }

    fn value(&mut self, schema: &'s Value) -> Value {
        let Some(left) = self.steps_left.checked_sub(1) else { return Value::Null };
        self.steps_left = left;
        if let Some(reference) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
            return self.root.pointer(reference).map_or(Value::Null, |target| self.value(target));
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(option) = schema["enum"].as_array().and_then(|all| self.rng.choice(all)) {
            return option.clone();
        }
        let own = self.of_type(schema);
        self.parts(schema).into_iter().fold(own, |whole, part| {
            let part = self.value(part);
            match (whole, part) {
                (Value::Object(mut whole), Value::Object(part)) => {
                    whole.extend(part);
                    Value::Object(whole)
                }
                (_, part) => part,
            }
        })
    }

    /// Returns the subschemas in `allOf`, and a random alternative from each of `anyOf` and
    /// `oneOf`.
    fn parts(&mut self, schema: &'s Value) -> Vec<&'s Value> {
        let mut parts: Vec<_> = schema["allOf"].as_array().into_iter().flatten().collect();
        for keyword in ["anyOf", "oneOf"] {
            parts.extend(schema[keyword].as_array().and_then(|all| self.rng.choice(all)));
        }
        parts
    }

    fn of_type(&mut self, schema: &'s Value) -> Value {
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) => self.rng.choice(kinds).and_then(Value::as_str).unwrap_or_default(),
            _ if schema.get("properties").is_some() => "object",
            _ if schema.get("items").is_some() || schema.get("prefixItems").is_some() => "array",
            _ => "",
        };
        match kind {
            "object" => self.object(schema),
            "array" => self.array(schema),
            "string" => json!(random::text_like("a", self.rng)),
            "integer" => json!(self.rng.i8(-3..7)),
            "number" => random::number(self.rng),
            "boolean" => json!(self.rng.bool()),
            "null" => Value::Null,
            _ => random::value(self.rng, 1),
        }
    }

    fn object(&mut self, schema: &'s Value) -> Value {
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required =
                schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
            if is_required || (self.steps_left > 0 && self.rng.bool()) {
                object.insert(name.clone(), self.value(property));
            }
        }
        if let Some(others) = schema.get("additionalProperties").filter(|_| self.rng.u8(..3) == 0) {
            object.insert(random::name(self.rng), self.value(others));
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &'s Value) -> Value {
        let first: Vec<_> = schema["prefixItems"].as_array().into_iter().flatten().collect();
        let mut items: Vec<_> = first.into_iter().map(|item| self.value(item)).collect();
        if let Some(item) = schema.get("items") {
            items.extend((0..self.rng.u8(..3)).map(|_| self.value(item)).collect::<Vec<_>>());
        }
        Value::from(items)
    }
}
