use serde_json::json;

use crate::{CommandOutput, child, haft};

#[test]
fn call_writes_the_result_text() {
    let called = CommandOutput::run(haft(["call", "calculator", r#"{"expression": "2 * (3 + 4)"}"#]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "{\"result\":\"14\",\"exact\":true}\n"));
}

/// `haft call --json` writes the result of a successful or failed call as an object with the keys
/// `success`, `result`, `error` and `warning`.
#[test]
fn json_result_has_a_fixed_shape() {
    let called =
        CommandOutput::run(haft(["call", "calculator", r#"{"expression": "2 * (3 + 4)"}"#, "--json"]));
    let result = json!({ "result": "14", "exact": true });
    assert_eq!(
        called.json_lines(),
        [json!({ "success": true, "result": result, "error": null, "warning": null })]
    );

    let failed = CommandOutput::run(haft(["call", "calculator", r#"{"expression": "1 / 0"}"#, "--json"]));
    let error = "division by zero in `1 / 0`";
    assert_eq!(
        failed.json_lines(),
        [json!({ "success": false, "result": null, "error": error, "warning": null })]
    );
    assert_eq!(failed.code, Some(1));
}

/// Control characters in a result must be escaped as `\u…`. The parsed value is then unchanged, and
/// the terminal receives no escape sequence.
#[test]
fn json_escapes_control_characters() {
    let city = "\u{7f}\u{1b}[31mOslo\u{9b}0m";
    let (_folder, path) = child::write_weather_mcp_json();
    let arguments = json!({ "city": city }).to_string();
    let called =
        CommandOutput::run(haft(["call", "find", &arguments, "--json", "--mcp", path.to_str().unwrap()]));
    assert_eq!(called.json_lines()[0]["result"]["result"]["city"], city, "{}", called.stderr);
    assert!(!called.stdout.trim_end().contains(char::is_control), "{:?}", called.stdout);
}

/// Arguments inside an extra `args` object are repaired, with a warning on standard error.
#[test]
fn arguments_are_repaired_with_a_warning() {
    let called = CommandOutput::run(haft(["call", "calculator", r#"{"args": {"expression": "1 + 1"}}"#]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "{\"result\":\"2\",\"exact\":true}\n"));
    assert!(called.stderr.contains("repaired"), "{}", called.stderr);
}

#[test]
fn tool_of_a_server_is_called() {
    let (_folder, path) = child::write_weather_mcp_json();
    let called =
        CommandOutput::run(haft(["call", "weather", r#"{"city": "Oslo"}"#, "--mcp", path.to_str().unwrap()]));
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "It rains in Oslo.\n"), "{}", called.stderr);
}

/// An MCP server does not inherit the API key from the environment of `haft`.
#[test]
fn server_does_not_inherit_the_api_key() {
    let (_folder, path) = child::write_weather_mcp_json();
    let mut command = haft(["call", "key", "--mcp", path.to_str().unwrap()]);
    command.env("OPENAI_API_KEY", "sk-canary");
    assert_eq!(CommandOutput::run(command).stdout, "no key\n");
}

#[test]
fn unknown_tool_is_invalid_usage_with_a_suggestion() {
    let failed = CommandOutput::run(haft(["call", "calculatr"]));
    failed.assert_failed(2, "unknown tool \"calculatr\"; did you mean \"calculator\"?");
    let failed = CommandOutput::run(haft(["call", "calculatr", "--json"]));
    assert_eq!((failed.code, &failed.json_lines()[0]["success"]), (Some(2), &json!(false)));
}

#[test]
fn invalid_arguments_are_reported() {
    let failed = CommandOutput::run(haft(["call", "calculator", r#"{"expresion": "1"}"#]));
    failed.assert_failed(1, "expression");
    CommandOutput::run(haft(["call", "calculator", "{1"])).assert_failed(1, "not JSON");
}
