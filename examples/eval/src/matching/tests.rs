use serde_json::{Value, json};

use super::{MadeCall, are_calls_right, is_answer_right, is_right_call};
use crate::cases::{Case, CaseFile};

fn case(calls: Value, answer: Value) -> Case {
    let case = json!({"id": "1", "group": "one_call", "tools": [], "question": "?", "calls": calls, "answer": answer});
    serde_json::from_value(case).unwrap()
}

fn made(tool: &str, arguments: Value, reply: usize) -> MadeCall {
    MadeCall { tool: tool.to_owned(), arguments, reply }
}

/// The second call needs the result of the first.
fn dependent_case() -> Case {
    case(
        json!([
            {"tool": "find", "arguments": {"name": ["Ada Lovelace"]}, "result": "id 7"},
            {"tool": "show", "arguments": {"id": [7], "color": ["red", null]}, "result": "shown", "after": [0]},
        ]),
        json!([]),
    )
}

#[test]
fn values_are_compared_by_meaning() {
    let expected = dependent_case().calls;
    assert!(is_right_call(&expected[0], "find", &json!({"name": "ada lovelace."})));
    assert!(is_right_call(&expected[1], "show", &json!({"id": 7.0})));
    assert!(is_right_call(&expected[1], "show", &json!({"id": 7, "color": "Red"})));
    assert!(!is_right_call(&expected[1], "show", &json!({"id": 7, "color": "blue"})));
    assert!(!is_right_call(&expected[1], "show", &json!({"id": "7"})), "a string is not a number");
    assert!(!is_right_call(&expected[1], "show", &json!({"color": "red"})), "a required argument is missing");
    assert!(
        !is_right_call(&expected[1], "show", &json!({"id": 7, "size": 3})),
        "an argument is not expected"
    );
}

#[test]
fn dependent_call_must_be_in_a_later_reply() {
    let case = dependent_case();
    let calls = |second: usize| {
        [made("find", json!({"name": "Ada Lovelace"}), 1), made("show", json!({"id": 7}), second)]
    };
    assert!(are_calls_right(&case, &calls(3)));
    assert!(!are_calls_right(&case, &calls(1)));
}

#[test]
fn missing_and_further_calls_are_wrong() {
    let case = dependent_case();
    let find = || made("find", json!({"name": "Ada Lovelace"}), 1);
    assert!(!are_calls_right(&case, &[find()]));
    assert!(!are_calls_right(&case, &[find(), made("show", json!({"id": 7}), 3), find()]));
}

#[test]
fn answer_needs_a_text_of_each_group() {
    let case = case(json!([]), json!([["1200", "twelve hundred"], ["euro"]]));
    assert!(is_answer_right(&case, "It costs 1,200 Euros."));
    assert!(!is_answer_right(&case, "It costs 1,200 dollars."));
}

#[test]
fn all_cases_are_complete() {
    let file = CaseFile::built_in().unwrap();
    for case in &file.cases {
        let tools = file.tools(case).unwrap();
        for call in &case.calls {
            let tool = tools.iter().find(|tool| tool.name().as_str() == call.tool);
            let tool = tool.unwrap_or_else(|| panic!("{}: {} is not offered", case.id, call.tool));
            let schema = tool.input_schema();
            for property in schema.properties() {
                let is_listed = call.arguments.contains_key(property.name);
                assert!(is_listed || !property.is_required, "{}: {} is required", case.id, property.name);
            }
            let is_known = |name: &String| schema.properties().any(|property| property.name == name);
            assert!(call.arguments.keys().all(is_known), "{}: an argument is not in the schema", case.id);
        }
    }
}
