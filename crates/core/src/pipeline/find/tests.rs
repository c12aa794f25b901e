use expect_test::{Expect, expect};

use super::*;
use crate::{
    schema::Schema,
    tool::{DynamicTool, ToolDefinition},
};

fn tool_list(names: &[&str]) -> ToolList {
    let definition = |name: &&str| ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
    let tools = names.iter().map(|name| DynamicTool::new(definition(name), |_, _| async {}));
    let list = ToolList::new("test", tools);
    assert_eq!((list.len(), list.diagnostics()), (names.len(), &[][..]));
    list
}

fn check_suggestions(tools: &[&str], names: &[&str], expected: &Expect) {
    let tools = tool_list(tools);
    let lines =
        names.iter().map(|name| format!("{name} -> {}\n", similar_name(name, &tools).unwrap_or("(none)")));
    expected.assert_eq(&lines.collect::<String>());
}

/// The error for an unknown tool names the tool that the model meant, also for another case, a
/// namespace or a part of the name.
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
        functions.get_weather -> get_weather
        default_api:get_weather -> get_weather
        default_api::get_weather -> get_weather
        tools/get_weather -> get_weather
        mcp__server__get_weather -> get_weather
        getWeather -> get_weather
        functions.getWeather -> get_weather
        GetWeather -> get_weather
        Get_Weather -> get_weather
        get-weather -> get_weather
        get weather -> get_weather
        get_weather() -> get_weather
        GET_WEATHER -> get_weather
        getweather -> get_weather
        weather -> get_weather
        Weather -> get_weather
        functions.weather -> get_weather
        get_wether -> get_weather
        get_weather_data -> get_weather
        serch -> search
        web_search.search -> search
        file -> read_file
    "#]];
    check_suggestions(&["add", "get_weather", "search", "read_file"], &names, &expected);
}

/// A name that could mean several tools, or none, has no suggestion.
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

/// The name with the highest similarity is rejected for its edit distance. A name that passes both
/// thresholds is suggested.
#[test]
fn suggestion_satisfies_both_thresholds() {
    let expected = expect![[r#"
        list_file -> ls_file
    "#]];
    check_suggestions(&["list_directory", "ls_file"], &["list_file"], &expected);
}
