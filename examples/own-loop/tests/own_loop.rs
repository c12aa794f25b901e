//! Tests the program with a scripted model server on the loopback interface.

use std::{io, process::Command};

use haft_testing::model_server::{ModelServer, Reply};

#[test]
fn loop_calls_the_tool_and_ends_with_an_answer() -> io::Result<()> {
    let arguments = r#"{"directory":"src/","pattern":"*.rs"}"#;
    let server = ModelServer::start([
        Reply::calls([("call_1", "search_files", arguments)]),
        Reply::text("There is one: src/main.rs."),
    ])?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_own-loop"));
    let program = program.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_MODEL", "any");
    let output =
        program.current_dir(env!("CARGO_MANIFEST_DIR")).arg("Which Rust files are in src?").output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "search_files: [\"src/main.rs\"]\nThere is one: src/main.rs.\n");
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}
