//! Seed inputs from the official JSON-Schema-Test-Suite.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

use crate::Case;

/// Returns a case for each schema of the test suite, with the values of its tests.
///
/// # Errors
///
/// Returns an error if a file of the test suite cannot be read or is not valid JSON.
pub fn load_suite() -> io::Result<Vec<Case>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/schema/tests/json-schema-test-suite");
    let mut cases = Vec::new();
    for path in json_files(&root)? {
        let subjects: Vec<Value> = serde_json::from_slice(&fs::read(path)?)?;
        cases.extend(subjects.into_iter().map(|mut subject| {
            let values = subject["tests"].as_array().into_iter().flatten().map(|test| &test["data"]);
            let case = Case::new(Value::Null, values);
            Case { schema: subject["schema"].take(), ..case }
        }));
    }
    Ok(cases)
}

fn json_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(json_files(&path)?);
        } else if path.extension().is_some_and(|it| it == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
