//! Both processes on models with scripts; the file between them is real.

use std::{error::Error, fs, path::PathBuf, process::Command};

use haft_core::{call::Decision, model::ChatResponse};
use haft_testing::ScriptedModel;
use park_and_resume::{answer, ask};

/// A file of this test's own.
fn file(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&file);
    file
}

fn orders() -> ScriptedModel {
    ScriptedModel::new().calls([("call_1", "stock", "{}"), ("call_2", "order", r#"{"boxes":3}"#)])
}

#[tokio::test]
async fn a_run_waits_in_a_file_and_goes_on() -> Result<(), Box<dyn Error>> {
    let file = file("approved.json");
    let told = ask(orders(), "Order paper if there are less than 5 boxes.", &file).await?;
    assert!(told.starts_with("The run waits, in ") && told.contains("order {\"boxes\":3}"), "{told}");

    let second = ScriptedModel::new().step(|request| {
        let said: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
        assert_eq!(said[2..], ["2", "3 boxes are ordered"]);
        Ok(ChatResponse::new("Three boxes are on their way."))
    });
    assert_eq!(answer(second, Decision::approved(), &file).await?, "Three boxes are on their way.");
    assert!(!file.exists(), "nobody can go on twice");
    Ok(())
}

#[tokio::test]
async fn a_no_is_told_with_its_reason() -> Result<(), Box<dyn Error>> {
    let file = file("denied.json");
    ask(orders(), "Order paper.", &file).await?;
    let second = ScriptedModel::new().step(|request| {
        let last = request.messages.iter().last().map(|message| message.text());
        assert_eq!(last.as_deref(), Some("denied: too many"));
        Ok(ChatResponse::new("Then I order none."))
    });
    assert_eq!(answer(second, Decision::denied("too many"), &file).await?, "Then I order none.");
    Ok(())
}

#[test]
fn where_no_run_waits_nothing_is_answered() -> Result<(), Box<dyn Error>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_park-and-resume"));
    let output = program.arg("yes").current_dir(env!("CARGO_TARGET_TMPDIR")).output()?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: no run waits here: there is no parked-run.json\n"
    );
    Ok(())
}
