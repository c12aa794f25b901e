use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use haft_mcp::registry::{Installation, Registry, RegistryServer};
use serde_json::{Map, Value, json};

use crate::{
    error::CliError,
    spinner::Spinner,
    terminal::{self, remove_control_chars},
};

/// Search for servers in a registry. Shows the exact command that adds each of them.
#[derive(Args)]
pub(super) struct Arguments {
    /// A part of the name of the server.
    name: String,
    /// The base URL of a registry with the MCP registry API.
    #[arg(long, value_name = "URL", default_value = Registry::OFFICIAL)]
    registry: String,
    /// The maximum number of servers.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Write one line of JSON per server.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let spinner = Spinner::new();
    spinner.set_message("searching the registry");
    let found = Registry::new(arguments.registry).search(&arguments.name, arguments.limit).await;
    drop(spinner);
    let servers = found.map_err(|error| {
        CliError::from_error(&error)
            .with_remedy(Some("check the network, or name another one with --registry"))
    })?;
    if servers.is_empty() {
        return Err(CliError::new(format!("no server with {:?} in its name", arguments.name)));
    }
    for server in &servers {
        terminal::write(&if arguments.json { json_line(server) } else { describe(server) })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json_line(server: &RegistryServer) -> String {
    let installation =
        |it: &Installation| json!({"kind": it.kind, "entry": it.entry, "command": add_command(server, it)});
    let installations: Vec<_> = server.installations.iter().map(installation).collect();
    let line = json!({
        "name": server.name, "title": server.title, "description": server.description,
        "version": server.version, "deprecated": server.is_deprecated, "installations": installations,
    });
    format!("{line}\n")
}

/// Returns the lines about `server`.
fn describe(server: &RegistryServer) -> String {
    let deprecated = if server.is_deprecated { " (deprecated)" } else { "" };
    let mut text = format!("{} {}{deprecated}\n  {}\n", server.name, server.version, server.description);
    for installation in &server.installations {
        let _ = writeln!(text, "  {}", add_command(server, installation));
        for variable in &installation.variables {
            let secret = if variable.is_secret { " (secret)" } else { "" };
            let _ = writeln!(text, "    {}{secret}: {}", variable.name, variable.description);
        }
    }
    for reason in &server.unsupported {
        let _ = writeln!(text, "  not supported: {reason}");
    }
    remove_control_chars(&text)
}

/// Returns the command that adds `server` to the configuration, for a POSIX shell.
fn add_command(server: &RegistryServer, installation: &Installation) -> String {
    let name = server.name.rsplit('/').next().unwrap_or_default();
    // A name must not be an option.
    let name = name.trim_start_matches('-');
    let mut words = ["haft", "mcp", "add", name].map(str::to_owned).to_vec();
    let entry = &installation.entry;
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    words.extend(text("url"));
    if let Some(transport) = text("type") {
        words.extend(["--transport".to_owned(), transport]);
    }
    words.extend(options(entry, "headers", "--header"));
    words.extend(options(entry, "env", "--env"));
    if let Some(command) = text("command") {
        words.extend(["--".to_owned(), command]);
        let args = entry.get("args").and_then(Value::as_array).into_iter().flatten();
        words.extend(args.filter_map(Value::as_str).map(str::to_owned));
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the members of the object `key` as options `option NAME=VALUE`.
fn options(entry: &Map<String, Value>, key: &str, option: &str) -> Vec<String> {
    let members = entry.get(key).and_then(Value::as_object).into_iter().flatten();
    let pair = |(name, value): (&String, &Value)| format!("{name}={}", value.as_str().unwrap_or_default());
    members.flat_map(|member| [option.to_owned(), pair(member)]).collect()
}

/// Quotes `word` for a POSIX shell, if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("@example/demo@1.0"), "@example/demo@1.0");
        assert_eq!(quoted("API_KEY=${API_KEY}"), "'API_KEY=${API_KEY}'");
        assert_eq!(quoted("a;rm -rf 'b'"), r"'a;rm -rf '\''b'\'''");
        assert_eq!(quoted(""), "''");
    }
}
