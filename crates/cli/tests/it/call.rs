use serde_json::json;

use crate::{Ended, child, haft};

#[test]
fn a_call_writes_what_a_model_would_read() {
    let called = Ended::of(haft(["call", "calculator", r#"{"expression": "2 * (3 + 4)"}"#]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "{\"result\":\"14\",\"exact\":true}\n"));
}

/// Behaviour B71.
#[test]
fn in_json_a_result_has_its_one_form() {
    let called = Ended::of(haft(["call", "calculator", r#"{"expression": "2 * (3 + 4)"}"#, "--json"]));
    let result = json!({ "result": "14", "exact": true });
    assert_eq!(
        called.json_lines(),
        [json!({ "success": true, "result": result, "error": null, "warning": null })]
    );

    let failed = Ended::of(haft(["call", "calculator", r#"{"expression": "1 / 0"}"#, "--json"]));
    let error = "division by zero in `1 / 0`";
    assert_eq!(
        failed.json_lines(),
        [json!({ "success": false, "result": null, "error": error, "warning": null })]
    );
    assert_eq!(failed.code, Some(1));
}

/// A program reads the value that the tool gave, and a terminal nothing that would control it.
#[test]
fn in_json_a_value_stays_as_it_is() {
    let city = "\u{7f}\u{1b}[31mOslo\u{9b}0m";
    let (_folder, path) = child::mcp_json();
    let arguments = json!({ "city": city }).to_string();
    let called = Ended::of(haft(["call", "weather", &arguments, "--json", "--mcp", path.to_str().unwrap()]));
    assert_eq!(called.json_lines()[0]["result"], format!("It rains in {city}."), "{}", called.stderr);
    assert!(!called.stdout.trim_end().contains(char::is_control), "{:?}", called.stdout);
}

/// Behaviour B15: a repair is told.
#[test]
fn arguments_are_repaired_as_those_of_a_model() {
    let called = Ended::of(haft(["call", "calculator", r#"{"args": {"expression": "1 + 1"}}"#]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "{\"result\":\"2\",\"exact\":true}\n"));
    assert!(called.stderr.contains("repaired"), "{}", called.stderr);
}

#[test]
fn a_tool_of_a_server_is_called() {
    let (_folder, path) = child::mcp_json();
    let called = Ended::of(haft(["call", "weather", r#"{"city": "Oslo"}"#, "--mcp", path.to_str().unwrap()]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "It rains in Oslo.\n"), "{}", called.stderr);
}

/// Behaviour F52, Behaviour X3: a server does not see the key.
#[test]
fn a_server_does_not_see_the_key_of_its_parent() {
    let (_folder, path) = child::mcp_json();
    let mut command = haft(["call", "key", "--mcp", path.to_str().unwrap()]);
    command.env("OPENAI_API_KEY", "sk-canary");
    assert_eq!(Ended::of(command).stdout, "no key\n");
}

#[test]
fn an_unknown_tool_is_wrong_usage_and_the_closest_is_named() {
    let failed = Ended::of(haft(["call", "calculatr"]));
    failed.assert_failed(2, "unknown tool \"calculatr\"; did you mean \"calculator\"?");
    let failed = Ended::of(haft(["call", "calculatr", "--json"]));
    assert_eq!((failed.code, &failed.json_lines()[0]["success"]), (Some(2), &json!(false)));
}

#[test]
fn arguments_that_do_not_fit_say_what_would() {
    let failed = Ended::of(haft(["call", "calculator", r#"{"expresion": "1"}"#]));
    failed.assert_failed(1, "expression");
    Ended::of(haft(["call", "calculator", "{1"])).assert_failed(1, "not JSON");
}
