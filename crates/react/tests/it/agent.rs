//! Runs of an agent with native calls, by what a user sees.

use haft_core::{Agent as _, testing::ScriptedModel};
use haft_react::ReactAgent;

use crate::tools::calculator;

#[tokio::test]
async fn an_agent_calls_a_tool_and_answers() {
    let model = ScriptedModel::new().calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).text("It is 42.");
    let agent = ReactAgent::new(model, calculator()).unwrap();

    let answer = agent.run("What is 17 plus 25?".into()).await.unwrap().into_answer().unwrap();

    assert_eq!(answer.text, "It is 42.");
    assert_eq!(answer.steps.len(), 1);
    assert_eq!(answer.steps[0].result.model_text(), "42");
}
