//! Tests that kill the program. They are not in the test program of the driver: a child process has
//! the locked files of its parent until it runs the program.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

/// Returns an empty folder, in which the program has its journal.
fn folder(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Starts the program in `folder`, and kills it after `time` if it has not ended.
fn run_program(folder: &Path, argument: &str, time: Duration) -> Result<Output, Box<dyn Error>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_own-driver"));
    let mut program = program.arg(argument).current_dir(folder).stdout(Stdio::piped()).spawn()?;
    for _ in 0..time.as_millis() {
        if program.try_wait()?.is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    program.kill()?;
    Ok(program.wait_with_output()?)
}

#[test]
fn program_survives_any_number_of_kills() -> Result<(), Box<dyn Error>> {
    let folder = folder("killed-program")?;
    let (mut printed, mut millis) = (String::new(), 20);
    loop {
        let output = run_program(&folder, "yes", Duration::from_millis(millis))?;
        printed += &String::from_utf8(output.stdout)?;
        if output.status.success() {
            break;
        }
        assert!(millis < 5_000, "the program does not end: {printed}");
        millis += 20;
    }
    assert!(millis > 20, "the first process was not killed");
    let answer = printed.lines().last().unwrap_or_default();
    let results: BTreeMap<String, String> = serde_json::from_str(answer)?;
    assert_eq!(results["stock"], "2");
    let orders = printed.matches("a box is ordered").count();
    match results["order"].as_str() {
        "a box is on its way" => assert_eq!(orders, 1),
        text => assert!(text.starts_with("unconfirmed") && orders <= 1, "{printed}"),
    }
    // The run has ended: the program only prints the answer.
    let output = run_program(&folder, "yes", Duration::from_secs(30))?;
    assert_eq!(String::from_utf8(output.stdout)?, format!("{answer}\n"));
    Ok(())
}

#[test]
fn program_waits_for_an_approval() -> Result<(), Box<dyn Error>> {
    let folder = folder("waiting-program")?;
    let time = Duration::from_secs(30);
    let output = String::from_utf8(run_program(&folder, "", time)?.stdout)?;
    assert!(output.contains("the boxes are counted") && output.contains("start again"), "{output}");
    let output = String::from_utf8(run_program(&folder, "no", time)?.stdout)?;
    assert_eq!(output, "{\"stock\":\"2\",\"order\":\"denied: not this month\"}\n");
    Ok(())
}
