//! Property tests of schemas derived for providers.

use haft_schema::{RepairPolicy, Schema, SchemaTarget, repair};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

const CASES: u32 = 200;

/// Generates a schema that has a strict form in most cases.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "minimum": 0})),
        Just(json!({"type": "boolean"})),
        Just(json!({"type": ["number", "null"]})),
        Just(json!({"enum": ["a", "b"]})),
        Just(json!({"enum": [1, "a", null]})),
        Just(json!({"const": "a"})),
        Just(json!({"$ref": "#/$defs/tree"})),
        Just(json!({"$ref": "#/$defs/leaf", "description": "A leaf."})),
        Just(json!({"type": "string", "minLength": 2})),
        prop::sample::select(null_sensitive_keywords()).prop_map(|(rule, says)| {
            let mut schema =
                json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["b"]}}});
            schema[rule] = says;
            schema
        }),
        Just(json!({"type": ["string", "object"], "properties": {"a": {"type": "integer"}}})),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            4 => object(inner.clone()),
            2 => inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            2 => parts().prop_map(|parts| json!({"anyOf": parts})),
            1 => parts().prop_map(|parts| json!({"oneOf": parts})),
            1 => parts().prop_map(|parts| json!({"allOf": parts})),
            1 => (object(inner.clone()), object(inner.clone())).prop_map(|(a, b)| json!({"allOf": [a, {"anyOf": [b]}]})),
            1 => inner.clone().prop_map(|part| json!({"not": part})),
        ]
    });
    object(nested).prop_map(|mut schema| {
        schema["$defs"] = json!({
            "leaf": {"type": "string"},
            "tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"type": "integer"}}},
        });
        schema
    })
}

/// Returns pairs of a keyword and its value. Each keyword treats a property with the value `null`
/// differently from an absent property.
fn null_sensitive_keywords() -> Vec<(&'static str, Value)> {
    vec![
        ("anyOf", json!([{"required": ["a"]}, {"required": ["b"]}])),
        ("oneOf", json!([{"required": ["a"]}, {"required": ["b"]}])),
        ("oneOf", json!([{"properties": {"c": {"const": 1}}, "required": ["c"]}, {"required": ["b"]}])),
        ("anyOf", json!([{"properties": {"c": {"const": 1}}}, {"required": ["b"]}])),
        ("dependentRequired", json!({"a": ["b"]})),
        ("not", json!({"required": ["a"]})),
        ("minProperties", json!(1)),
        ("maxProperties", json!(1)),
        ("propertyNames", json!({"maxLength": 1})),
        ("if", json!({"required": ["a"]})),
    ]
}

fn object(part: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let properties =
        prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), part, any::<bool>()), 0..4);
    (properties, prop::option::of(any::<bool>())).prop_map(|(properties, others)| {
        let required: Vec<_> = properties.iter().filter(|it| it.2).map(|it| it.0).collect();
        let required: std::collections::BTreeSet<_> = required.into_iter().collect();
        let properties: Map<_, _> =
            properties.into_iter().map(|(name, part, _)| (name.to_owned(), part)).collect();
        let mut schema = json!({"type": "object", "properties": properties, "required": required});
        // Most real schemas do not contain `additionalProperties`, so the keyword is usually
        // omitted here too.
        if others == Some(false) {
            schema["additionalProperties"] = json!(false);
        }
        schema
    })
}

/// A generator of values for a schema. The values resemble arguments that a model writes. The
/// generator merges the objects for the parts of an `allOf` and ignores keywords such as `not` and
/// `minLength`, so a generated value may be invalid.
struct ValueGenerator<'s> {
    root: &'s Value,
    choices: std::iter::Cycle<std::slice::Iter<'s, Index>>,
    remaining_values: usize,
}

impl ValueGenerator<'_> {
    fn choose<'v, T>(&mut self, options: &'v [T]) -> &'v T {
        self.choices.next().unwrap().get(options)
    }

    fn write(&mut self, schema: &Value) -> Value {
        self.remaining_values = self.remaining_values.saturating_sub(1);
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.root.pointer(&reference[1..]).unwrap().clone();
            return self.write(&target);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut parts = parts.iter().map(|part| self.write(part));
            let first = parts.next().unwrap();
            return parts.fold(first, |mut whole, part| {
                if let (Value::Object(whole), Value::Object(part)) = (&mut whole, part) {
                    whole.extend(part);
                }
                whole
            });
        }
        if let Some(parts) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let null = parts.iter().find(|it| it["type"] == "null").filter(|_| self.remaining_values == 0);
            let part = null.unwrap_or_else(|| self.choose(parts)).clone();
            return self.write(&part);
        }
        if let Some(options) = schema["enum"].as_array() {
            return self.choose(options).clone();
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        let kind = match &schema["type"] {
            Value::Null => return Value::Null,
            Value::Array(kinds) => self.choose(kinds).clone(),
            kind => kind.clone(),
        };
        match kind.as_str().unwrap() {
            "object" => {
                let mut object = Map::new();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let is_required =
                        schema["required"].as_array().is_some_and(|it| it.contains(&json!(name)));
                    if is_required || (self.remaining_values > 0 && *self.choose(&[true, false])) {
                        object.insert(name.clone(), self.write(property));
                    }
                }
                Value::Object(object)
            }
            "array" => (0..*self.choose(&[0, 1, 2])).map(|_| self.write(&schema["items"])).collect(),
            "string" => json!(self.choose(&["", "a", "long"])),
            "integer" => json!(self.choose(&[0, 1])),
            "number" => json!(self.choose(&[0.5, 1.0])),
            "boolean" => json!(self.choose(&[true, false])),
            _ => Value::Null,
        }
    }
}

/// Returns the values that a model can write in place of `value` for the strict schema `schema`,
/// with `null` for absent properties. The list may be empty.
fn possible_strict_values(root: &Value, schema: &Value, value: &Value) -> Vec<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return possible_strict_values(root, root.pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        return parts.iter().flat_map(|part| possible_strict_values(root, part, value)).take(50).collect();
    }
    match value {
        Value::Object(members) if schema["type"] == "object" => {
            let properties = schema["properties"].as_object().unwrap();
            if members.keys().any(|name| !properties.contains_key(name)) {
                return Vec::new();
            }
            properties.iter().fold(vec![json!({})], |objects, (name, property)| {
                let forms = possible_strict_values(root, property, members.get(name).unwrap_or(&Value::Null));
                combine(&objects, &forms, |object, form| object[name] = form)
            })
        }
        Value::Array(items) if schema["type"] == "array" => {
            items.iter().fold(vec![json!([])], |lists, item| {
                combine(&lists, &possible_strict_values(root, &schema["items"], item), |list, form| {
                    list.as_array_mut().unwrap().push(form);
                })
            })
        }
        // Without this check, forms of the wrong alternative would displace those of the right one.
        _ if has_other_type(schema, value) => Vec::new(),
        _ => vec![value.clone()],
    }
}

/// Returns `true` if `schema` has a type that `value` does not have.
fn has_other_type(schema: &Value, value: &Value) -> bool {
    let is_type = |name: &Value| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(_) => name == "number" || name == "integer",
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    match &schema["type"] {
        Value::Null => false,
        Value::Array(names) => !names.iter().any(is_type),
        name => !is_type(name),
    }
}

/// Returns a copy of `schema` with `additionalProperties: false` in all objects with declared
/// properties, except in the parts of an `allOf`.
fn close_objects(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let inner = |(name, it): (&String, &Value)| {
                (name.clone(), if name == "allOf" { it.clone() } else { close_objects(it) })
            };
            let mut members: Map<_, _> = members.iter().map(inner).collect();
            if members.get("properties").is_some_and(Value::is_object) {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            Value::Object(members)
        }
        Value::Array(items) => items.iter().map(close_objects).collect(),
        other => other.clone(),
    }
}

/// Combines each value in `values` with each form in `forms`: `add` adds the form to a copy of the
/// value. Returns at most 50 combinations.
fn combine(values: &[Value], forms: &[Value], mut add: impl FnMut(&mut Value, Value)) -> Vec<Value> {
    let mut all = Vec::new();
    for (value, form) in values.iter().flat_map(|value| forms.iter().map(move |form| (value, form))).take(50)
    {
        let mut value = value.clone();
        add(&mut value, form.clone());
        all.push(value);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_global_rejects: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_of_the_strict_schema_are_valid(given in any_schema(), choices in prop::collection::vec(any::<Index>(), 16)) {
        let schema = Schema::new(given).unwrap();
        let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
        prop_assume!(derived.is_strict);
        let sent = Schema::new(derived.value.clone()).unwrap();
        let value = ValueGenerator { root: &derived.value, choices: choices.iter().cycle(), remaining_values: 40 }.write(&derived.value);
        prop_assert!(sent.is_valid(&value), "{} {}", sent.as_value(), value);
        let (repaired, _) = repair(&schema, value.clone(), RepairPolicy::Default);
        prop_assert!(schema.is_valid(&repaired) || !derived.changes.is_empty(), "{} {}", sent.as_value(), value);
    }

    #[test]
    fn valid_values_have_a_strict_form(given in any_schema(), choices in prop::collection::vec(any::<Index>(), 16)) {
        let schema = Schema::new(given.clone()).unwrap();
        let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
        let value = ValueGenerator { root: &given, choices: choices.iter().cycle(), remaining_values: 40 }.write(&given);
        // Strict objects are closed, so values with undeclared properties have no strict form.
        let closed = Schema::new(close_objects(&given)).unwrap();
        prop_assume!(derived.is_strict && schema.is_valid(&value) && closed.is_valid(&value));
        let sent = Schema::new(derived.value.clone()).unwrap();
        let forms = possible_strict_values(&derived.value, &derived.value, &value);
        let arrives = |form: &Value| {
            let (arrived, _) = repair(&schema, form.clone(), RepairPolicy::Default);
            sent.is_valid(form) && schema.is_valid(&arrived)
        };
        prop_assert!(forms.iter().any(arrives), "{} {}", sent.as_value(), value);
    }

    /// Anthropic's strict mode keeps optional properties optional, so valid values need no other form.
    #[test]
    fn valid_values_fit_the_strict_schema_of_anthropic(given in any_schema(), choices in prop::collection::vec(any::<Index>(), 16)) {
        let schema = Schema::new(given.clone()).unwrap();
        let derived = schema.for_provider(SchemaTarget::AnthropicStrict);
        prop_assert_eq!(derived.is_strict, derived.strict_obstacle().is_none());
        let value = ValueGenerator { root: &given, choices: choices.iter().cycle(), remaining_values: 40 }.write(&given);
        let closed = Schema::new(close_objects(&given)).unwrap();
        prop_assume!(derived.is_strict && schema.is_valid(&value) && closed.is_valid(&value));
        prop_assert!(Schema::new(derived.value.clone()).unwrap().is_valid(&value), "{} {}", derived.value, value);
    }

    #[test]
    fn derivation_is_deterministic_and_idempotent(given in any_schema()) {
        let schema = Schema::new(given).unwrap();
        let derived = schema.for_provider(SchemaTarget::OpenAiStrict);
        prop_assert_eq!(schema.for_provider(SchemaTarget::OpenAiStrict).value.to_string(), derived.value.to_string());
        prop_assert_eq!(derived.is_strict, derived.strict_obstacle().is_none());
        prop_assume!(derived.is_strict);
        let again = Schema::new(derived.value.clone()).unwrap().for_provider(SchemaTarget::OpenAiStrict);
        prop_assert_eq!(again.changes, vec![]);
        prop_assert_eq!(again.value, derived.value);
    }

    #[test]
    fn root_without_strict_has_no_combinators(given in any_schema(), parts in prop::collection::vec(any_schema(), 1..3)) {
        let given = json!({"type": "object", "anyOf": parts, "allOf": [given], "$defs": given["$defs"]});
        let derived = Schema::new(given).unwrap().for_provider(SchemaTarget::OpenAi);
        prop_assert!(Schema::new(derived.value.clone()).is_ok(), "{}", derived.value);
        for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
            prop_assert_eq!(derived.value.get(keyword), None);
        }
    }

    #[test]
    fn values_of_a_subset_are_valid_unless_changes_are_reported(given in any_schema(), choices in prop::collection::vec(any::<Index>(), 16)) {
        let schema = Schema::new(given).unwrap();
        for target in [SchemaTarget::Gemini, SchemaTarget::SmallModel] {
            let derived = schema.for_provider(target);
            prop_assert_eq!(schema.for_provider(target).value.to_string(), derived.value.to_string());
            let sent = Schema::new(derived.value.clone()).unwrap();
            let value = ValueGenerator { root: &derived.value, choices: choices.iter().cycle(), remaining_values: 40 }.write(&derived.value);
            let (repaired, _) = repair(&schema, value.clone(), RepairPolicy::Default);
            let fits = !sent.is_valid(&value) || schema.is_valid(&repaired);
            prop_assert!(fits || !derived.changes.is_empty(), "{} {}", sent.as_value(), value);
        }
    }

    #[test]
    fn subsets_have_supported_keywords_only(given in any_schema()) {
        let schema = Schema::new(given).unwrap();
        let gemini = schema.for_provider(SchemaTarget::Gemini).value;
        prop_assert_eq!(gemini_error(&gemini), None, "{}", gemini);
        let small = schema.for_provider(SchemaTarget::SmallModel).value;
        prop_assert!(!small.to_string().contains("$ref"), "{}", small);
        let again = Schema::new(small.clone()).unwrap().for_provider(SchemaTarget::SmallModel);
        prop_assert_eq!(&again.value, &small);
        prop_assert_eq!(again.changes, vec![]);
    }
}

/// Returns the reason why Gemini would reject `schema`, or `None` if Gemini would accept it.
fn gemini_error(schema: &Value) -> Option<String> {
    const ALWAYS: [&str; 5] = ["title", "description", "nullable", "type", "anyOf"];
    let about = |name: &str| match name {
        "minLength" | "maxLength" | "pattern" | "enum" => vec!["string"],
        "format" => vec!["string", "number", "integer"],
        "minimum" | "maximum" => vec!["number", "integer"],
        "items" | "minItems" | "maxItems" => vec!["array"],
        "properties" | "required" | "minProperties" | "maxProperties" => vec!["object"],
        _ => vec![],
    };
    let kind = schema["type"].as_str();
    let members = schema.as_object()?;
    if kind.is_some() == members.contains_key("anyOf") {
        return Some(format!("no type and no alternatives, or both: {schema}"));
    }
    for (name, value) in members {
        if !ALWAYS.contains(&name.as_str()) && !kind.is_some_and(|kind| about(name).contains(&kind)) {
            return Some(format!("{name} of {kind:?}"));
        }
        let formats = [
            "string date-time",
            "string enum",
            "integer int32",
            "integer int64",
            "number float",
            "number double",
        ];
        if name == "format"
            && !formats.contains(&format!("{} {}", kind.unwrap(), value.as_str().unwrap()).as_str())
        {
            return Some(format!("the format {value} of {kind:?}"));
        }
        if name == "enum" && !value.as_array()?.iter().all(|it| it.as_str().is_some_and(|it| !it.is_empty()))
        {
            return Some(format!("values {value}"));
        }
    }
    if kind == Some("array") && !members.contains_key("items") {
        return Some("an array without items".to_owned());
    }
    let required = schema["required"].as_array().into_iter().flatten();
    if let Some(name) =
        required.filter_map(Value::as_str).find(|name| schema["properties"].get(name).is_none())
    {
        return Some(format!("required {name}"));
    }
    let parts = schema["anyOf"].as_array().into_iter().flatten();
    if parts.clone().any(|it| it.get("anyOf").is_some()) {
        return Some("alternatives within alternatives".to_owned());
    }
    let properties = schema["properties"].as_object().into_iter().flatten().map(|(_, it)| it);
    parts.chain(properties).chain(members.get("items")).find_map(gemini_error)
}
