use expect_test::{Expect, expect};

use super::{McpConfig, ServerConfig, expand::expand};

fn variables(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/me".to_owned()),
        "TOKEN" => Some("s3cret".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn check_error(text: &str, expected: &Expect) {
    let error = McpConfig::from_json_with_variables(text, variables).unwrap_err();
    expected.assert_eq(&error.to_string());
}

/// Behaviour F53: an `mcp.json` file written for an editor is parsed, and the variables `${VAR}`
/// and `${VAR:-default}` in it are expanded. Unknown keys are ignored.
#[test]
fn file_of_an_editor_is_parsed() {
    let config = McpConfig::from_json_with_variables(
        r#"{
          "inputs": [],
          "mcpServers": {
            "files": {
              "type": "stdio",
              "command": "npx",
              "args": ["-y", "server-filesystem", "${HOME}/notes", "cost: $5 {x}"],
              "env": {"LOG": "${LOG_LEVEL:-warn}", "KEY": "${TOKEN}", "E": "${EMPTY:-full}", "N": "${NONE:-}"},
              "cwd": "${HOME}",
              "autoApprove": []
            },
            "search": {"url": "https://example.org/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
          }
        }"#,
        variables,
    )
    .unwrap();
    let [("files", ServerConfig::Stdio(files)), ("search", ServerConfig::Http(search))] =
        &config.servers().collect::<Vec<_>>()[..]
    else {
        panic!("{config:?}");
    };
    assert_eq!(files.to_string(), "npx -y server-filesystem /home/me/notes cost: $5 {x}");
    let env: Vec<_> = files.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["E=full", "KEY=s3cret", "LOG=warn", "N="]);
    assert_eq!(files.cwd.as_deref(), Some("/home/me".as_ref()));
    assert_eq!(search.url, "https://example.org/s3cret");
    assert_eq!(search.headers["Authorization"], "Bearer s3cret");
}

/// Behaviour X3: neither the debug output nor the errors of a configuration contain values that may
/// be secrets.
#[test]
fn secrets_are_not_printed() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["--key=${TOKEN}"], "env": {"K": "${TOKEN}"}},
        "b": {"url": "http://me:${TOKEN}@localhost:8/${TOKEN}?key=${TOKEN}", "headers": {"H": "${TOKEN}"}}}}"#;
    let config = McpConfig::from_json_with_variables(text, variables).unwrap();
    let debug = format!("{config:?}");
    assert!(!debug.contains("s3cret"), "{debug}");
    assert!(debug.contains("args: 1") && debug.contains("\"http://localhost:8\""), "{debug}");
    for (entry, reason) in [
        (r#"{"command": "x", "env": "KEY=s3cret"}"#, r#""env" must be an object of strings, not a string"#),
        (r#"{"command": "x", "args": "s3cret"}"#, r#""args" must be a list of strings, not a string"#),
        (r#"{"command": "x", "env": {"KEY": "s3cret${"}}"#, r#""KEY" of "env": "${" without "}""#),
        (r#"{"command": "x", "env": {"PORT": 8080}}"#, r#""PORT" of "env" must be a string, not a number"#),
        (r#"{"command": "x", "args": ["a", 3]}"#, r#"item 2 of "args" must be a string, not a number"#),
        (r#"{"command": ["s3cret"]}"#, r#""command" must be a string, not a list"#),
    ] {
        let error = McpConfig::from_json(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).unwrap_err();
        assert_eq!(error.to_string(), format!("server \"a\": {reason}"));
    }
}

/// Behaviour F53: variables in a default are expanded only if the default is used.
#[test]
fn default_may_contain_variables() {
    let expanded = |text: &str| expand(text, &variables);
    assert_eq!(expanded("<${A:-${B:-x}}>").unwrap(), "<x>");
    assert_eq!(expanded("${A:-${HOME}/${B:-y}}${EMPTY:-{z}}").unwrap(), "/home/me/y{z}");
    assert_eq!(expanded("${HOME:-${NOPE}}").unwrap(), "/home/me");
    assert!(expanded("${A:-${NOPE}}").unwrap_err().starts_with("the variable NOPE is not defined"));
    assert_eq!(expanded("${A:-${B:-x}").unwrap_err(), "\"${\" without \"}\"");
    let deep = format!("{}{}", "${A:-".repeat(100_000), "}".repeat(100_000));
    assert_eq!(expanded(&deep).unwrap_err(), "variables are nested too deeply");
}

/// Behaviour F53: disabled entries are skipped, and a key with the value `null` is treated as
/// missing.
#[test]
fn entry_may_be_disabled_and_values_null() {
    let config = McpConfig::from_json_with_variables(
        r#"{"mcpServers": {
            "off": {"disabled": true, "command": "${NOPE}"},
            "on": {"disabled": false, "command": "x", "args": null, "env": null, "cwd": null, "url": null},
            "far": {"url": "http://localhost", "headers": null}
        }}"#,
        variables,
    )
    .unwrap();
    assert_eq!(config.server_names().collect::<Vec<_>>(), ["on", "far"]);
}

/// Behaviour F53: the error for an undefined variable names the server and the key.
#[test]
fn undefined_variable_is_reported_with_its_entry() {
    check_error(
        r#"{"mcpServers": {"a": {"command": "x"}, "files": {"command": "x", "args": ["${NOPE}"]}}}"#,
        &expect![[
            r#"server "files": item 1 of "args": the variable NOPE is not defined: define it, or write ${NOPE:-default}"#
        ]],
    );
    check_error(
        r#"{"mcpServers": {"files": {"command": "${HOME"}}}"#,
        &expect![[r#"server "files": "command": "${" without "}""#]],
    );
}

/// Behaviour F53: the error for an invalid entry names the server and the reason.
#[test]
fn invalid_entry_is_reported_with_its_name() {
    let neither = expect![[r#"server "files": neither "command" nor "url": add one of them"#]];
    check_error(r#"{"mcpServers": {"files": {"args": []}}}"#, &neither);
    let both = expect![[r#"server "files": both "command" and "url": remove one of them"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "url": "y"}}}"#, &both);
    let args = expect![[r#"server "files": "args" must be a list of strings, not a string"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "args": "-y"}}}"#, &args);
    let list =
        expect![[r#"server "files": the entry must be an object with "command" or "url", not a list"#]];
    check_error(r#"{"mcpServers": {"files": ["npx"]}}"#, &list);
    let disabled = expect![[r#"server "files": "disabled" must be a boolean, not a string"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "disabled": "true"}}}"#, &disabled);
    let empty = expect![[r#"server "files": "command" is empty"#]];
    check_error(r#"{"mcpServers": {"files": {"command": " "}}}"#, &empty);
}

/// Behaviour F53: the error for an invalid root describes the JSON value that was found.
#[test]
fn invalid_root_is_described() {
    let root = "the root must be an object with \"mcpServers\", an object of servers by name; ";
    for (text, found) in [
        ("[]", "the root is a list"),
        ("{}", "the root has no keys"),
        (r#"{"servers": {}, "inputs": []}"#, "the root has \"servers\", \"inputs\""),
        (r#"{"mcpServers": []}"#, "\"mcpServers\" is a list"),
    ] {
        assert_eq!(McpConfig::from_json(text).unwrap_err().to_string(), format!("{root}{found}"));
    }
    check_error(
        "{\n  \"mcpServers\": {,}\n}",
        &expect!["not JSON: key must be a string at line 2 column 18"],
    );
}

/// Behaviour F53: an entry with a `url` is parsed, but [`McpConfig::start`] rejects it.
#[test]
fn start_rejects_an_entry_with_a_url() {
    let config = McpConfig::from_json(r#"{"mcpServers": {"search": {"url": "http://localhost"}}}"#).unwrap();
    let error = config.start().unwrap_err().to_string();
    assert_eq!(error, "server \"search\": servers with a \"url\" are not supported yet");
}
