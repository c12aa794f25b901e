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
    let error = McpConfig::from_json_with(text, variables).unwrap_err();
    expected.assert_eq(&error.to_string());
}

/// Behaviour F53.
#[test]
fn a_file_as_editors_write_it() {
    let config = McpConfig::from_json_with(
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

/// Behaviour X3: what may be a secret is in no debug output.
#[test]
fn secrets_are_not_printed() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["--key=${TOKEN}"], "env": {"K": "${TOKEN}"}},
        "b": {"url": "http://me:${TOKEN}@localhost:8/${TOKEN}?key=${TOKEN}", "headers": {"H": "${TOKEN}"}}}}"#;
    let config = McpConfig::from_json_with(text, variables).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("args: 1") && shown.contains("\"http://localhost:8\""), "{shown}");
    for (entry, reason) in [
        (
            r#"{"command": "x", "env": "KEY=s3cret"}"#,
            r#"its "env" must be an object of strings, not a string"#,
        ),
        (r#"{"command": "x", "args": "s3cret"}"#, r#"its "args" must be a list of strings, not a string"#),
        (r#"{"command": "x", "env": {"KEY": "s3cret${"}}"#, r#""KEY" of its "env": a "${" is without "}""#),
        (
            r#"{"command": "x", "env": {"PORT": 8080}}"#,
            r#""PORT" of its "env" must be a string, not a number"#,
        ),
        (r#"{"command": "x", "args": ["a", 3]}"#, r#"number 2 of its "args" must be a string, not a number"#),
        (r#"{"command": ["s3cret"]}"#, r#"its "command" must be a string, not a list"#),
    ] {
        let error = McpConfig::from_json(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).unwrap_err();
        assert_eq!(error.to_string(), format!("server \"a\": {reason}"));
    }
}

/// Behaviour F53: a default may have variables, which matter only if it is used.
#[test]
fn a_default_may_have_variables() {
    let expanded = |text: &str| expand(text, &variables);
    assert_eq!(expanded("<${A:-${B:-x}}>").unwrap(), "<x>");
    assert_eq!(expanded("${A:-${HOME}/${B:-y}}${EMPTY:-{z}}").unwrap(), "/home/me/y{z}");
    assert_eq!(expanded("${HOME:-${NOPE}}").unwrap(), "/home/me");
    assert!(expanded("${A:-${NOPE}}").unwrap_err().starts_with("the variable NOPE is not defined"));
    assert_eq!(expanded("${A:-${B:-x}").unwrap_err(), "a \"${\" is without \"}\"");
    let deep = format!("{}{}", "${A:-".repeat(100_000), "}".repeat(100_000));
    assert_eq!(expanded(&deep).unwrap_err(), "variables stand too deep in one another");
}

/// Behaviour F53: what editors write besides.
#[test]
fn an_entry_may_be_disabled_and_fields_null() {
    let config = McpConfig::from_json_with(
        r#"{"mcpServers": {
            "off": {"disabled": true, "command": "${NOPE}"},
            "on": {"disabled": false, "command": "x", "args": null, "env": null, "cwd": null, "url": null},
            "far": {"url": "http://localhost", "headers": null}
        }}"#,
        variables,
    )
    .unwrap();
    assert_eq!(config.names().collect::<Vec<_>>(), ["on", "far"]);
}

/// Behaviour F53.
#[test]
fn an_undefined_variable_names_its_entry() {
    check_error(
        r#"{"mcpServers": {"a": {"command": "x"}, "files": {"command": "x", "args": ["${NOPE}"]}}}"#,
        &expect![[
            r#"server "files": number 1 of its "args": the variable NOPE is not defined: define it, or write ${NOPE:-default}"#
        ]],
    );
    check_error(
        r#"{"mcpServers": {"files": {"command": "${HOME"}}}"#,
        &expect![[r#"server "files": its "command": a "${" is without "}""#]],
    );
}

/// Behaviour F53.
#[test]
fn a_bad_entry_is_named() {
    let neither = expect![[r#"server "files": it has neither "command" nor "url": give it one"#]];
    check_error(r#"{"mcpServers": {"files": {"args": []}}}"#, &neither);
    let both = expect![[r#"server "files": it has both "command" and "url": take one away"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "url": "y"}}}"#, &both);
    let args = expect![[r#"server "files": its "args" must be a list of strings, not a string"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "args": "-y"}}}"#, &args);
    let list = expect![[r#"server "files": it must be an object with "command" or "url", not a list"#]];
    check_error(r#"{"mcpServers": {"files": ["npx"]}}"#, &list);
    let empty = expect![[r#"server "files": its "command" is empty"#]];
    check_error(r#"{"mcpServers": {"files": {"command": " "}}}"#, &empty);
}

/// Behaviour F53.
#[test]
fn a_wrong_root_says_what_is_there() {
    let root = "the root must be an object with \"mcpServers\", an object of servers by name; ";
    for (text, found) in [
        ("[]", "this is a list"),
        ("{}", "this has nothing"),
        (r#"{"servers": {}, "inputs": []}"#, "this has \"servers\", \"inputs\""),
        (r#"{"mcpServers": []}"#, "here \"mcpServers\" is a list"),
    ] {
        assert_eq!(McpConfig::from_json(text).unwrap_err().to_string(), format!("{root}{found}"));
    }
    check_error(
        "{\n  \"mcpServers\": {,}\n}",
        &expect!["not JSON: key must be a string at line 2 column 18"],
    );
}

/// Behaviour F53: an entry with a `url` is checked, and refused by name when it would be used.
#[test]
fn a_server_behind_a_url_is_refused_by_name() {
    let config = McpConfig::from_json(r#"{"mcpServers": {"search": {"url": "http://localhost"}}}"#).unwrap();
    let error = config.start().unwrap_err().to_string();
    assert_eq!(error, "server \"search\": servers behind a \"url\" are not supported yet");
}
