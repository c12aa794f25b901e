use expect_test::expect;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{cookies, header, path, query};
use crate::operation::Style;

/// The values of the table "Style Examples" (OpenAPI 3.1, section 4.8.12.4).
fn values() -> [Value; 4] {
    [json!(""), json!("blue"), json!(["blue", "black"]), json!({"R": 100, "G": 200, "B": 150})]
}

/// The results are those of the table in the specification.
#[test]
fn path_styles_match_the_table_of_the_specification() {
    let mut table = String::new();
    for style in [
        Style::Matrix { explode: false },
        Style::Matrix { explode: true },
        Style::Label { explode: false },
        Style::Label { explode: true },
        Style::Simple { explode: false },
        Style::Simple { explode: true },
    ] {
        let row: Vec<_> = values().iter().map(|value| path("color", style, value)).collect();
        table.push_str(&format!("{style:?}: {}\n", row.join(" | ")));
    }
    expect![[r#"
        Matrix { explode: false }: ;color | ;color=blue | ;color=blue,black | ;color=R,100,G,200,B,150
        Matrix { explode: true }: ;color | ;color=blue | ;color=blue;color=black | ;R=100;G=200;B=150
        Label { explode: false }: . | .blue | .blue,black | .R,100,G,200,B,150
        Label { explode: true }: . | .blue | .blue.black | .R=100.G=200.B=150
        Simple { explode: false }:  | blue | blue,black | R,100,G,200,B,150
        Simple { explode: true }:  | blue | blue,black | R=100,G=200,B=150
    "#]]
    .assert_eq(&table);
}

#[test]
fn query_styles_match_the_table_of_the_specification() {
    let mut table = String::new();
    for style in [
        Style::Form { explode: false, allow_reserved: false },
        Style::Form { explode: true, allow_reserved: false },
        Style::Delimited { separator: ' ', allow_reserved: false },
        Style::Delimited { separator: '|', allow_reserved: false },
        Style::DeepObject { allow_reserved: false },
        Style::Json,
    ] {
        let row: Vec<_> = values().iter().map(|value| query("color", style, value).join("&")).collect();
        table.push_str(&format!("{style:?}: {}\n", row.join(" | ")));
    }
    expect![[r#"
        Form { explode: false, allow_reserved: false }: color= | color=blue | color=blue,black | color=R,100,G,200,B,150
        Form { explode: true, allow_reserved: false }: color= | color=blue | color=blue&color=black | R=100&G=200&B=150
        Delimited { separator: ' ', allow_reserved: false }: color= | color=blue | color=blue%20black | color=R%20100%20G%20200%20B%20150
        Delimited { separator: '|', allow_reserved: false }: color= | color=blue | color=blue%7Cblack | color=R%7C100%7CG%7C200%7CB%7C150
        DeepObject { allow_reserved: false }: color= | color=blue | color%5B%5D=blue&color%5B%5D=black | color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150
        Json: color=%22%22 | color=%22blue%22 | color=%5B%22blue%22%2C%22black%22%5D | color=%7B%22R%22%3A100%2C%22G%22%3A200%2C%22B%22%3A150%7D
    "#]]
    .assert_eq(&table);
}

#[test]
fn deep_objects_are_nested_with_brackets() {
    let value = json!({"status": {"not": ["a", "b"]}, "items": [{"id": 1}], "none": null});
    expect!["f[status][not][]=a&f[status][not][]=b&f[items][0][id]=1"].assert_eq(
        &percent_decode_str(&query("f", Style::DeepObject { allow_reserved: false }, &value).join("&"))
            .decode_utf8_lossy(),
    );
}

/// Servers parse an empty list as a list with an empty item, so it is omitted (RFC 6570, 2.3).
#[test]
fn empty_lists_are_omitted() {
    for explode in [true, false] {
        assert!(query("a", Style::Form { explode, allow_reserved: false }, &json!([])).is_empty());
    }
    assert!(query("a", Style::Delimited { separator: '|', allow_reserved: false }, &json!([])).is_empty());
}

/// An integer that was parsed as a float has no fraction.
#[test]
fn numbers_and_headers_are_not_encoded() {
    assert_eq!(
        header(Style::Simple { explode: false }, &json!([1.0, -2, 2.5, 1e20, true])),
        "1,-2,2.5,100000000000000000000,true"
    );
    assert_eq!(header(Style::Simple { explode: true }, &json!({"a": "x/y"})), "a=x/y");
    assert_eq!(header(Style::Json, &json!({"a": [1]})), r#"{"a":[1]}"#);
}

/// Reserved characters are kept, except for those that separate parameters. An encoded octet is
/// kept.
#[test]
fn allow_reserved_keeps_reserved_characters() {
    let style = Style::Form { explode: true, allow_reserved: true };
    expect!["q=a/b?c:d@e,f=g%26h%2Bi%23j%5Bk%5D%20%2F100%25"]
        .assert_eq(&query("q", style, &json!("a/b?c:d@e,f=g&h+i#j[k] %2F100%")).join("&"));
}

fn any_style() -> impl Strategy<Value = Style> {
    prop_oneof![
        any::<bool>().prop_map(|explode| Style::Form { explode, allow_reserved: false }),
        Just(Style::Delimited { separator: ' ', allow_reserved: false }),
        Just(Style::Delimited { separator: '|', allow_reserved: false }),
        Just(Style::DeepObject { allow_reserved: false }),
        Just(Style::Json),
    ]
}

fn any_argument() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![any::<String>().prop_map(Value::from), any::<i64>().prop_map(Value::from)];
    prop_oneof![
        scalar.clone(),
        proptest::collection::vec(scalar.clone(), 0..4).prop_map(Value::from),
        proptest::collection::btree_map(any::<String>(), scalar, 0..4)
            .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A value cannot add a parameter, a fragment or a header line, whatever its characters are.
    #[test]
    fn values_stay_inside_their_parameter(style in any_style(), value in any_argument(), name in "[a-z]{1,8}") {
        for pair in query(&name, style, &value) {
            prop_assert!(pair.is_ascii() && !pair.contains(['&', '#', ' ', '\r', '\n', ';', '?', '/']), "{pair}");
            prop_assert_eq!(pair.matches('=').count(), 1, "{}", pair);
        }
        for pair in cookies(&name, style, &value) {
            prop_assert!(pair.is_ascii() && !pair.contains([';', ' ', '"', '\r', '\n']), "{pair}");
        }
        for explode in [true, false] {
            for style in [Style::Simple { explode }, Style::Label { explode }, Style::Matrix { explode }, Style::Json] {
                let text = path(&name, style, &value);
                prop_assert!(text.is_ascii() && !text.contains(['/', '?', '#', '\\', ' ', '\r', '\n']), "{text}");
            }
        }
    }

    /// A server that decodes the query reads the value of a string parameter.
    #[test]
    fn strings_survive_the_query(value in any::<String>(), allow_reserved in any::<bool>()) {
        let style = Style::Form { explode: true, allow_reserved };
        let pairs = query("q", style, &Value::from(value.as_str()));
        let decoded = percent_decode_str(pairs[0].strip_prefix("q=").unwrap()).decode_utf8_lossy();
        // With `allowReserved`, encoded octets in the value are kept. They may be no UTF-8.
        prop_assert!(decoded == value || (allow_reserved && value.contains('%')));
    }
}
