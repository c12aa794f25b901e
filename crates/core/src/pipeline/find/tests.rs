use expect_test::{Expect, expect};

use super::*;
use crate::tool::tool_fn;

fn tool_list(names: &[&str]) -> ToolList {
    let tools = names.iter().map(|name| tool_fn(name, "", |_: serde_json::Value| async {}));
    ToolList::new("test", tools)
}

fn check_suggestions(tools: &[&str], names: &[&str], expected: &Expect) {
    let tools = tool_list(tools);
    let lines =
        names.iter().map(|name| format!("{name} -> {}\n", similar_name(name, &tools).unwrap_or("(none)")));
    expected.assert_eq(&lines.collect::<String>());
}

/// Behaviour B82: the error for an unknown tool names the tool that the model meant, also for
/// another case, a namespace or a part of the name.
#[test]
fn names_in_another_form_are_suggested() {
    let names = [
        "functions.get_weather",
        "default_api:get_weather",
        "default_api::get_weather",
        "tools/get_weather",
        "mcp__server__get_weather",
        "getWeather",
        "functions.getWeather",
        "GetWeather",
        "Get_Weather",
        "get-weather",
        "get weather",
        "get_weather()",
        "GET_WEATHER",
        "getweather",
        "weather",
        "Weather",
        "functions.weather",
        "get_wether",
        "get_weather_data",
        "serch",
        "web_search.search",
        "file",
    ];
    let expected = expect![[r#"
        functions.get_weather -> (none)
        default_api:get_weather -> (none)
        default_api::get_weather -> (none)
        tools/get_weather -> (none)
        mcp__server__get_weather -> (none)
        getWeather -> (none)
        functions.getWeather -> (none)
        GetWeather -> (none)
        Get_Weather -> (none)
        get-weather -> (none)
        get weather -> (none)
        get_weather() -> (none)
        GET_WEATHER -> (none)
        getweather -> (none)
        weather -> (none)
        Weather -> (none)
        functions.weather -> (none)
        get_wether -> (none)
        get_weather_data -> (none)
        serch -> (none)
        web_search.search -> (none)
        file -> (none)
    "#]];
    check_suggestions(&["add", "get_weather", "search", "read_file"], &names, &expected);
}

/// Behaviour B82: a name that could mean several tools, or none, has no suggestion.
#[test]
fn unrelated_and_ambiguous_names_have_no_suggestion() {
    let names = [
        "get",
        "file",
        "get_time",
        "weather_alert_for_all_cities",
        "functions",
        "functions.run",
        "python",
        "",
        ".",
        "__",
        "日本",
    ];
    let expected = expect![[r#"
        get -> (none)
        file -> (none)
        get_time -> (none)
        weather_alert_for_all_cities -> (none)
        functions -> (none)
        functions.run -> (none)
        python -> (none)
         -> (none)
        . -> (none)
        __ -> (none)
        日本 -> (none)
    "#]];
    check_suggestions(&["add", "get_weather", "read_file", "delete_file"], &names, &expected);
}
