//! The command `haft mcp from-openapi`: serves an HTTP API with an OpenAPI document.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use haft_core::Toolset;
use haft_mcp::config::expand_variables;
use haft_openapi::{Credentials, OpenApiError, OpenApiOptions, OpenApiSource, OperationFilter};

use super::{
    api_clients::ApiClients,
    endpoint::{Clients, EndpointOptions},
    parse_pair,
};
use crate::{
    error::CliError,
    interrupt,
    spinner::Spinner,
    terminal::{self, remove_control_chars},
    tools,
};

/// Serve an HTTP API as an MCP server, with one tool for each operation of its OpenAPI document.
/// Without `--http`, it uses standard input and output.
#[derive(Args)]
pub(super) struct Arguments {
    /// The OpenAPI document in JSON or YAML: a file or a URL.
    document: String,
    /// The base URL of all requests. Default: the servers in the document, within the origin of its
    /// URL, or for a file within the origin of its first server.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// A further server that operations may call, such as `https://uploads.example.org`. It gets
    /// the same credentials and headers. Ignored with `--base-url`.
    #[arg(long, value_name = "ORIGIN")]
    allow_server: Vec<String>,
    /// The value of a variable in the server URL of the document.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    server_variable: Vec<(String, String)>,
    /// A header of each request. The value may contain a variable, such as `Bearer ${TOKEN}`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    header: Vec<(String, String)>,
    /// The credential of a security scheme: a key, a token, or `user:password`. The value may
    /// contain a variable, such as `${TOKEN}`.
    #[arg(long, value_name = "SCHEME=VALUE", value_parser = parse_pair)]
    credential: Vec<(String, String)>,
    /// The environment variable with the credential of a security scheme. The value is not in the
    /// list of processes.
    #[arg(long, value_name = "SCHEME=VARIABLE", value_parser = parse_pair)]
    credential_env: Vec<(String, String)>,
    /// The clients of the API: a JSON object with the keys `token`, `scopes`, `includeTools`,
    /// `excludeTools` and `credentials` for each client. `credentials` has the credential of a
    /// security scheme for the calls of this client. Values may contain variables.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    clients: Option<PathBuf>,
    /// The client that uses standard input and output.
    #[arg(long, value_name = "NAME", requires = "clients", conflicts_with = "http")]
    client: Option<String>,
    /// Serve operations with this id only. `*` stands for any characters.
    #[arg(long, value_name = "ID")]
    include: Vec<String>,
    /// Do not serve operations with this id. `*` stands for any characters.
    #[arg(long, value_name = "ID")]
    exclude: Vec<String>,
    /// Serve operations with this tag only.
    #[arg(long)]
    tag: Vec<String>,
    /// Serve operations with this path or below it only, such as `/pets`.
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Serve operations with the methods GET and HEAD only.
    #[arg(long)]
    read_only: bool,
    /// Accept results that differ from the schemas in the document.
    #[arg(long)]
    no_output_schemas: bool,
    /// The maximum time of a call, in seconds. Default: 60.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// List the tools, and serve nothing.
    #[arg(long, conflicts_with = "http")]
    list: bool,
    /// Write one line of JSON per tool.
    #[arg(long, requires = "list")]
    json: bool,
    #[command(flatten)]
    endpoint: EndpointOptions,
}

pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let clients = arguments.clients.as_deref().map(ApiClients::read).transpose()?;
    let source = interrupt::cancel_on_interrupt(open(&arguments, clients.as_ref())).await?;
    let list = source.tool_list().clone();
    for diagnostic in list.diagnostics() {
        terminal::warn(&diagnostic.to_string());
    }
    if arguments.list {
        tools::write_list(&list, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.is_empty() {
        return Err(CliError::new("the document has no operation that can be served, or none is selected"));
    }
    let (tools, clients) = match clients {
        Some(ApiClients { rules, .. }) => {
            let tools = rules.toolset([("api", source)]).map_err(|error| CliError::from_error(&error))?;
            (tools, Clients::new(&rules, arguments.client)?)
        }
        None => (Toolset::new().with_source(source), Clients::default()),
    };
    arguments.endpoint.serve(tools, list.len(), clients).await?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the document, and creates the source.
async fn open(arguments: &Arguments, clients: Option<&ApiClients>) -> Result<OpenApiSource, CliError> {
    let mut options = options(arguments)?;
    if let Some(clients) = clients {
        options = clients.add_to(options);
    }
    let (document, name) = (&*arguments.document, name(&arguments.document));
    let source = if is_url(document) {
        let spinner = Spinner::new();
        spinner.set_message("fetching the OpenAPI document");
        OpenApiSource::fetch(&name, document, &options).await
    } else {
        OpenApiSource::from_path(&name, document, &options)
    };
    source.map_err(|error| {
        let remedy = match &error {
            OpenApiError::NoServer { .. } => Some("set it with --base-url, or allow it with --allow-server"),
            _ => None,
        };
        CliError::new(remove_control_chars(&error.to_string())).with_remedy(remedy)
    })
}

fn is_url(document: &str) -> bool {
    document.starts_with("http://") || document.starts_with("https://")
}

/// Returns the name of the source: the host of a URL, or the name of a file.
fn name(document: &str) -> String {
    match document.split_once("://") {
        Some((_, rest)) if is_url(document) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            authority.rsplit('@').next().unwrap_or_default().to_owned()
        }
        _ => Path::new(document).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

fn options(arguments: &Arguments) -> Result<OpenApiOptions, CliError> {
    let mut filter = OperationFilter::default()
        .exclude(&arguments.exclude)
        .with_tags(&arguments.tag)
        .with_path_prefixes(&arguments.path);
    if !arguments.include.is_empty() {
        filter = filter.include(&arguments.include);
    }
    if arguments.read_only {
        filter = filter.read_only();
    }
    let mut options = OpenApiOptions::default().with_filter(filter);
    options.base_url.clone_from(&arguments.base_url);
    options.allowed_origins.clone_from(&arguments.allow_server);
    options.server_variables.extend(arguments.server_variable.iter().cloned());
    options.has_output_schemas = !arguments.no_output_schemas;
    if let Some(seconds) = arguments.timeout {
        options.timeout = Duration::from_secs(seconds);
    }
    for (name, value) in &arguments.header {
        options = options.with_header(name, expand("--header", value)?);
    }
    let mut credentials = Credentials::new();
    for (scheme, value) in &arguments.credential {
        credentials = credentials.with(scheme, expand("--credential", value)?);
    }
    for (scheme, variable) in &arguments.credential_env {
        let value = expand("--credential-env", &format!("${{{variable}}}"))?;
        credentials = credentials.with(scheme, value);
    }
    Ok(options.with_credentials(credentials))
}

/// Replaces the variables in `value`, as in an `mcp.json` file.
fn expand(option: &str, value: &str) -> Result<String, CliError> {
    expand_variables(value).map_err(|fault| CliError::usage(format!("{option}: {fault}")))
}
