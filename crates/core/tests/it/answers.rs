//! Tests of typed answers.

use expect_test::expect;
use haft_core::{
    agent::{RunAnswer, StopReason},
    message::Transcript,
    usage::Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

fn answer(text: &str) -> RunAnswer {
    RunAnswer {
        text: text.to_owned(),
        outputs: Map::new(),
        value: None,
        steps: Vec::new(),
        usage: Usage::default(),
        stop_reason: StopReason::Finished,
        agent: None,
        guardrails: Vec::new(),
        transcript: Transcript::default(),
    }
}

/// A type that accepts every value is deserialized from the text if the answer has no outputs.
#[test]
fn permissive_type_is_parsed_from_the_text() {
    let answer = answer("Hi");
    assert_eq!(answer.parse::<Value>().unwrap(), json!("Hi"));
    assert_eq!(answer.parse::<Option<String>>().unwrap().as_deref(), Some("Hi"));
    let outputs = Map::from_iter([("n".to_owned(), json!(1))]);
    assert_eq!(RunAnswer { outputs, ..answer }.parse::<Value>().unwrap(), json!({"n": 1}));
}

/// A float without a fraction is an integer in JSON Schema, so it is parsed as one.
#[test]
fn whole_floats_are_parsed_as_integers() {
    let with_value = |value| RunAnswer { value: Some(value), ..answer("") };
    assert_eq!(with_value(json!(42.0)).parse::<i64>().unwrap(), 42);
    assert_eq!(with_value(json!([1.0, 2])).parse::<Vec<u8>>().unwrap(), [1, 2]);
    let thousand: Value = serde_json::from_str("1e3").unwrap();
    assert_eq!(with_value(thousand).parse::<u64>().unwrap(), 1000);
    assert_eq!(with_value(json!(42.0)).parse::<Value>().unwrap(), json!(42.0));
    assert!(with_value(json!(42.5)).parse::<i64>().is_err());
    let outputs = Map::from_iter([("n".to_owned(), json!(7.0))]);
    let parsed = RunAnswer { outputs, ..answer("") }.parse::<std::collections::HashMap<String, i64>>();
    assert_eq!(parsed.unwrap()["n"], 7);
}

/// The error contains the name of the requested type. Its type arguments are complete.
#[tokio::test]
async fn parse_error_names_a_generic_type() {
    #[derive(Deserialize)]
    struct Person {
        #[serde(rename = "age")]
        _age: u8,
    }
    let answer = answer("");
    expect!["Person"].assert_eq(answer.parse::<Person>().map(drop).unwrap_err().expected);
    expect!["Vec<(bool, core::net::ip_addr::IpAddr)>"]
        .assert_eq(answer.parse::<Vec<(bool, std::net::IpAddr)>>().unwrap_err().expected);
    expect!["(u8, alloc::string::String)"].assert_eq(answer.parse::<(u8, String)>().unwrap_err().expected);
    expect!["[u8; 2]"].assert_eq(answer.parse::<[u8; 2]>().unwrap_err().expected);
}
