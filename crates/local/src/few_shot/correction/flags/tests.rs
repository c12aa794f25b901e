use serde_json::json;

use super::*;

fn flagged(description: &str, need: &str, arguments: &Value) -> Value {
    let flag = json!({"type": "boolean", "description": description, "default": true});
    let schema = Schema::new(json!({"type": "object", "properties": {"sample": flag}})).unwrap();
    let mut arguments = arguments.as_object().unwrap().clone();
    set_described_flags(&schema, &mut arguments, "deviation", need);
    Value::Object(arguments)
}

#[test]
fn a_case_in_the_need_sets_the_flag() {
    let off = json!({"sample": false});
    for description in [
        "true: sample deviation (n-1); false: population deviation (n). Default: true",
        "True for a sample, false for a population.",
        "false = population; true = sample",
    ] {
        assert_eq!(flagged(description, "The population deviation of 1, 2", &json!({})), off);
        assert_eq!(flagged(description, "The sample deviation", &off), json!({"sample": true}));
        for need in [
            "The deviation of 1, 2",
            "The deviation of a sample of the population",
            "The deviation, but not of the population",
        ] {
            assert_eq!(flagged(description, need, &json!({})), json!({}), "{description}, {need}");
        }
    }
}

#[test]
fn a_description_without_cases_changes_nothing() {
    for description in [
        "Whether it is a population.",
        "true: the population",
        "True or false for people",
        "true: numbers from everywhere; false: only the people directly in the given population",
    ] {
        assert_eq!(flagged(description, "The population", &json!({})), json!({}), "{description}");
    }
}
