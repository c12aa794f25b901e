use expect_test::{Expect, expect};

use super::{McpConfig, ServerConfig};

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

/// BEHAVIOUR F53.
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

/// FAULTS X3: what may be a secret is in no debug output.
#[test]
fn secrets_are_not_printed() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "${TOKEN}"}},
        "b": {"url": "http://localhost", "headers": {"H": "${TOKEN}"}}}}"#;
    let config = McpConfig::from_json_with(text, variables).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}

/// BEHAVIOUR F53.
#[test]
fn an_undefined_variable_names_its_entry() {
    check_error(
        r#"{"mcpServers": {"a": {"command": "x"}, "files": {"command": "x", "args": ["${NOPE}"]}}}"#,
        &expect![[
            r#"server "files": the variable NOPE is not defined: define it, or write ${NOPE:-default}"#
        ]],
    );
    check_error(
        r#"{"mcpServers": {"files": {"command": "${HOME"}}}"#,
        &expect![[r#"server "files": "${" without "}" in "${HOME""#]],
    );
}

/// BEHAVIOUR F53.
#[test]
fn a_bad_entry_is_named() {
    let neither = expect![[r#"server "files": it has neither "command" nor "url": give it one"#]];
    check_error(r#"{"mcpServers": {"files": {"args": []}}}"#, &neither);
    let both = expect![[r#"server "files": it has both "command" and "url": take one away"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "url": "y"}}}"#, &both);
    let args = expect![[r#"server "files": invalid type: string "-y", expected a sequence"#]];
    check_error(r#"{"mcpServers": {"files": {"command": "x", "args": "-y"}}}"#, &args);
    let list = expect![[r#"server "files": it must be an object with "command" or "url", not a list"#]];
    check_error(r#"{"mcpServers": {"files": ["npx"]}}"#, &list);
    let empty = expect![[r#"server "files": its "command" is empty"#]];
    check_error(r#"{"mcpServers": {"files": {"command": " "}}}"#, &empty);
}

/// BEHAVIOUR F53.
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

/// BEHAVIOUR F53: an entry with a `url` is checked, and refused by name when it would be used.
#[test]
fn a_server_behind_a_url_is_refused_by_name() {
    let config = McpConfig::from_json(r#"{"mcpServers": {"search": {"url": "http://localhost"}}}"#).unwrap();
    let error = config.start().unwrap_err().to_string();
    assert_eq!(error, "server \"search\": servers behind a \"url\" are not supported yet");
}
