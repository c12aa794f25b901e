use super::{is_tool_name, pascal_case};

#[test]
fn type_names_are_pascal_case() {
    for (function, tool) in [
        ("add", "Add"),
        ("get_weather", "GetWeather"),
        ("_hidden__twice_", "HiddenTwice"),
        ("get_2d_map", "Get2dMap"),
        ("_2", "Tool2"),
        ("__", "Tool"),
        ("größe_ändern", "GrößeÄndern"),
    ] {
        assert_eq!(pascal_case(function), tool);
    }
}

#[test]
fn tool_names_have_at_most_64_ascii_characters() {
    assert!(is_tool_name("get-weather_2"));
    assert!(is_tool_name(&"a".repeat(64)));
    assert!(!is_tool_name(&"a".repeat(65)));
    assert!(!is_tool_name(""));
    assert!(!is_tool_name("get.weather"));
    assert!(!is_tool_name("größe"));
}
