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
