use crate::{CommandOutput, child, haft};

#[test]
fn tools_are_listed_with_their_arguments() {
    let listed = CommandOutput::run(haft(["tools"]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(
        listed.stdout.starts_with("get_current_datetime\n  Tells the current date and time"),
        "{}",
        listed.stdout
    );
    assert!(listed.stdout.contains(r#"    timezone: string = "UTC"  The time zone"#), "{}", listed.stdout);
    assert!(!listed.stdout.contains('\u{1b}'), "no colours without a terminal");
}

#[test]
fn json_has_one_tool_per_line_with_its_schemas() {
    let listed = CommandOutput::run(haft(["tools", "--json"])).json_lines();
    let names: Vec<_> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_current_datetime", "calculator"]);
    assert_eq!(listed[1]["input_schema"]["required"][0], "expression");
    assert_eq!(listed[1]["output_schema"]["properties"]["exact"]["type"], "boolean");
}

#[test]
fn tools_of_servers_are_listed() {
    let (_folder, path) = child::write_weather_mcp_json();
    let listed = CommandOutput::run(haft(["tools", "--mcp", path.to_str().unwrap()]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(
        listed.stdout.contains("weather\n  Returns the weather of a city.\n    city: string  The city."),
        "{}",
        listed.stdout
    );
}

/// If an MCP server fails to start, its error is reported, and the tools from other sources are
/// listed.
#[test]
fn failed_server_is_reported_and_other_tools_are_listed() {
    let (_folder, path) =
        child::write_mcp_json(r#"{"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}"#);
    let listed = CommandOutput::run(haft(["tools", "--mcp", path.to_str().unwrap(), "--json"]));
    listed.assert_failed(1, "no-such-program-anywhere");
    let lines = listed.json_lines();
    assert_eq!(lines[1]["name"], "calculator");
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "error");
    assert!(last["message"].as_str().unwrap().contains("mcp:gone"), "{last}");
}

/// `--check` lints the built-in tools and the tools of MCP servers, and reports incomplete
/// definitions.
#[test]
fn check_reports_incomplete_definitions() {
    let complete = CommandOutput::run(haft(["tools", "--check"]));
    assert_eq!((complete.code, &*complete.stdout), (Some(0), "2 tools checked, no findings\n"));

    let (_folder, path) = child::write_weather_mcp_json();
    let output = CommandOutput::run(haft(["tools", "--check", "--json", "--mcp", path.to_str().unwrap()]));
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let lines = output.json_lines();
    assert_eq!(lines[0]["tool"], "weather");
}
