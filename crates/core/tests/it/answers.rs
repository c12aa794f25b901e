//! Tests of typed answers.

use expect_test::expect;
use haft_core::{
    agent::{RunAnswer, StopReason},
    message::Transcript,
    usage::Usage,
};
use serde::Deserialize;
use serde_json::Map;

/// The error contains the name of the requested type. Its type arguments are complete.
#[tokio::test]
async fn parse_error_names_a_generic_type() {
    #[derive(Deserialize)]
    struct Person {
        #[serde(rename = "age")]
        _age: u8,
    }
    let answer = RunAnswer {
        text: String::new(),
        outputs: Map::new(),
        value: None,
        steps: Vec::new(),
        usage: Usage::default(),
        stop_reason: StopReason::Finished,
        agent: None,
        guardrails: Vec::new(),
        transcript: Transcript::default(),
    };
    expect!["Person"].assert_eq(answer.parse::<Person>().map(drop).unwrap_err().expected);
    expect!["Vec<(bool, core::net::ip_addr::IpAddr)>"]
        .assert_eq(answer.parse::<Vec<(bool, std::net::IpAddr)>>().unwrap_err().expected);
    expect!["(u8, alloc::string::String)"].assert_eq(answer.parse::<(u8, String)>().unwrap_err().expected);
    expect!["[u8; 2]"].assert_eq(answer.parse::<[u8; 2]>().unwrap_err().expected);
}
