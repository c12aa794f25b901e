//! Tests of both processes of the example. They use scripted models and a real file.

use std::{error::Error, fs, path::PathBuf, process::Command};

use haft_core::{call::Decision, model::ChatResponse};
use haft_testing::ScriptedModel;
use suspend_and_resume::{answer, ask};

/// Returns the path of the file for the test `name`. A file from an earlier test run is removed.
fn file(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&file);
    file
}

fn orders() -> ScriptedModel {
    ScriptedModel::new().reply_calls([("call_1", "stock", "{}"), ("call_2", "order", r#"{"boxes":3}"#)])
}

#[tokio::test]
async fn run_waits_in_a_file_and_continues() -> Result<(), Box<dyn Error>> {
    let file = file("approved.json");
    let report = ask(orders(), "Order paper if there are less than 5 boxes.", &file).await?;
    assert!(report.starts_with("The run waits, in ") && report.contains("order {\"boxes\":3}"), "{report}");

    let second = ScriptedModel::new().reply_with(|request| {
        let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts[2..], ["2", "3 boxes are ordered"]);
        Ok(ChatResponse::new("Three boxes are on their way."))
    });
    assert_eq!(answer(second, Decision::approved(), &file).await?, "Three boxes are on their way.");
    assert!(!file.exists(), "a run is resumed once");
    Ok(())
}

#[tokio::test]
async fn denial_reaches_the_model_with_its_reason() -> Result<(), Box<dyn Error>> {
    let file = file("denied.json");
    ask(orders(), "Order paper.", &file).await?;
    let second = ScriptedModel::new().reply_with(|request| {
        let last = request.messages.iter().last().map(|message| message.text());
        assert_eq!(last.as_deref(), Some("denied: too many"));
        Ok(ChatResponse::new("Then I order none."))
    });
    assert_eq!(answer(second, Decision::denied("too many"), &file).await?, "Then I order none.");
    Ok(())
}

#[test]
fn decision_without_a_suspended_run_is_an_error() -> Result<(), Box<dyn Error>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_suspend-and-resume"));
    let output = program.arg("yes").current_dir(env!("CARGO_TARGET_TMPDIR")).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: no suspended run: there is no file suspended-run.json\n"
    );
    Ok(())
}
