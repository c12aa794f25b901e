use std::{sync::Arc, time::Duration};

use haft_core::model::ChatResponse;
use haft_testing::ScriptedModel;

use serde_json::{Value, json};

use super::{RunRecord, Score, is_passed};
use crate::{
    Dialect, agent, ask,
    case::{CASES, TWO_STEPS},
};

/// The tool name, the arguments and the answer that a perfect model gives to each question.
const PERFECT: [(&str, &str, &str); 9] = [
    ("add", r#"{"a":17,"b":25}"#, "17 plus 25 is 42."),
    ("add", r#"{"a":3.5,"b":4}"#, "That is 7.5."),
    ("add", r#"{"a":-8,"b":100.0}"#, "The sum is 92."),
    ("get_current_datetime", "{}", "It is 09:26 UTC."),
    ("get_current_datetime", r#"{"timezone":"Asia/Tokyo"}"#, "In Tokyo it is 2027-03-14, 18:26."),
    ("get_current_datetime", r#"{"timezone":"Europe/Paris"}"#, "Today is March 14, 2027."),
    ("search_files", r#"{"directory":"src/","pattern":"*.rs"}"#, "There are src/main.rs and src/parser.rs."),
    ("search_files", r#"{"directory":"/home/user/docs","pattern":"*.md"}"#, "notes.md and todo.md"),
    ("search_files", r#"{"directory":"/var/log","pattern":"*.log","max_results":5}"#, "boot.log, kernel.log"),
];

/// Scores the runs of a scripted model on all questions. `plan` contains its tool name, arguments
/// and answer for each question.
async fn scores(plan: [(&'static str, &'static str, &'static str); 9]) -> Vec<Score> {
    let model = plan.iter().fold(ScriptedModel::new(), |model, (tool, arguments, answer)| {
        model.reply_calls([("call_1", *tool, *arguments)]).reply(ChatResponse::new(*answer))
    });
    let agent = agent(Arc::new(model), Dialect::Auto).unwrap();
    let mut scores = Vec::new();
    for case in &CASES {
        scores.push(ask(&agent, case).await);
    }
    scores
}

#[tokio::test]
async fn perfect_model_passes() {
    let scores = scores(PERFECT).await;
    for score in &scores {
        assert!(
            score.has_right_tool && score.has_right_arguments && score.has_right_answer,
            "{}",
            score.summary
        );
    }
    assert!(is_passed(&scores));
}

#[tokio::test]
async fn one_wrong_answer_passes_and_two_do_not() {
    let mut plan = PERFECT;
    plan[0].2 = "17 plus 25 is 43.";
    assert!(is_passed(&scores(plan).await));
    plan[1].2 = "I do not know.";
    assert!(!is_passed(&scores(plan).await));
}

#[tokio::test]
async fn wrong_tool_or_arguments_do_not_pass() {
    let mut plan = PERFECT;
    plan[3] = ("search_files", r#"{"directory":".","pattern":"*"}"#, "It is 09:26.");
    let wrong_tool = scores(plan).await;
    assert!(!wrong_tool[3].has_right_tool && !is_passed(&wrong_tool));

    let mut plan = PERFECT;
    plan[8].1 = r#"{"directory":"/var/log","pattern":"*.log"}"#;
    let wrong_arguments = scores(plan).await;
    assert!(
        wrong_arguments[8].has_right_tool
            && !wrong_arguments[8].has_right_arguments
            && !is_passed(&wrong_arguments)
    );
}

#[tokio::test]
async fn failed_run_counts_as_wrong() {
    let model = ScriptedModel::new().fail(haft_core::model::ModelError::Unauthorized("no key".to_owned()));
    let agent = agent(Arc::new(model), Dialect::Auto).unwrap();
    let score = ask(&agent, &CASES[0]).await;
    assert!(!score.has_right_tool && !score.has_right_answer && score.took > Duration::ZERO);
}

fn scored(calls: [(&str, Value); 2], answer: &str) -> [bool; 3] {
    let calls = calls.map(|(tool, arguments)| (tool.to_owned(), arguments)).into();
    let record = RunRecord { calls, answer: Ok(answer.to_owned()), ..RunRecord::default() };
    let score = Score::of(&TWO_STEPS[0], record, Duration::ZERO);
    [score.has_right_tool, score.has_right_arguments, score.has_right_answer]
}

#[test]
fn two_calls_match_once_each_in_any_order() {
    let first = || ("add", json!({"a": 17, "b": 25}));
    let second = || ("add", json!({"a": 42, "b": 100}));
    assert_eq!(scored([first(), second()], "It is 142."), [true, true, true]);
    assert_eq!(scored([second(), first()], "It is 142."), [true, true, true]);
    assert_eq!(scored([first(), first()], "It is 84."), [true, false, false]);
    assert_eq!(scored([first(), ("search_files", json!({}))], "142"), [false, false, true]);
}
