use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    count: u8,
    rest: Value,
}

#[test]
fn float_without_a_fraction_is_an_integer() {
    let order: Order = deserialize(json!({"count": 3.0, "rest": 1})).unwrap();
    assert_eq!(order.count, 3);
    assert_eq!(deserialize::<i64>(json!(-9_007_199_254_740_991.0)), Ok(-9_007_199_254_740_991));
    for rejected in [json!(3.5), json!(9_007_199_254_740_992.0), json!(1e300), json!("3")] {
        assert!(deserialize::<i64>(rejected.clone()).is_err(), "{rejected}");
    }
}

#[test]
fn float_in_a_field_for_any_value_stays_a_float() {
    let order: Order = deserialize(json!({"count": 3, "rest": 2.0})).unwrap();
    assert_eq!(order.rest, json!(2.0));
}

/// An error has the JSON pointer of the value that the type rejects.
#[test]
fn mismatch_names_the_rejected_value() {
    let error = deserialize::<BTreeMap<String, Vec<Order>>>(json!({"a/b": [{"count": 300, "rest": 1}]}));
    assert_eq!(error.unwrap_err().to_string(), "/a~1b/0/count: invalid value: integer `300`, expected u8");
    let error = deserialize::<Order>(json!({"count": 1})).unwrap_err();
    assert_eq!((&*error.pointer, &*error.to_string()), ("", "/: missing field `rest`"));
}
