use std::{
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use clap::Args;
use haft_mcp::{
    CredentialFile, HttpServer, LoginOptions, McpConfig, ServerConfig,
    client_credentials::{ClientCredentials, login_client},
};

use super::{FileOption, credentials, unknown_server};
use crate::{
    error::CliError,
    terminal::{self, remove_control_chars},
};

/// Log in to an HTTP server with OAuth. The browser opens, and the tokens are stored for the user.
/// With `--client-credentials`, the client itself logs in, without a browser.
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
    /// The URL of a client id metadata document, which is used instead of a registration if the
    /// authorization server supports it.
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    client_metadata_url: Option<String>,
    /// The environment variable with the secret of the client. The secret is stored beside the
    /// tokens, because their renewal needs it.
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    client_secret_env: Option<String>,
    /// Log in as the client itself, without a user: the grant `client_credentials`.
    #[arg(long, requires = "client_id")]
    client_credentials: bool,
    /// The file with the private key of the client (PKCS#8, PEM), instead of a secret. The key is
    /// stored beside the tokens, because their renewal needs it.
    #[arg(long, value_name = "FILE", requires = "client_credentials", conflicts_with = "client_secret_env")]
    client_key: Option<PathBuf>,
    /// The issuer of the authorization server. The login fails if the server names another one.
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
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
    let config = arguments.file.clone().open()?.config()?;
    let server = http_server(&config, &arguments.name)?;
    let credentials = credential_file()?;
    if arguments.client_credentials {
        let client = arguments.client()?;
        login_client(server, &credentials, client).await.map_err(|error| CliError::from_error(&error))?;
    } else {
        login_user(server, &credentials, &arguments).await?;
    }
    let name = arguments.name;
    terminal::write(&format!("logged in to {name}; the tokens are in {}\n", credentials.path().display()))?;
    Ok(ExitCode::SUCCESS)
}

impl LoginArguments {
    fn secret(&self) -> Result<Option<String>, CliError> {
        let Some(variable) = &self.client_secret_env else { return Ok(None) };
        let secret = std::env::var(variable).ok().filter(|secret| !secret.is_empty());
        let missing = || CliError::usage(format!("the variable {variable} has no secret"));
        secret.map(Some).ok_or_else(missing)
    }

    /// Returns the client that logs in itself.
    fn client(&self) -> Result<ClientCredentials, CliError> {
        let id = self.client_id.clone().unwrap_or_default();
        let client = match (&self.client_key, self.secret()?) {
            (Some(path), _) => {
                let pem = crate::text_file::read(path)
                    .map_err(|error| CliError::new(format!("{}: cannot be read: {error}", path.display())))?;
                ClientCredentials::with_private_key(id, pem)
                    .map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?
            }
            (None, Some(secret)) => ClientCredentials::with_secret(id, secret),
            (None, None) => {
                return Err(CliError::usage(
                    "--client-credentials needs --client-secret-env or --client-key",
                ));
            }
        };
        let client = client.with_scopes(&self.scope);
        Ok(match &self.issuer {
            Some(issuer) => client.with_issuer(issuer),
            None => client,
        })
    }
}

async fn login_user(
    server: &HttpServer,
    credentials: &CredentialFile,
    arguments: &LoginArguments,
) -> Result<(), CliError> {
    let mut options = LoginOptions::default();
    options.scopes.clone_from(&arguments.scope);
    options.client_id.clone_from(&arguments.client_id);
    options.client_metadata_url.clone_from(&arguments.client_metadata_url);
    options.issuer.clone_from(&arguments.issuer);
    options.client_secret = arguments.secret()?;
    let open = |url: &str| {
        let _ = terminal::write_error(&format!("open this URL to log in:\n{}\n", remove_control_chars(url)));
        if !arguments.no_browser {
            open_browser(url);
        }
    };
    haft_mcp::login(server, credentials, options, open).await.map_err(|error| CliError::from_error(&error))
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
