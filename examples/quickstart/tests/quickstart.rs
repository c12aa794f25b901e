//! The quickstart on a model with a script, in place of one that must be fetched.

include!("../src/main.rs");

#[tokio::test]
async fn the_quickstart_answers() -> Result<(), Box<dyn std::error::Error>> {
    let script = haft_testing::ScriptedModel::new();
    let model = script.calls([("call_1", "add", r#"{"a":17,"b":25}"#)]).text("It is 42.");
    let agent = ReactAgent::new(model, Toolset::new().with(Add))?;
    let output = agent.run("What is 17 plus 25?").await?;
    assert_eq!(output.text()?, "It is 42.");
    assert_eq!(
        output.results_of("add").next().map(|sum| sum.model_text().into_owned()).as_deref(),
        Some("42")
    );
    Ok(())
}

/// `main` returns the error: it must be fit for people where it is printed as it is for programmers.
#[test]
fn a_model_that_is_not_there_is_told_with_what_to_do() -> std::io::Result<()> {
    let mut quickstart = std::process::Command::new(env!("CARGO_BIN_EXE_quickstart"));
    let output = quickstart.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("Error: HAFT_MODEL names a file that cannot be used; unset it"), "{told}");
    assert!(told.contains("no model file at /no/such/model.gguf"), "{told}");
    Ok(())
}
