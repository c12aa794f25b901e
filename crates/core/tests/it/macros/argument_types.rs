//! Snapshots of the schema of each argument type, and of parsed values and errors.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    num::{NonZeroI32, NonZeroU8},
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Tool as _, ToolExt as _,
    export::schemars::{self, JsonSchema},
    tool,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Inner {
    a: i64,
    b: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
enum External {
    Unit,
    New(i64),
    Tuple(i64, String),
    Struct { a: i64 },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Internal {
    Circle { radius: f64 },
    Nothing,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    A(i64),
    C,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Object { a: i64 },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Newtype(String);

#[derive(Debug, Deserialize, JsonSchema)]
struct Unit;

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Page<T> {
    items: Vec<T>,
    next: Option<Box<Page<T>>>,
}

fn one() -> u8 {
    1
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Strict {
    first_name: String,
    #[serde(skip)]
    cache: u8,
    #[serde(default = "one")]
    how_many: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Flat {
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct With {
    #[serde(with = "as_text")]
    #[schemars(with = "String", length(max = 3))]
    n: u8,
    #[schemars(range(min = 1, max = 3), description = "By schemars.")]
    m: i64,
}

mod as_text {
    use serde::{Deserialize as _, Deserializer, de::Error as _};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Builds a report on a list of argument types, each with a list of JSON values. The report
/// contains the schema of each type, and the parsed value or the error for each JSON value.
macro_rules! report {
    ($($ty:ty: $($value:tt),*;)*) => {{
        let mut report = String::new();
        $({
            #[tool(name = "kind")]
            fn kind(v: $ty) -> String {
                format!("{v:?}")
            }
            assert_eq!(Kind.definition().defect(), None);
            let schema = Kind.definition().input_schema().as_value();
            let optional = if schema.get("required").is_some() { "" } else { ", optional" };
            report += &format!("{}: {}{optional}\n", stringify!($ty), schema["properties"]["v"]);
            $({
                let value = json!($value);
                let result = Kind.invoke_blocking(json!({"v": value}));
                let text = result.model_text();
                assert_eq!(result.is_success(), !text.starts_with("invalid arguments: /v"), "{text}");
                report += &format!("    {value} -> {}\n", text.trim_start_matches("invalid arguments: "));
            })*
        })*
        report
    }};
}

/// Options, lists, structs and enums are argument types with a schema. The error for an invalid
/// value contains its JSON pointer, the expected type and the received type. Values are validated
/// against all keywords in the schema of their type.
#[test]
fn each_argument_type_has_a_schema_and_validated_values() {
    let report = report! {
        Option<Option<i64>>: null, 3, "x";
        Option<Inner>: null, {"a": 1}, {}, 3;
        Option<Vec<Option<Inner>>>: null, [null, {"a": 1}], [3];
        External: "Unit", {"New": 3}, {"Tuple": [1, "a"]}, {"Struct": {"a": 1}}, "unit", {"New": "x"}, {"Struct": {}};
        Internal: {"kind": "circle", "radius": 1}, {"kind": "nothing"}, {"kind": "tri"}, {"kind": "circle"}, {"radius": 1};
        Adjacent: {"t": "A", "c": 1}, {"t": "C"}, {"t": "A", "c": "x"}, {"t": "D"};
        Untagged: 1, {"a": 1}, 1.5, {};
        Newtype: "x", 3;
        Unit: null, 3;
        (i64, String): [1, "a"], [1], [1, 2], [1, "a", 3];
        [u8; 2]: [1, 2], [1], [256, 1];
        Box<Inner>: {"a": 1}, {};
        Page<Inner>: {"items": [{"a": 1}], "next": {"items": []}}, {"items": [{}]}, {"items": [], "next": {}};
        Strict: {"firstName": "a"}, {"firstName": "a", "howMany": 3}, {"first_name": "a"}, {"firstName": "a", "cache": 3};
        Flat: {"a": 1, "x": [1]}, {"x": 1};
        With: {"n": "3", "m": 2}, {"n": "4000", "m": 9}, {"n": "abc", "m": 1};
        HashMap<String, i64>: {"a": 1}, {"a": "x"};
        BTreeMap<u32, String>: {"1": "a"}, {"a": "x"};
        BTreeSet<i64>: [1, 2], [1, 1];
        u8: 255, 3.0, 256, (-1), 1.5, true;
        i64: (i64::MIN), 18446744073709551615u64, 1e300;
        u64: 18446744073709551615u64, (-1);
        i128: (-5), "x";
        f32: 1.5, 3, "x", null;
        char: "é", "xy", "";
        Vec<u8>: [1, 2], [256];
        Duration: {"secs": 1, "nanos": 0}, 3;
        NonZeroU8: 1, 0;
        NonZeroI32: (-1), 0;
        Cow<'static, str>: "x", 3;
        Value: null, 3;
        Map<String, Value>: {"a": 1}, 3;
        Option<std::sync::Arc<str>>: "x", 3;
    };
    expect![[r##"
        Option<Option<i64>>: {"type":["integer","null"]}, optional
            null -> None
            3 -> Some(Some(3))
            "x" -> /v: expected integer or null, received string "x"
        Option<Inner>: {"type":["object","null"],"properties":{"a":{"type":"integer"},"b":{"type":["integer","null"]}},"required":["a"]}, optional
            null -> None
            {"a":1} -> Some(Inner { a: 1, b: None })
            {} -> /v: missing required property "a" (integer)
            3 -> /v: expected object or null, received integer 3
        Option<Vec<Option<Inner>>>: {"type":["array","null"],"items":{"type":["object","null"],"properties":{"a":{"type":"integer"},"b":{"type":["integer","null"]}},"required":["a"]}}, optional
            null -> None
            [null,{"a":1}] -> Some([None, Some(Inner { a: 1, b: None })])
            [3] -> /v/0: expected object or null, received integer 3
        External: {"oneOf":[{"type":"string","enum":["Unit"]},{"type":"object","properties":{"New":{"type":"integer"}},"required":["New"],"additionalProperties":false},{"type":"object","properties":{"Tuple":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2,"maxItems":2}},"required":["Tuple"],"additionalProperties":false},{"type":"object","properties":{"Struct":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}},"required":["Struct"],"additionalProperties":false}]}
            "Unit" -> Unit
            {"New":3} -> New(3)
            {"Tuple":[1,"a"]} -> Tuple(1, "a")
            {"Struct":{"a":1}} -> Struct { a: 1 }
            "unit" -> /v: expected "Unit" or object with "New" or object with "Tuple" or object with "Struct", received string "unit"
            {"New":"x"} -> /v/New: expected integer, received string "x"
            {"Struct":{}} -> /v/Struct: missing required property "a" (integer)
        Internal: {"oneOf":[{"type":"object","properties":{"kind":{"type":"string","const":"circle"},"radius":{"type":"number"}},"required":["kind","radius"]},{"type":"object","properties":{"kind":{"type":"string","const":"nothing"}},"required":["kind"]}]}
            {"kind":"circle","radius":1} -> Circle { radius: 1.0 }
            {"kind":"nothing"} -> Nothing
            {"kind":"tri"} -> /v/kind: expected "circle" or "nothing", received string "tri"
            {"kind":"circle"} -> /v: missing required property "radius" (number)
            {"radius":1} -> /v: expected object with "kind", "radius" or object with "kind", received object {"radius":1}
        Adjacent: {"oneOf":[{"type":"object","properties":{"t":{"type":"string","const":"A"},"c":{"type":"integer"}},"required":["t","c"]},{"type":"object","properties":{"t":{"type":"string","const":"C"}},"required":["t"]}]}
            {"t":"A","c":1} -> A(1)
            {"t":"C"} -> C
            {"t":"A","c":"x"} -> /v/c: expected integer, received string "x"
            {"t":"D"} -> /v/t: expected "A" or "C", received string "D"
        Untagged: {"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}
            1 -> Number(1)
            {"a":1} -> Object { a: 1 }
            1.5 -> /v: expected integer or object with "a", received number 1.5
            {} -> /v: missing required property "a" (integer)
        Newtype: {"type":"string"}
            "x" -> Newtype("x")
            3 -> /v: expected string, received integer 3
        Unit: {"type":"null"}
            null -> Unit
            3 -> /v: expected null, received integer 3
        (i64, String): {"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2,"maxItems":2}
            [1,"a"] -> (1, "a")
            [1] -> /v: expected at least 2 items, received array [1]
            [1,2] -> /v/1: expected string, received integer 2
            [1,"a",3] -> /v: expected at most 2 items, received array [1,"a",3]
        [u8; 2]: {"type":"array","items":{"type":"integer","maximum":255,"minimum":0},"minItems":2,"maxItems":2}
            [1,2] -> [1, 2]
            [1] -> /v: expected at least 2 items, received array [1]
            [256,1] -> /v/0: expected at most 255, received integer 256
        Box<Inner>: {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["integer","null"]}},"required":["a"]}
            {"a":1} -> Inner { a: 1, b: None }
            {} -> /v: missing required property "a" (integer)
        Page<Inner>: {"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["integer","null"]}},"required":["a"]}},"next":{"anyOf":[{"$ref":"#/$defs/Page"},{"type":"null"}]}},"required":["items"]}
            {"items":[{"a":1}],"next":{"items":[]}} -> Page { items: [Inner { a: 1, b: None }], next: Some(Page { items: [], next: None }) }
            {"items":[{}]} -> /v/items/0: missing required property "a" (integer)
            {"items":[],"next":{}} -> /v/next: missing required property "items" (array of object with "a", "b")
        Strict: {"type":"object","additionalProperties":false,"properties":{"firstName":{"type":"string"},"howMany":{"type":"integer","default":1,"minimum":0,"maximum":255}},"required":["firstName"]}
            {"firstName":"a"} -> Strict { first_name: "a", cache: 0, how_many: 1 }
            {"firstName":"a","howMany":3} -> Strict { first_name: "a", cache: 0, how_many: 3 }
            {"first_name":"a"} -> /v: unknown property "first_name", did you mean "firstName"? known properties: "firstName", "howMany"
        /v: missing required property "firstName" (string)
            {"firstName":"a","cache":3} -> /v: unknown property "cache"; known properties: "firstName", "howMany"
        Flat: {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["integer","null"]}},"required":["a"],"additionalProperties":true}
            {"a":1,"x":[1]} -> Flat { inner: Inner { a: 1, b: None }, rest: {"x": Array [Number(1)]} }
            {"x":1} -> /v: missing required property "a" (integer)
        With: {"type":"object","properties":{"n":{"type":"string","maxLength":3},"m":{"type":"integer","maximum":3,"description":"By schemars.","minimum":1}},"required":["n","m"]}
            {"n":"3","m":2} -> With { n: 3, m: 2 }
            {"n":"4000","m":9} -> /v/n: expected at most 3 characters, received string "4000"
        /v/m: expected at most 3, received integer 9
            {"n":"abc","m":1} -> /v/n: invalid digit found in string
        HashMap<String, i64>: {"type":"object","additionalProperties":{"type":"integer"}}
            {"a":1} -> {"a": 1}
            {"a":"x"} -> /v/a: expected integer, received string "x"
        BTreeMap<u32, String>: {"type":"object","additionalProperties":false,"patternProperties":{"^\\d+$":{"type":"string"}}}
            {"1":"a"} -> {1: "a"}
            {"a":"x"} -> /v: unknown property "a"; no properties are known
        BTreeSet<i64>: {"type":"array","uniqueItems":true,"items":{"type":"integer"}}
            [1,2] -> {1, 2}
            [1,1] -> /v: expected array of items that all differ, received array [1,1]
        u8: {"type":"integer","maximum":255,"minimum":0}
            255 -> 255
            3.0 -> 3
            256 -> /v: expected at most 255, received integer 256
            -1 -> /v: expected at least 0, received integer -1
            1.5 -> /v: expected integer, received number 1.5
            true -> /v: expected integer, received boolean true
        i64: {"type":"integer"}
            -9223372036854775808 -> -9223372036854775808
            18446744073709551615 -> /v: invalid value: integer `18446744073709551615`, expected i64
            1e+300 -> /v: integer out of range: 1e+300; write an integer from -9223372036854775808 to 18446744073709551615, or a string if the schema allows one
        u64: {"type":"integer","minimum":0}
            18446744073709551615 -> 18446744073709551615
            -1 -> /v: expected at least 0, received integer -1
        i128: {"type":"integer"}
            -5 -> -5
            "x" -> /v: expected integer, received string "x"
        f32: {"type":"number"}
            1.5 -> 1.5
            3 -> 3.0
            "x" -> /v: expected number, received string "x"
            null -> /v: expected number, received null
        char: {"type":"string","minLength":1,"maxLength":1}
            "é" -> 'é'
            "xy" -> /v: expected at most 1 character, received string "xy"
            "" -> /v: expected at least 1 character, received string "" (0 characters)
        Vec<u8>: {"type":"array","items":{"type":"integer","maximum":255,"minimum":0}}
            [1,2] -> [1, 2]
            [256] -> /v/0: expected at most 255, received integer 256
        Duration: {"type":"object","required":["secs","nanos"],"properties":{"secs":{"type":"integer","minimum":0},"nanos":{"type":"integer","minimum":0}}}
            {"secs":1,"nanos":0} -> 1s
            3 -> /v: expected object, received integer 3
        NonZeroU8: {"type":"integer","maximum":255,"minimum":1}
            1 -> 1
            0 -> /v: expected at least 1, received integer 0
        NonZeroI32: {"type":"integer","not":{"const":0}}
            -1 -> -1
            0 -> /v: expected anything but 0, received integer 0
        Cow<'static, str>: {"type":"string"}
            "x" -> "x"
            3 -> /v: expected string, received integer 3
        Value: true
            null -> Null
            3 -> Number(3)
        Map<String, Value>: {"type":"object","additionalProperties":true}
            {"a":1} -> {"a": Number(1)}
            3 -> /v: expected object, received integer 3
        Option<std::sync::Arc<str>>: {"type":["string","null"]}, optional
            "x" -> Some("x")
            3 -> /v: expected string or null, received integer 3
    "##]].assert_eq(&report);
}
