//! The quickstart on a model with a script, in place of one that must be fetched.

include!("../src/main.rs");

#[tokio::test]
async fn the_quickstart_answers() -> Result<(), Box<dyn std::error::Error>> {
    let script = haft_core::testing::ScriptedModel::new();
    let model = script.calls([("call_1", "add", r#"{"a":17,"b":25}"#)]).text("It is 42.");
    let agent = ReactAgent::new(model, Toolset::new().with(Add))?;
    let output = agent.run("What is 17 plus 25?".into()).await?;
    assert_eq!(output.text(), "It is 42.");
    assert_eq!(
        output.results_of("add").next().map(|sum| sum.model_text().into_owned()).as_deref(),
        Some("42")
    );
    Ok(())
}
