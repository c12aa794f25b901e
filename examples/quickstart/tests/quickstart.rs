//! Tests of the quickstart with a scripted model, so that no model is downloaded.

include!("../src/main.rs");

#[tokio::test]
async fn quickstart_answers() -> Result<(), Box<dyn std::error::Error>> {
    let script = haft_testing::ScriptedModel::new();
    let model = script.reply_calls([("call_1", "add", r#"{"a":17,"b":25}"#)]).reply_text("It is 42.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Add))?;
    let output = agent.run("What is 17 plus 25?").await?;
    assert_eq!(output.text()?, "It is 42.");
    assert_eq!(
        output.results_of("add").next().map(|sum| sum.model_text().into_owned()).as_deref(),
        Some("42")
    );
    Ok(())
}

/// Rust prints the `Debug` form of an error that `main` returns. For a missing model, this text
/// must be readable and contain a remedy.
#[test]
fn missing_model_is_reported_with_the_remedy() -> std::io::Result<()> {
    let mut quickstart = std::process::Command::new(env!("CARGO_BIN_EXE_quickstart"));
    let output = quickstart.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("Error: HAFT_MODEL names a file that cannot be used; unset it"), "{printed}");
    assert!(printed.contains("no model file at /no/such/model.gguf"), "{printed}");
    Ok(())
}
