use super::*;

/// Returns the argument `alpha` with the description `description` that `need` adds.
fn added(description: &str, need: &str) -> Value {
    let alpha = json!({"type": "number", "description": description});
    let schema = Schema::new(json!({"type": "object", "properties": {"alpha": alpha}})).unwrap();
    let mut arguments = Map::new();
    add_named_number(&schema, &mut arguments, need);
    Value::Object(arguments)
}

#[test]
fn the_description_is_another_name_of_a_number() {
    let fraction = "Significance level as a fraction (default 0.05)";
    for need in ["at the 1% significance level", "at the one percent significance level"] {
        assert_eq!(added(fraction, need), json!({"alpha": 0.01}), "{need}");
        assert_eq!(added("Significance level in percent (0-100)", need), json!({"alpha": 1}), "{need}");
        assert_eq!(added("Significance level", need), json!({}), "{need}");
    }
    assert_eq!(added("Opening angle, in degrees", "with an opening angle of 30"), json!({"alpha": 30}));
    assert_eq!(added("Angle in degrees", "an angle of 30"), json!({}), "a single word is ambiguous");
    assert_eq!(added(fraction, "a 2% and a 1% significance level, or a 3% significance level"), json!({}));
}
