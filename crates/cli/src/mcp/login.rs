use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use haft_mcp::{CredentialFile, HttpServer, LoginOptions, McpConfig, ServerConfig};

use super::{FileOption, credentials, unknown_server};
use crate::{
    error::CliError,
    terminal::{self, remove_control_chars},
};

/// Log in to an HTTP server with OAuth. The browser opens, and the tokens are stored for the user.
#[derive(Args)]
pub(super) struct LoginArguments {
    #[command(flatten)]
    file: FileOption,
    /// The name of the server.
    name: String,
    /// A scope to request. Default: the scopes in the challenge or the metadata of the server.
    #[arg(long)]
    scope: Vec<String>,
    /// The id of a client that is registered with the authorization server. Default: register one.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The environment variable with the secret of the client.
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    client_secret_env: Option<String>,
    /// Write the URL only, and open no browser.
    #[arg(long)]
    no_browser: bool,
}

/// Remove the stored tokens of a server.
#[derive(Args)]
pub(super) struct LogoutArguments {
    #[command(flatten)]
    file: FileOption,
    /// The name of the server.
    name: String,
}

pub(super) async fn login(arguments: LoginArguments) -> Result<ExitCode, CliError> {
    let LoginArguments { file, name, scope, client_id, client_secret_env, no_browser } = arguments;
    let config = file.open()?.config()?;
    let server = http_server(&config, &name)?;
    let credentials = credential_file()?;
    let mut options = LoginOptions::default();
    (options.scopes, options.client_id) = (scope, client_id);
    if let Some(variable) = client_secret_env {
        let secret = std::env::var(&variable)
            .map_err(|_| CliError::usage(format!("the variable {variable} has no secret")))?;
        options.client_secret = Some(secret);
    }
    let open = |url: &str| {
        let _ = terminal::write_error(&format!("open this URL to log in:\n{}\n", remove_control_chars(url)));
        if !no_browser {
            open_browser(url);
        }
    };
    haft_mcp::login(server, &credentials, options, open)
        .await
        .map_err(|error| CliError::from_error(&error))?;
    terminal::write(&format!("logged in to {name}; the tokens are in {}\n", credentials.path().display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logout(arguments: LogoutArguments) -> Result<ExitCode, CliError> {
    let config = arguments.file.open()?.config()?;
    let server = http_server(&config, &arguments.name)?;
    let removed = credential_file()?.remove(&server.url)?;
    let state = if removed { "logged out of" } else { "no tokens of" };
    terminal::write(&format!("{state} {}\n", arguments.name))?;
    Ok(ExitCode::SUCCESS)
}

fn credential_file() -> Result<CredentialFile, CliError> {
    credentials().ok_or_else(|| CliError::new("no folder for the tokens: set HOME"))
}

fn http_server<'a>(config: &'a McpConfig, name: &str) -> Result<&'a HttpServer, CliError> {
    match config.servers().find(|(known, _)| *known == name) {
        Some((_, ServerConfig::Http(server))) => Ok(server),
        Some(_) => {
            Err(CliError::usage(format!("{name} has a command: only a server with a URL has a login")))
        }
        None => Err(unknown_server(config, name)),
    }
}

/// Opens `url` in the browser of the user. Without one, the user opens the URL that was written.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let _ = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
