//! What whoever runs it reads when it cannot begin.

use std::{io, process::Command};

#[test]
fn a_model_that_is_not_there_is_told_with_what_to_do() -> io::Result<()> {
    let mut eval = Command::new(env!("CARGO_BIN_EXE_eval"));
    let output = eval.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: HAFT_MODEL names a file that cannot be used; unset it"), "{told}");
    assert!(told.contains("no model file at /no/such/model.gguf"), "{told}");
    Ok(())
}
