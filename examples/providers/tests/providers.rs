//! Runs the example against a scripted server of each API.

use std::{error::Error, process::Command};

use haft_testing::model_server::{ModelServer, Reply};

#[test]
fn agent_answers_with_the_model_of_each_provider() -> Result<(), Box<dyn Error>> {
    for model in [
        "openai:gpt-5-mini",
        "responses:gpt-5-mini",
        "anthropic:claude-haiku-5-5",
        "gemini:gemini-flash-latest",
    ] {
        let server = ModelServer::start([
            Reply::calls([("call_1", "add", r#"{"a":17,"b":25}"#)]),
            Reply::text("It is 42."),
        ])?;
        let mut program = Command::new(env!("CARGO_BIN_EXE_providers"));
        program.args(["--model", model, "What is 17 plus 25?"]);
        for key in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
            program.env(key, "key-1");
        }
        let output = program
            .env("OPENAI_BASE_URL", server.base_url())
            .env("ANTHROPIC_BASE_URL", server.origin())
            .env("GOOGLE_GEMINI_BASE_URL", server.origin())
            .output()?;
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{model}: {errors}");
        assert_eq!(text, "It is 42.\n", "{model}");
        assert_eq!(server.requests().len(), 2, "{model}");
    }
    Ok(())
}

#[test]
fn missing_flag_is_reported_with_the_usage() -> Result<(), Box<dyn Error>> {
    let output = Command::new(env!("CARGO_BIN_EXE_providers")).arg("What is 17 plus 25?").output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("usage: providers --model"), "{errors}");
    Ok(())
}
