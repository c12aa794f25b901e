//! Tests of the command line of xtask: exit codes, errors and help.

use std::process::{Command, Output};

use expect_test::{Expect, expect};

fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).env_remove("HAFT_MODEL");
    command
}

/// Runs `command`, and compares its exit code and the first line of its standard error with a
/// snapshot.
fn check(command: &mut Command, expected: &Expect) {
    let shown = match command.output() {
        Ok(Output { status, stderr, .. }) => {
            let code = status.code().unwrap_or(-1);
            format!("{code}: {}", text(&stderr).lines().next().unwrap_or_default())
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn invalid_usage_prints_the_usage_and_exits_with_code_2() {
    check(&mut xtask(&[]), &expect!["2: error: no command is given"]);
    check(&mut xtask(&["tets"]), &expect!["2: error: there is no command `tets`"]);
    check(
        &mut xtask(&["demo", "What", "is"]),
        &expect!["2: error: `demo` takes `--serve` or one question: put it in quotes"],
    );
    check(
        &mut xtask(&["ci", "--quick"]),
        &expect!["2: error: `ci` takes `--checks`, `--counts`, `--weekly` or nothing"],
    );
    check(&mut xtask(&["tidy", "now"]), &expect!["2: error: `tidy` takes no arguments"]);
    check(
        &mut xtask(&["setup", "--models"]),
        &expect!["2: error: `setup` takes `--model`, `--eval`, `--judges` or nothing"],
    );
    check(&mut xtask(&["doc", "book"]), &expect!["2: error: `doc` takes `--open` or nothing"]);
    let Output { stderr, stdout, .. } = xtask(&["tets"]).output().expect("xtask starts");
    assert!(text(&stderr).contains("usage: cargo xtask COMMAND"));
    assert_eq!(text(&stdout), "", "standard output is for results");
}

#[test]
fn help_exits_with_code_0() {
    for help in [&["help"][..], &["--help"], &["demo", "--help"], &["example", "-h"]] {
        let output = xtask(help).output().expect("xtask starts");
        assert!(output.status.success());
        assert!(text(&output.stdout).starts_with("usage: cargo xtask COMMAND"), "{help:?}");
    }
    let usage = text(&xtask(&["help"]).output().expect("xtask starts").stdout);
    for command in ["demo", "test", "ci", "example", "eval", "setup", "tidy", "doc"] {
        assert!(usage.contains(&format!("\n  {command}")), "no `{command}` in {usage}");
    }
}

/// A wrong path in `HAFT_MODEL` must be reported before the build, because the build takes minutes.
#[test]
fn missing_model_is_reported_before_the_build() {
    let expected =
        expect!["1: error: HAFT_MODEL names no.gguf, which is not a file; unset it to use the default model"];
    for arguments in [&["demo"][..], &["eval"], &["example", "quickstart"]] {
        check(xtask(arguments).env("HAFT_MODEL", "no.gguf"), &expected);
    }
}
