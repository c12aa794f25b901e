use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Map, json};

use super::{McpConfig, ServerConfig, expand::expand, variables::Variables};
use crate::{
    StdioServer, ToolFilter,
    gateway::{GatewayClient, GatewayConfig, OTHER_CLIENTS},
    process::ProcessLimits,
};

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

/// Checks the only invalid entry of `text`.
fn check_entry(text: &str, expected: &Expect) {
    let config = McpConfig::from_json_with_variables(text, variables).unwrap();
    let [(name, reason)] = &config.invalid_entries().collect::<Vec<_>>()[..] else { panic!("{config:?}") };
    expected.assert_eq(&format!("{name}: {reason}"));
}

/// An `mcp.json` file written for an editor is parsed, and the variables `${VAR}` and
/// `${VAR:-default}` in it are expanded. Unknown keys are ignored.
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
    assert_eq!(files.command, "npx");
    assert_eq!(files.args, ["-y", "server-filesystem", "/home/me/notes", "cost: $5 {x}"]);
    let env: Vec<_> = files.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["E=full", "KEY=s3cret", "LOG=warn", "N="]);
    assert_eq!(files.cwd.as_deref(), Some("/home/me".as_ref()));
    assert_eq!(search.url, "https://example.org/s3cret");
    assert_eq!(search.headers["Authorization"], "Bearer s3cret");
}

/// Neither the debug output nor the errors of a configuration contain values that may be secrets.
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
        (r#"{"command": ["x", 3]}"#, r#"item 2 of "command" must be a string, not a number"#),
        (r#"{"command": true}"#, r#""command" must be a string, not a boolean"#),
        (r#"{"url": "s3cret"}"#, r#""url" must begin with http:// or https://"#),
    ] {
        let config = McpConfig::from_json(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).unwrap();
        assert_eq!(config.invalid_entries().collect::<Vec<_>>(), [("a", reason)]);
    }
}

/// Variables in a default are expanded only if the default is used.
#[test]
fn default_may_contain_variables() {
    let root = Map::new();
    let expanded = |text: &str| expand(text, &Variables::new(&variables, &root));
    assert_eq!(expanded("<${A:-${B:-x}}>").unwrap(), "<x>");
    assert_eq!(expanded("${A:-${HOME}/${B:-y}}${EMPTY:-{z}}").unwrap(), "/home/me/y{z}");
    assert_eq!(expanded("${HOME:-${NOPE}}").unwrap(), "/home/me");
    assert!(expanded("${A:-${NOPE}}").unwrap_err().starts_with("the variable NOPE is not defined"));
    assert_eq!(expanded("${A:-${B:-x}").unwrap_err(), "\"${\" without \"}\"");
    let deep = format!("{}{}", "${A:-".repeat(100_000), "}".repeat(100_000));
    assert_eq!(expanded(&deep).unwrap_err(), "variables are nested too deeply");
}

/// Disabled entries are skipped, and a key with the value `null` is treated as missing.
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

/// The error for an undefined variable names the server and the key.
#[test]
fn undefined_variable_is_reported_with_its_entry() {
    check_entry(
        r#"{"mcpServers": {"a": {"command": "x"}, "files": {"command": "x", "args": ["${NOPE}"]}}}"#,
        &expect![[
            r#"files: item 1 of "args": the variable NOPE is not defined: define it, or write ${NOPE:-default}"#
        ]],
    );
    check_entry(
        r#"{"mcpServers": {"files": {"command": "${HOME"}}}"#,
        &expect![[r#"files: "command": "${" without "}""#]],
    );
}

/// The error for an invalid entry names the server and the reason.
#[test]
fn invalid_entry_is_reported_with_its_name() {
    let neither = expect![[r#"files: neither "command" nor "url": add one of them"#]];
    check_entry(r#"{"mcpServers": {"files": {"args": []}}}"#, &neither);
    let both = expect![[r#"files: both "command" and "url": remove one of them"#]];
    check_entry(r#"{"mcpServers": {"files": {"command": "x", "url": "y"}}}"#, &both);
    let args = expect![[r#"files: "args" must be a list of strings, not a string"#]];
    check_entry(r#"{"mcpServers": {"files": {"command": "x", "args": "-y"}}}"#, &args);
    let list = expect![[r#"files: the entry must be an object with "command" or "url", not a list"#]];
    check_entry(r#"{"mcpServers": {"files": ["npx"]}}"#, &list);
    let disabled = expect![[r#"files: "disabled" must be a boolean, not a string"#]];
    check_entry(r#"{"mcpServers": {"files": {"command": "x", "disabled": "true"}}}"#, &disabled);
    let empty = expect![[r#"files: "command" is empty"#]];
    check_entry(r#"{"mcpServers": {"files": {"command": " "}}}"#, &empty);
}

/// A timeout in one of the units that editors use is the idle timeout of calls. A long one is also
/// the timeout of a call.
#[test]
fn timeouts_are_read_in_their_units() {
    for (fields, idle, call, start) in [
        (json!({"timeout": 30}), 30, None, 10),
        (json!({"timeout": 600_000}), 600, Some(600), 10),
        (json!({"timeout": 3600}), 3600, Some(3600), 10),
        (json!({"tool_timeout_sec": 90, "startup_timeout_sec": 20}), 90, None, 20),
        (json!({"startup_timeout_ms": 15_000}), 60, None, 15),
    ] {
        let mut entry = json!({"command": "x"});
        entry.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        let text = json!({"mcpServers": {"a": entry}}).to_string();
        let config = McpConfig::from_json(&text).unwrap();
        let options = config.servers().next().unwrap().1.options();
        let found = (options.idle_timeout, options.call_timeout, options.handshake_timeout);
        let seconds = Duration::from_secs;
        assert_eq!(found, (seconds(idle), call.map(seconds), seconds(start)), "{fields}");
    }
    for invalid in ["0", "-1", "1e300", "\"60\""] {
        check_entry(
            &format!(r#"{{"mcpServers": {{"files": {{"command": "x", "timeout": {invalid}}}}}}}"#),
            &expect![[r#"files: "timeout" must be a positive number"#]],
        );
    }
}

/// An entry may isolate the program, and set limits for its resources.
#[test]
fn entry_may_have_limits() {
    let text = r#"{"mcpServers": {"a": {"command": "/bin/x", "isolated": true, "limits": {
        "cpuSeconds": 5, "memoryMiB": 256, "openFiles": 32, "fileMiB": 1
    }}}}"#;
    let config = McpConfig::from_json(text).unwrap();
    let Some(("a", ServerConfig::Stdio(server))) = config.servers().next() else { panic!("{config:?}") };
    let limits = ProcessLimits::default()
        .with_cpu_time(Duration::from_secs(5))
        .with_memory_bytes(256 << 20)
        .with_open_files(32)
        .with_file_bytes(1 << 20);
    assert_eq!(server.limits, Some(limits));
    assert!(server.inherited_env.is_empty());
    check_entry(
        r#"{"mcpServers": {"files": {"command": "x", "limits": {"memory": 5}}}}"#,
        &expect![[
            r#"files: unknown key "memory" in "limits": use cpuSeconds, memoryMiB, openFiles, fileMiB"#
        ]],
    );
    check_entry(
        r#"{"mcpServers": {"files": {"command": "x", "limits": {"openFiles": 0}}}}"#,
        &expect![[r#"files: "openFiles" of "limits" must be a positive integer"#]],
    );
    check_entry(
        r#"{"mcpServers": {"files": {"url": "http://x", "limits": {}}}}"#,
        &expect![[r#"files: "limits" is for a server with "command""#]],
    );
}

/// The error for an invalid root describes the JSON value that was found.
#[test]
fn invalid_root_is_described() {
    let root =
        "the root must be an object with \"mcpServers\" or \"servers\", an object of servers by name; ";
    for (text, found) in [
        ("[]", "the root is a list"),
        ("{}", "the root has no keys"),
        (r#"{"server": {}, "inputs": []}"#, "the root has \"server\", \"inputs\""),
        (r#"{"mcpServers": []}"#, "\"mcpServers\" is a list"),
    ] {
        assert_eq!(McpConfig::from_json(text).unwrap_err().to_string(), format!("{root}{found}"));
    }
    check_error(
        "{\n  \"mcpServers\": {,}\n}",
        &expect!["not JSON: key must be a string at line 2 column 18"],
    );
}

/// The files of common editors are read.
#[test]
fn dialects_of_editors_are_read() {
    let servers = |text: &str| -> Vec<String> {
        let config = McpConfig::from_json_with_variables(text, variables).unwrap();
        assert_eq!(config.invalid_entries().collect::<Vec<_>>(), []);
        config
            .servers()
            .map(|(name, server)| match server {
                ServerConfig::Stdio(server) => format!("{name}: {} {:?}", server.command, server.args),
                ServerConfig::Http(server) => format!("{name}: {} {:?}", server.url, server.transport),
                ServerConfig::InProcess(_) => panic!("{name}"),
            })
            .collect()
    };
    let vs_code = r#"{
        // Written by VS Code.
        "inputs": [{"type": "promptString", "id": "key", "default": "none"}],
        "servers": {
            "memory": {"type": "stdio", "command": "npx", "args": ["-y", "${input:key}", "${env:HOME}"]},
            "far": {"type": "http", "url": "https://example.org/mcp"},
            "old": {"type": "sse", "url": "https://example.org/sse"},
        },
    }"#;
    let expected = [
        r#"memory: npx ["-y", "none", "/home/me"]"#,
        "far: https://example.org/mcp Auto",
        "old: https://example.org/sse Sse",
    ];
    assert_eq!(servers(vs_code), expected);
    let settings = r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#;
    assert_eq!(servers(settings), ["a: x []"]);
    let zed = r#"{"context_servers": {"a": {"command": {"path": "x", "args": ["1"], "env": {"K": "v"}}}}}"#;
    assert_eq!(servers(zed), [r#"a: x ["1"]"#]);
    let opencode = r#"{"mcp": {
        "a": {"type": "local", "command": ["x", "1"], "environment": {"K": "v"}},
        "b": {"type": "remote", "url": "http://localhost/{env:TOKEN}"},
        "c": {"type": "local", "command": ["x"], "enabled": false}
    }}"#;
    assert_eq!(servers(opencode), [r#"a: x ["1"]"#, "b: http://localhost/s3cret Auto"]);
    let gemini = r#"{"mcpServers": {"a": {"httpUrl": "http://localhost/a"}, "b": {"serverUrl": "http://localhost/b"}}}"#;
    assert_eq!(servers(gemini), ["a: http://localhost/a Streamable", "b: http://localhost/b Auto"]);
}

/// Lists of permitted and denied tools select the tools of a server.
#[test]
fn tool_lists_are_filters() {
    let filter = |entry: &str| {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {entry}}}}}}}"#);
        let config = McpConfig::from_json(&text).unwrap();
        config.servers().next().unwrap().1.options().tool_filter.clone()
    };
    assert_eq!(filter(r#""includeTools": ["a", "b_*"]"#), ToolFilter::allow(["a", "b_*"]));
    assert_eq!(filter(r#""disabledTools": ["a"]"#), ToolFilter::deny(["a"]));
    let both = filter(r#""tools": ["*"], "excludeTools": ["a"]"#);
    assert_eq!(both, ToolFilter::allow(["*"]).and_deny(["a"]));
    assert_eq!(filter(r#""autoApprove": ["a"], "tools": null"#), ToolFilter::default());
}

/// A server that is downloaded first has one minute for the handshake.
#[test]
fn launcher_has_a_longer_handshake() {
    let timeout = |command: &str| {
        let text = json!({"mcpServers": {"a": {"command": command, "includeTools": ["x"]}}}).to_string();
        McpConfig::from_json(&text).unwrap().servers().next().unwrap().1.options().handshake_timeout
    };
    assert_eq!(timeout("/usr/bin/npx").as_secs(), 60);
    assert_eq!(timeout("node").as_secs(), 10);
}

#[test]
fn input_without_a_value_is_reported() {
    check_entry(
        r#"{"inputs": [{"id": "api-key", "description": "API key"}],
            "servers": {"a": {"command": "x", "env": {"K": "${input:api-key}"}}}}"#,
        &expect![[
            r#"a: "K" of "env": the input "api-key" (API key) has no value: set the variable INPUT_API_KEY"#
        ]],
    );
}

/// The command line of a server has variables instead of their values.
#[test]
fn command_line_has_no_secrets() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["--key", "${TOKEN}"]}}}"#;
    let config = McpConfig::from_json_with_variables(text, variables).unwrap();
    let Some((_, ServerConfig::Stdio(server))) = config.servers().next() else { panic!("{config:?}") };
    assert_eq!((server.to_string().as_str(), &server.args[1][..]), ("x --key ${TOKEN}", "s3cret"));
}

/// The command line shows where the arguments begin and end.
#[test]
fn arguments_are_quoted() {
    let server = StdioServer::new("sh").with_args(["-c", "echo it's; rm x", ""]);
    assert_eq!(server.to_string(), r"sh -c 'echo it'\''s; rm x' ''");
}

/// The variables of an `envFile` are read, and `env` takes precedence.
#[test]
fn environment_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.env");
    std::fs::write(&path, "# keys\nKEY='from file'\nPORT=1\n").unwrap();
    let entry = |path: &std::path::Path| {
        json!({"mcpServers": {"a": {"command": "x", "envFile": path, "env": {"PORT": "2"}}}}).to_string()
    };
    let config = McpConfig::from_json(&entry(&path)).unwrap();
    let Some((_, ServerConfig::Stdio(server))) = config.servers().next() else { panic!("{config:?}") };
    assert_eq!((&server.env["KEY"][..], &server.env["PORT"][..]), ("from file", "2"));
    std::fs::write(&path, "KEY='s3cret").unwrap();
    let config = McpConfig::from_json(&entry(&path)).unwrap();
    let (_, reason) = config.invalid_entries().next().unwrap();
    assert!(reason.starts_with("\"envFile\" cannot be read: ") && !reason.contains("s3cret"), "{reason}");
}

#[test]
fn server_may_start_lazily() {
    let text = r#"{"servers": {"a": {"command": "x", "lazy": true}, "b": {"url": "http://b/mcp", "lazy": true}, "c": {"command": "x"}}}"#;
    let config = McpConfig::from_json(text).unwrap();
    let lazy: Vec<_> = config.servers().map(|(_, server)| server.options().lazy_start).collect();
    assert_eq!(lazy, [true, true, false]);
    check_entry(
        r#"{"servers": {"a": {"command": "x", "lazy": "yes"}}}"#,
        &expect![[r#"a: "lazy" must be a boolean, not a string"#]],
    );
}

#[test]
fn rules_of_a_gateway_are_parsed() {
    let text = r#"{
      "mcpServers": {},
      "gateway": {
        "prefix": false,
        "renameTools": {"files_read": "read"},
        "includeTools": ["read", "mail_*"],
        "excludeTools": ["mail_send"],
        "approveTools": ["mail_*"],
        "clients": {"ann": {"token": "${TOKEN}", "scopes": ["mail"], "includeTools": ["read"]}, "*": {}}
      }
    }"#;
    let config = McpConfig::from_json_with_variables(text, variables).unwrap().gateway().unwrap();
    let ann = GatewayClient::new(ToolFilter::allow(["read"])).with_token("s3cret").with_scopes(["mail"]);
    let expected = GatewayConfig::default()
        .without_prefixes()
        .with_renamed_tool("files_read", "read")
        .with_tool_filter(ToolFilter::allow(["read", "mail_*"]).and_deny(["mail_send"]))
        .with_approval("mail_*")
        .with_client("ann", ann)
        .with_client(OTHER_CLIENTS, GatewayClient::default());
    assert_eq!(config, expected);
    let without = McpConfig::from_json(r#"{"servers": {}}"#).unwrap();
    assert_eq!(without.gateway().unwrap(), GatewayConfig::default());
}

#[test]
fn invalid_rule_of_a_gateway_is_reported_without_values() {
    let check = |gateway: &str, expected: &Expect| {
        let text = format!(r#"{{"mcpServers": {{}}, "gateway": {gateway}}}"#);
        let config = McpConfig::from_json_with_variables(&text, variables).unwrap();
        expected.assert_eq(&config.gateway().unwrap_err().to_string());
    };
    check(
        r#"{"exclude": ["x"]}"#,
        &expect![[
            r#"the object "gateway" is invalid: unknown key "exclude" in "gateway": use prefix, includeTools, excludeTools, renameTools, approveTools, clients"#
        ]],
    );
    check(
        r#"{"prefix": "yes"}"#,
        &expect![[r#"the object "gateway" is invalid: "prefix" must be a boolean, not a string"#]],
    );
    check(
        r#"{"renameTools": {"a": "my tool"}}"#,
        &expect![[
            r#"the object "gateway" is invalid: "a" of "renameTools": "my tool" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#
        ]],
    );
    check(
        r#"{"clients": {"ann": {"token": "${NONE}"}}}"#,
        &expect![[
            r#"the object "gateway" is invalid: the client "ann": "token": the variable NONE is not defined: define it, or write ${NONE:-default}"#
        ]],
    );
    check(
        r#"{"clients": {"ann": {"token": "${EMPTY}"}}}"#,
        &expect![[r#"the object "gateway" is invalid: the client "ann": "token" is empty"#]],
    );
    check(
        r#"{"clients": {"ann": {"tools": []}}}"#,
        &expect![[
            r#"the object "gateway" is invalid: the client "ann": unknown key "tools" in the entry: use token, scopes, includeTools, excludeTools"#
        ]],
    );
    check(
        r#"{"clients": []}"#,
        &expect![[r#"the object "gateway" is invalid: "clients" must be an object, not a list"#]],
    );
    check("[]", &expect![[r#"the object "gateway" is invalid: "gateway" must be an object, not a list"#]]);
}

/// A byte order mark is no content, and the error for another encoding names it.
#[test]
fn byte_order_mark_of_a_file_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.env"), "\u{feff}TOKEN=t\r\nOTHER=1\r\n").unwrap();
    let entry = serde_json::json!({"command": "x", "envFile": path("a.env")});
    let text = format!("\u{feff}{{\"mcpServers\": {{\"a\": {entry}}}, }}");
    std::fs::write(path("mcp.json"), &text).unwrap();
    for config in [McpConfig::from_json(&text), McpConfig::from_path(path("mcp.json"))] {
        let (_, server) =
            config.unwrap().servers().next().map(|(name, server)| (name.to_owned(), server.clone())).unwrap();
        let ServerConfig::Stdio(server) = server else { panic!("{server:?}") };
        assert_eq!((&*server.env["TOKEN"], &*server.env["OTHER"]), ("t", "1"));
    }
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    std::fs::write(path("mcp.json"), utf16).unwrap();
    let error = McpConfig::from_path(path("mcp.json")).unwrap_err().to_string();
    assert!(error.contains("UTF-16"), "{error}");
}
