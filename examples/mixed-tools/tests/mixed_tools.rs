//! Tests of the demo. The MCP server is real and runs as a child process.

use std::{
    error::Error,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_core::model::ChatResponse;
use haft_local::LocalModel;
use haft_testing::ScriptedModel;
use haft_tests::judge;

const QUESTION: &str = "What is 17 plus 25, and what time is it in Tokyo?";

#[tokio::test(flavor = "multi_thread")]
async fn functions_and_server_tools_are_called_in_one_run() -> Result<(), Box<dyn Error>> {
    let tools = mixed_tools::tools(Path::new(env!("CARGO_BIN_EXE_clock-server"))).await?;
    let model = ScriptedModel::new()
        .reply_calls([
            ("call_1", "add", r#"{"a":17,"b":25}"#),
            ("call_2", "get_current_datetime", r#"{"timezone":"Asia/Tokyo","format":"time"}"#),
        ])
        .reply_with(|request| {
            let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
            assert_eq!(texts[2], "42");
            assert!(texts[3].contains(r#""timezone":"Asia/Tokyo""#), "{}", texts[3]);
            Ok(ChatResponse::new("It is 42, and late."))
        });
    let answer = mixed_tools::answer(model, tools, QUESTION).await?;
    assert_eq!(answer, "It is 42, and late.");
    Ok(())
}

/// The default model with real weights; see `cargo xtask setup --judges`.
#[tokio::test(flavor = "multi_thread")]
async fn real_model_answers_the_question_of_the_demo() -> Result<(), Box<dyn Error>> {
    let Some(path) = judge::llama_cpp_model() else { return Ok(()) };
    let tools = mixed_tools::tools(Path::new(env!("CARGO_BIN_EXE_clock-server"))).await?;
    let before = minutes_in_tokyo()?;
    let answer = mixed_tools::answer(LocalModel::open(path).await?, tools, QUESTION).await?;
    let times: Vec<_> = (before..=minutes_in_tokyo()?)
        .flat_map(|minutes| {
            let (hours, minutes) = (minutes / 60 % 24, minutes % 60);
            [format!("{hours:02}:{minutes:02}"), format!(" {}:{minutes:02}", (hours + 11) % 12 + 1)]
        })
        .collect();
    assert!(answer.contains("42"), "{answer}");
    assert!(times.iter().any(|time| answer.contains(time.as_str())), "{answer}");
    Ok(())
}

/// Returns the minutes since 1970 in the time zone of Tokyo.
fn minutes_in_tokyo() -> Result<u64, Box<dyn Error>> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok((seconds + 9 * 3600) / 60)
}

#[test]
fn missing_model_is_reported_with_the_remedy() -> Result<(), Box<dyn Error>> {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_mixed-tools"));
    let output = demo.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("error: HAFT_MODEL names a file that cannot be used; unset it"), "{printed}");
    assert!(printed.contains("no model file at /no/such/model.gguf"), "{printed}");
    Ok(())
}
