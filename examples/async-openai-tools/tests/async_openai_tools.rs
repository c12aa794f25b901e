//! Tests the program with a scripted model server on the loopback interface.

use std::{io, process::Command};

use haft_testing::model_server::{ModelServer, Reply};

#[test]
fn loop_calls_the_tool_and_ends_with_an_answer() -> io::Result<()> {
    let server = ModelServer::start([
        // The first call has a wrong argument name. The model receives an error that explains the
        // mistake.
        Reply::calls([("call_1", "count_words", r#"{"file":"words.txt"}"#)]),
        Reply::calls([("call_2", "count_words", r#"{"path":"tests/words.txt"}"#)]),
        Reply::text("There are five."),
    ])?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_async-openai-tools"));
    let program = program.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_MODEL", "any");
    let program = program.env("OPENAI_API_KEY", "none").current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = program.arg("How many words are in tests/words.txt?").output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.first().is_some_and(|line| line.contains("path")), "{printed}");
    assert_eq!(lines.get(lines.len() - 2..), Some(&["count_words: 5", "There are five."][..]), "{printed}");
    assert_eq!(output.status.code(), Some(0));
    let requests = server.requests();
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "count_words");
    assert_eq!(requests[2]["messages"][4]["tool_call_id"], "call_2");
    Ok(())
}
