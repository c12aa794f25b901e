use std::path::Path;

use super::{absolute_model_path, build_command};
use crate::process::command_line;
use crate::workspace::Workspace;

/// Tests run in the folder of their package, but programs run in the root of the repository. A
/// relative path in `HAFT_MODEL` must therefore become absolute.
#[test]
fn relative_model_path_becomes_absolute() {
    let file = absolute_model_path("src/native_build.rs".into()).expect("this file exists");
    assert_eq!(file, Path::new(env!("CARGO_MANIFEST_DIR")).join("src/native_build.rs"));
}

#[test]
fn all_programs_share_one_feature_set() {
    let workspace = Workspace::load().expect("metadata");
    let shared = "cargo build --locked --profile quick --workspace --exclude xtask";
    for (name, bins) in [
        ("haft", "--bin haft"),
        ("eval", "--bin eval"),
        ("airline", "--bin airline --bin airline-server"),
        ("mixed-tools", "--bin clock-server --bin mixed-tools"),
    ] {
        let command = build_command(&workspace, name, Path::new("target/native")).expect("a program");
        assert_eq!(command_line(&command), format!("{shared} {bins}"));
    }
    assert!(build_command(&workspace, "nonsense", Path::new("target/native")).is_err());
}
