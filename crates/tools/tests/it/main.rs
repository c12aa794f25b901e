//! Tests of the built-in tools. The tools are called through the pipeline, as in an agent.

use expect_test::expect;
use haft_core::{Timestamp, ToolContext, call::FailureKind};
use haft_tools::{BuiltinConfig, Clock, builtin};
use serde_json::{Value, json};

async fn call(tool: &str, arguments: Value) -> Value {
    let clock = Clock::fixed(Timestamp::from_unix_millis(1_795_253_400_000));
    let cx = ToolContext::default().with_state(clock);
    builtin(&BuiltinConfig::default()).call_with(tool, arguments, &cx).await.to_json()
}

#[tokio::test]
async fn datetime_defaults_to_utc_and_iso() {
    let expected = json!({ "datetime": "2026-11-21T09:30:00+00:00", "format": "iso", "timezone": "UTC" });
    assert_eq!(call("get_current_datetime", json!({})).await["result"], expected);
    let expected = json!({ "datetime": "18:30:00", "format": "time", "timezone": "Asia/Tokyo" });
    let arguments = json!({ "format": "time", "timezone": "Asia/Tokyo" });
    assert_eq!(call("get_current_datetime", arguments).await["result"], expected);
}

/// The error for an invalid enum value lists the valid values, so a model can correct its call.
#[tokio::test]
async fn unknown_format_lists_the_formats() {
    let result =
        builtin(&BuiltinConfig::default()).call("get_current_datetime", json!({ "format": "epoch" })).await;
    let failure = result.into_output().expect_err("the format is unknown");
    assert_eq!(failure.kind, FailureKind::InvalidArguments);
    for format in ["iso", "rfc2822", "unix", "date", "time"] {
        assert!(failure.message.contains(format), "{}", failure.message);
    }
}

#[tokio::test]
async fn errors_contain_a_remedy() {
    let failed = call("get_current_datetime", json!({ "timezone": "Asia/Tokio" })).await;
    assert_eq!(failed["success"], false);
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("Asia/Tokyo")), "{failed}");
    let failed = call("calculator", json!({ "expression": "1/0" })).await;
    assert_eq!(failed["error"], "division by zero in `1/0`");
}

#[tokio::test]
async fn disabled_tool_is_omitted() {
    assert_eq!(builtin(&BuiltinConfig::default()).names().await, ["get_current_datetime", "calculator"]);
    let config: BuiltinConfig =
        serde_json::from_value(json!({ "datetime": false })).expect("a configuration");
    assert_eq!(builtin(&config).names().await, ["calculator"]);
    let unknown = serde_json::from_value::<BuiltinConfig>(json!({ "shell": true }));
    assert!(unknown.is_err(), "unknown keys are rejected");
}

#[tokio::test]
async fn definitions_of_the_tools() {
    let mut lines = String::new();
    for name in ["get_current_datetime", "calculator"] {
        let tool = builtin(&BuiltinConfig::default()).get(name).await.expect("a tool");
        lines += &format!("{}\n", serde_json::to_string_pretty(tool.definition()).expect("JSON"));
    }
    expect![[r#"
        {
          "name": "get_current_datetime",
          "description": "Tells the current date and time, in any time zone.",
          "input_schema": {
            "type": "object",
            "properties": {
              "format": {
                "description": "Format: in full by ISO 8601, as in mail, seconds since 1970, or the date or the time alone.",
                "type": "string",
                "enum": [
                  "iso",
                  "rfc2822",
                  "unix",
                  "date",
                  "time"
                ],
                "default": "iso"
              },
              "timezone": {
                "type": "string",
                "description": "The time zone, as the IANA database names it, such as `Asia/Tokyo`.",
                "default": "UTC"
              }
            },
            "additionalProperties": false
          },
          "output_schema": {
            "type": "object",
            "properties": {
              "datetime": {
                "type": "string",
                "description": "The date and time."
              },
              "format": {
                "description": "The format of `datetime`.",
                "type": "string",
                "enum": [
                  "iso",
                  "rfc2822",
                  "unix",
                  "date",
                  "time"
                ]
              },
              "timezone": {
                "type": "string",
                "description": "The name of the time zone in the IANA database."
              }
            },
            "required": [
              "datetime",
              "format",
              "timezone"
            ],
            "description": "A date and time with its format and time zone."
          }
        }
        {
          "name": "calculator",
          "description": "Works out an arithmetic expression with + - * / % ^ ! and functions such as sqrt, and tells the result.",
          "input_schema": {
            "type": "object",
            "properties": {
              "expression": {
                "type": "string",
                "description": "The expression, in numbers. `%` is the remainder of a division, and angles are in radians."
              }
            },
            "required": [
              "expression"
            ],
            "additionalProperties": false
          },
          "output_schema": {
            "type": "object",
            "properties": {
              "result": {
                "type": "string",
                "description": "The number as text, so that no digit is lost. Rounded numbers may have an exponent."
              },
              "exact": {
                "type": "boolean",
                "description": "`true` if the value is exact, `false` if it is rounded to 18 digits."
              }
            },
            "required": [
              "result",
              "exact"
            ],
            "description": "The result of an expression."
          },
          "annotations": {
            "idempotent": true
          }
        }
    "#]].assert_eq(&lines);
}
