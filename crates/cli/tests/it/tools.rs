use crate::{Ended, child, haft};

#[test]
fn the_tools_are_listed_with_what_they_take() {
    let listed = Ended::of(haft(["tools"]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(
        listed.stdout.starts_with("get_current_datetime\n  Tells the current date and time"),
        "{}",
        listed.stdout
    );
    assert!(listed.stdout.contains(r#"    timezone: string = "UTC"  The time zone"#), "{}", listed.stdout);
    assert!(!listed.stdout.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn in_json_a_tool_is_a_line_with_its_schemas() {
    let listed = Ended::of(haft(["tools", "--json"])).json_lines();
    let names: Vec<_> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_current_datetime", "calculator"]);
    assert_eq!(listed[1]["input_schema"]["required"][0], "expression");
    assert_eq!(listed[1]["output_schema"]["properties"]["exact"]["type"], "boolean");
}

#[test]
fn the_tools_of_servers_are_listed_too() {
    let (_folder, path) = child::mcp_json();
    let listed = Ended::of(haft(["tools", "--mcp", path.to_str().unwrap()]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(
        listed.stdout.contains("weather\n  Tells the weather of a city.\n    city: string  The city."),
        "{}",
        listed.stdout
    );
}

/// Behaviour F49: a server that does not start costs its own tools, and is told with its reason.
#[test]
fn a_server_that_does_not_start_is_told_and_the_others_are_listed() {
    let (_folder, path) =
        child::write_mcp_json(r#"{"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}"#);
    let listed = Ended::of(haft(["tools", "--mcp", path.to_str().unwrap(), "--json"]));
    listed.assert_failed(1, "no-such-program-anywhere");
    let lines = listed.json_lines();
    assert_eq!(lines[1]["name"], "calculator");
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "error");
    assert!(last["message"].as_str().unwrap().contains("mcp:gone"), "{last}");
}

/// Behaviour A66, for any source.
#[test]
fn what_a_model_will_miss_is_told() {
    let well = Ended::of(haft(["tools", "--check"]));
    assert_eq!((well.code, &*well.stdout), (Some(0), "a model will miss nothing in the 2 tools\n"));

    let (_folder, path) = child::mcp_json();
    let told = Ended::of(haft(["tools", "--check", "--json", "--mcp", path.to_str().unwrap()]));
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    let lines = told.json_lines();
    assert_eq!(lines[0]["tool"], "weather");
}
