//! Examples of tool names. Property tests for arbitrary names are in the package `fuzz`.

use super::*;

/// Any name is converted to a valid, readable tool name of at most 64 characters. A long name is
/// shortened and gets a hash.
#[test]
fn foreign_names_stay_readable() {
    assert_eq!(ToolName::sanitize("search-a").as_str(), "search-a");
    assert_eq!(ToolName::sanitize("search_a").as_str(), "search_a");
    assert!(ToolName::sanitize("my server!_get.weather").as_str().starts_with("my_server__get_weather_"));
    let long = "x".repeat(128);
    assert_eq!(ToolName::sanitize(&long).as_str().len(), 64);
    assert_ne!(ToolName::sanitize(&long), ToolName::sanitize(&"x".repeat(129)));
    assert!(ToolName::sanitize("").as_str().starts_with("tool_"));
    assert!(ToolName::sanitize("天気").as_str().starts_with("tool_"));
}

/// A converted name must not change between versions, because saved runs and approvals contain it.
#[test]
fn converted_name_is_stable() {
    assert_eq!(ToolName::sanitize("get.weather").as_str(), "get_weather_f65d43288143");
}

/// A server must not be able to imitate a tool of another server by listing a tool under the
/// converted name of that tool.
#[test]
fn valid_name_with_a_hash_suffix_is_mapped() {
    let mapped = ToolName::sanitize("get.weather");
    assert_ne!(ToolName::sanitize(mapped.as_str()), mapped);
}

#[test]
fn invalid_name_is_rejected_with_the_rule() {
    let error = ToolName::new("get.weather").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""get.weather" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
    );
    assert!(ToolName::new("").is_err());
    assert!(ToolName::new("x".repeat(65)).is_err());
    assert!(serde_json::from_str::<ToolName>(r#""a b""#).is_err());
}
