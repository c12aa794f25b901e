//! The demo on a model with a script, with the real server as a child process.

use std::{error::Error, path::Path, process::Command};

use haft_core::model::ChatResponse;
use haft_testing::ScriptedModel;

#[tokio::test(flavor = "multi_thread")]
async fn functions_and_a_server_answer_together() -> Result<(), Box<dyn Error>> {
    let tools = mixed_tools::tools(Path::new(env!("CARGO_BIN_EXE_clock-server"))).await?;
    let model = ScriptedModel::new()
        .calls([
            ("call_1", "add", r#"{"a":17,"b":25}"#),
            ("call_2", "get_current_datetime", r#"{"timezone":"Asia/Tokyo","format":"time"}"#),
        ])
        .step(|request| {
            let said: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
            assert_eq!(said[2], "42");
            assert!(said[3].contains(r#""timezone":"Asia/Tokyo""#), "{}", said[3]);
            Ok(ChatResponse::new("It is 42, and late."))
        });
    let answer =
        mixed_tools::answer(model, tools, "What is 17 plus 25, and what time is it in Tokyo?").await?;
    assert_eq!(answer, "It is 42, and late.");
    Ok(())
}

#[test]
fn a_model_that_is_not_there_is_told_with_what_to_do() -> Result<(), Box<dyn Error>> {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_mixed-tools"));
    let output = demo.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: HAFT_MODEL names a file that cannot be used; unset it"), "{told}");
    assert!(told.contains("no model file at /no/such/model.gguf"), "{told}");
    Ok(())
}
