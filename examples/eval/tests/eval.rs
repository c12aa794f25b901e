//! Tests of errors that occur when the evaluation starts.

use std::{io, process::Command};

#[test]
fn missing_model_is_reported_with_the_remedy() -> io::Result<()> {
    let mut eval = Command::new(env!("CARGO_BIN_EXE_eval"));
    let output = eval.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("error: HAFT_MODEL names a file that cannot be used; unset it"), "{printed}");
    assert!(printed.contains("no model file at /no/such/model.gguf"), "{printed}");
    Ok(())
}

/// The comparison runs each dialect, so `--comparison` would ignore `--dialect`.
#[test]
fn comparison_of_a_single_dialect_is_a_usage_error() -> io::Result<()> {
    let mut eval = Command::new(env!("CARGO_BIN_EXE_eval"));
    eval.env("HAFT_MODEL", "/no/such/model.gguf").args(["--comparison", "--dialect", "json"]);
    let output = eval.output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("'--comparison' cannot be used with '--dialect <DIALECT>'"), "{printed}");
    Ok(())
}
