//! Tests the program with a scripted model server on the loopback interface.

use std::{io, process::Command};

use haft_testing::model_server::{ModelServer, Reply};

#[test]
fn program_calls_the_tool_and_prints_the_answer() -> io::Result<()> {
    let server = ModelServer::start([
        Reply::calls([("call_1", "add", r#"{"a":17,"b":25}"#)]),
        Reply::text("17 plus 25 is 42."),
    ])?;
    let output = Command::new(env!("CARGO_BIN_EXE_openai-agent"))
        .env("OPENAI_BASE_URL", server.base_url())
        .env_remove("OPENAI_API_KEY")
        .output()?;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "17 plus 25 is 42.\n");
    let result = server.requests()[1]["messages"][2]["content"].clone();
    assert_eq!(result, "42");
    Ok(())
}
