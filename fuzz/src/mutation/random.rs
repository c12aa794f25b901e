//! Generates random JSON values and schemas from a small vocabulary of names and texts.

use fastrand::Rng;
use serde_json::{Map, Value, json};

pub(super) const NAMES: [&str; 12] =
    ["a", "b", "c", "args", "arguments", "input", "parameters", "kind", "", "ü~/%25 ", "0", "then"];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];
const TEXTS: [&str; 20] = [
    "",
    "a",
    "b",
    "3",
    "-0",
    "1e3",
    "3.0",
    "true",
    "null",
    "{}",
    "[1]",
    "{\"a\":\"3\"}",
    " {\"a\": null} ",
    "\"a\"",
    "2024-02-29",
    "10:00:00Z",
    "ü🦀",
    "a@b.c",
    "18446744073709551616",
    "\u{0}\n",
];
const PATTERNS: [&str; 16] = [
    "^a",
    "^[a-z]+$",
    "(a+)+$",
    "a{2,5}",
    "\\p{L}",
    "\\d",
    "(?=a)b",
    "(a)\\1",
    "[^a]*",
    "a|b",
    "^$",
    "(?<!a)b",
    "\\cA",
    "(",
    "a{1000}",
    "(?:a{10}){10}",
];
const FORMATS: [&str; 20] = [
    "date",
    "time",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "uuid",
    "regex",
    "json-pointer",
    "relative-json-pointer",
    "uri-template",
    "int64",
    "idn-email",
    "idn-hostname",
    "unknown",
];
const REFERENCES: [&str; 10] = [
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#a",
    "#b",
    "#/properties/a",
    "a.json",
    "https://example.com/a#b",
    "#/$defs/%61",
];
const DIALECTS: [&str; 4] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-04/schema#",
];
/// JSON Schema keywords. The letter before each keyword specifies the type of its value. The
/// function [`keyword`] contains the meaning of each letter.
const KEYWORD_KINDS: &str = "S:items S:additionalProperties S:not S:if S:then S:else S:contains S:propertyNames \
    S:unevaluatedProperties S:unevaluatedItems S:additionalItems S:contentSchema L:allOf L:anyOf L:oneOf L:prefixItems \
    L:items M:properties M:properties M:properties M:$defs M:definitions M:dependentSchemas M:dependencies P:patternProperties \
    N:minimum N:maximum N:exclusiveMinimum N:exclusiveMaximum N:multipleOf I:minLength I:maxLength I:minItems \
    I:maxItems I:minProperties I:maxProperties I:minContains I:maxContains B:uniqueItems B:nullable B:readOnly \
    D:description D:title D:$comment D:$id D:$anchor D:$dynamicAnchor X:pattern F:format U:$schema R:$ref R:$ref \
    R:$dynamicRef V:const V:default E:enum E:examples Q:required Q:required G:dependentRequired G:dependencies T:type \
    T:type A:additionalProperties A:unevaluatedProperties D:contentEncoding D:contentMediaType";

pub(super) fn name(rng: &mut Rng) -> String {
    pick(&NAMES, rng)
}

pub(super) fn number(rng: &mut Rng) -> Value {
    let float = [0.5, -0.0, 1.0, 3.0, 1e300, 0.1, 1e-300, 1e15, 9_007_199_254_740_993.0];
    match rng.u8(..5) {
        0 => json!(rng.choice(float).unwrap_or(0.5)),
        1 => json!(rng.choice([i64::MIN, i64::MAX, 1 << 53, -1, 255]).unwrap_or(0)),
        2 => json!(u64::MAX),
        _ => json!(rng.i64(-2..6)),
    }
}

/// Returns a random text: the start or the end of `text`, a repetition of it, `text` with an
/// insertion, or an unrelated text.
pub(super) fn text_like(text: &str, rng: &mut Rng) -> String {
    let piece = pick(&TEXTS, rng);
    let at = text.char_indices().nth(rng.usize(..=text.len().min(200))).map_or(text.len(), |(at, _)| at);
    match rng.u8(..5) {
        0 => piece,
        1 => format!("{}{piece}{}", &text[..at], &text[at..]),
        2 => text[at..].to_owned(),
        3 if text.len() < 2_000 => text.repeat(rng.usize(2..5)),
        _ => text[..at].to_owned(),
    }
}

pub(super) fn value(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => Value::from(rng.bool()),
        2 => number(rng),
        3 | 4 => Value::from(pick(&TEXTS, rng)),
        5 => (0..rng.u8(..4)).map(|_| value(rng, depth - 1)).collect(),
        _ => Value::Object((0..rng.u8(..4)).map(|_| (name(rng), value(rng, depth - 1))).collect()),
    }
}

/// Returns a random schema, which may be invalid. `depth` limits the nesting depth of its
/// subschemas.
pub(super) fn schema(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(..12) {
        0 => Value::from(rng.bool()),
        1 => json!({"$ref": pick(&REFERENCES, rng)}),
        2..5 => json!({"type": types(rng)}),
        _ => {
            let mut members: Map<_, _> = (0..rng.u8(1..4)).map(|_| keyword(rng, depth)).collect();
            if rng.bool() {
                members.insert("type".to_owned(), types(rng));
            }
            Value::Object(members)
        }
    }
}

/// Returns a random JSON Schema keyword and a value for it. The value usually has a type that the
/// keyword allows.
pub(super) fn keyword(rng: &mut Rng, depth: u8) -> (String, Value) {
    let all: Vec<_> = KEYWORD_KINDS.split_whitespace().collect();
    let (kind, keyword) = all[rng.usize(..all.len())].split_once(':').expect("a letter before each keyword");
    let value = match kind {
        _ if rng.u8(..60) == 0 => value(rng, 1),
        "S" | "L" | "M" | "P" if depth == 0 => return ("type".to_owned(), types(rng)),
        "S" => schema(rng, depth - 1),
        "A" => Value::Bool(false),
        "L" => (0..rng.u8(1..4)).map(|_| schema(rng, depth - 1)).collect(),
        "M" => Value::Object((0..rng.u8(..4)).map(|_| (name(rng), schema(rng, depth - 1))).collect()),
        "P" => {
            Value::Object((0..rng.u8(..3)).map(|_| (pick(&PATTERNS, rng), schema(rng, depth - 1))).collect())
        }
        "N" => number(rng),
        "I" => Value::from(rng.u8(..4)),
        "B" => Value::from(rng.bool()),
        "X" => Value::from(pick(&PATTERNS, rng)),
        "F" => Value::from(pick(&FORMATS, rng)),
        "U" => Value::from(pick(&DIALECTS, rng)),
        "R" => Value::from(pick(&REFERENCES, rng)),
        "V" => value(rng, 2),
        "E" => (0..rng.u8(1..4)).map(|_| value(rng, 1)).collect(),
        "Q" => (0..rng.u8(..4)).map(|_| name(rng)).collect(),
        "G" => json!({name(rng): [name(rng)], name(rng): [name(rng), name(rng)]}),
        "T" => types(rng),
        _ => Value::from(if rng.bool() { pick(&NAMES, rng) } else { pick(&TEXTS, rng) }),
    };
    (keyword.to_owned(), value)
}

fn types(rng: &mut Rng) -> Value {
    if rng.u8(..4) == 0 {
        json!([pick(&TYPES, rng), pick(&TYPES, rng)])
    } else {
        Value::from(pick(&TYPES, rng))
    }
}

fn pick(all: &[&str], rng: &mut Rng) -> String {
    all[rng.usize(..all.len())].to_owned()
}
