//! Agents on models that something stands around.

use haft_core::{
    Agent as _, AgentErrorKind, ChatModelExt as _, ModelError, ModelProfile, StopReason,
    testing::ScriptedModel,
};
use haft_react::ReactAgent;

use crate::tools::calculator;

fn down() -> ModelError {
    ModelError::Server { status: Some(503), body: "down".to_owned(), retry_after: None }
}

/// What both understand is spoken: neither calls functions in its own way where one of them cannot.
#[tokio::test]
async fn a_fallback_without_native_tools_is_asked_in_words_that_it_knows() {
    let plain = ModelProfile { native_tools: false, json_schema: false, ..ModelProfile::new("plain") };
    let call = "Thought: I add.\nAction: add\nAction Input: {\"x\": 17, \"y\": 25}";
    let plain = ScriptedModel::new().with_profile(plain).text(call);
    let first = ScriptedModel::new().fail(down()).text("Thought: That is it.\nFinal Answer: It is 42.");
    let agent = ReactAgent::new(first.clone().with_fallback(plain.clone()), calculator()).unwrap();
    let answer = agent.run("What is 17 plus 25?".into()).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), ("It is 42.", 1));
    let requests = [&first.requests()[0], &plain.requests()[0]];
    assert!(requests.iter().all(|request| request.tools.is_empty() && request.instructions.is_some()));
}

/// What a run makes good with one model, it makes good with several.
#[tokio::test]
async fn what_the_last_of_several_models_said_decides_what_a_run_does() {
    let empty = || ModelError::EmptyResponse;
    let model = ScriptedModel::new().fail(down()).text("Hello.");
    let agent =
        ReactAgent::new(model.with_fallback(ScriptedModel::new().fail(empty())), calculator()).unwrap();
    assert_eq!(agent.run("Hi".into()).await.unwrap().text(), "Hello.");

    let long = ModelError::ContextTooLong("too many tokens".to_owned());
    let calls = [("a", "add", r#"{"x":1,"y":1}"#)];
    let model = ScriptedModel::new().calls(calls).calls(calls).fail(down()).text("Done.");
    let second = ScriptedModel::new().fail(long);
    let agent = ReactAgent::new(model.clone().with_fallback(second.clone()), calculator()).unwrap();
    let answer = agent.run("Add.".into()).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.stop_reason, StopReason::Finished);
    assert_eq!([&model.requests()[2], &model.requests()[3]].map(|request| request.messages.len()), [5, 3]);

    let both = || ScriptedModel::new().fail(down());
    let agent = ReactAgent::new(both().with_fallback(both()), calculator()).unwrap();
    let error = agent.run("Hi".into()).await.unwrap_err();
    let AgentErrorKind::Model(ModelError::NoneReplied { failures }) = *error.kind else {
        panic!("{error:?}")
    };
    assert_eq!((failures.len(), error.usage.requests), (2, 1));
}
