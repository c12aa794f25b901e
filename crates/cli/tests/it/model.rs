use std::{fs, path::Path};

use serde_json::Value;

use crate::{Ended, haft};

const NAME: &str = "qwen2.5-coder-0.5b";
const FILE: &str = "models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

/// `haft model …` with this folder for models.
fn model(cache: &Path, arguments: &[&str]) -> Ended {
    let mut command = haft(["model"].iter().chain(arguments));
    command.env("HAFT_CACHE", cache);
    Ended::of(command)
}

#[test]
fn what_can_be_fetched_is_listed() {
    let cache = tempfile::tempdir().unwrap();
    let listed = model(cache.path(), &["list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let first = listed.stdout.lines().next().unwrap();
    assert!(
        first.starts_with(NAME) && first.contains("491 MB") && first.ends_with("not fetched (default)"),
        "{first}"
    );

    let listed = model(cache.path(), &["list", "--json"]).json_lines();
    assert_eq!((&listed[0]["name"], &listed[0]["default"]), (&NAME.into(), &true.into()));
    assert_eq!((&listed[0]["bytes"], &listed[0]["path"]), (&491_400_064.into(), &Value::Null));
}

#[test]
fn a_model_that_is_there_is_found() {
    let cache = tempfile::tempdir().unwrap();
    let missing = model(cache.path(), &["path"]);
    missing.assert_failed(1, "haft model pull qwen2.5-coder-0.5b");

    let file = cache.path().join(FILE);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // As long as the real one, and nothing in it.
    fs::File::create(&file).unwrap().set_len(491_400_064).unwrap();
    let found = model(cache.path(), &["path", NAME]);
    assert_eq!(found.stdout.trim_end(), file.to_str().unwrap(), "{}", found.stderr);
}

#[test]
fn an_unknown_model_is_wrong_usage_and_the_known_are_listed() {
    let cache = tempfile::tempdir().unwrap();
    model(cache.path(), &["pull", "gpt-5"]).assert_failed(2, "qwen2.5-coder-1.5b");
}

#[test]
fn a_model_file_that_is_missing_or_none() {
    let mut missing = haft(["run", "Hello"]);
    missing.env("HAFT_MODEL", "/no/such/model.gguf");
    Ended::of(missing).assert_failed(1, "/no/such/model.gguf");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, "This is no model.").unwrap();
    let mut corrupt = haft(["run", "Hello", "--json"]);
    corrupt.env("HAFT_MODEL", &path);
    let told = Ended::of(corrupt);
    told.assert_failed(1, path.to_str().unwrap());
    assert_eq!(told.json_lines().pop().unwrap()["type"], "error");
}
