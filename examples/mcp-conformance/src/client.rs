#![doc = include_str!("../README.md")]

use std::env;

use haft_core::{
    Tool as _, ToolContext, ToolError, ToolResult, ToolSource as _, Toolset, toolset::ListContext,
};
use haft_mcp::{
    CredentialFile, HttpServer, LoginOptions, LoginRequired, McpSource, ServerOptions,
    client_credentials::ClientCredentials,
    elicitation::{Elicitation, ElicitationKind, ElicitationResponse},
    login,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The maximum number of attempts of a call that needs a login.
const MAX_ATTEMPTS: u32 = 3;
/// The client id metadata document of the scenario `auth/basic-cimd`.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().next_back().ok_or("the URL of the server is missing")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let folder = tempfile::tempdir()?;
    let credentials = CredentialFile::new(folder.path().join("credentials.json"));
    let options = ServerOptions::default().with_elicitation_handler(accept);
    let mut server = HttpServer::new(url).with_credentials(credentials.clone()).with_options(options);
    let has_client_credentials = scenario.starts_with("auth/client-credentials");
    if has_client_credentials {
        server = server.with_client_credentials(client_credentials()?);
    } else if scenario.starts_with("auth/") {
        log_in(&server, &credentials, &[]).await?;
    }
    let source = match McpSource::connect("conformance", server.clone()).await {
        // The authorization server of the server may have changed.
        Err(_) if scenario.starts_with("auth/") && !has_client_credentials => {
            log_in(&server, &credentials, &[]).await?;
            McpSource::connect("conformance", server.clone()).await?
        }
        source => source?,
    };
    let list = source.tools(&ListContext::default()).await?;
    let tools = Toolset::new().with_source(source);
    let context: Value =
        serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    if let Some(calls) = context["toolCalls"].as_array() {
        for call in calls {
            let name = call["name"].as_str().unwrap_or_default();
            report(name, tools.call(name, call["arguments"].clone()).await);
        }
        return Ok(());
    }
    let schemas = list.tools().iter().map(|tool| tool.definition().input_schema().as_value());
    // A scenario has a tool with a long schema, and another one to which the client sends it.
    let longest = schemas.clone().max_by_key(|schema| schema.to_string().len());
    for (tool, schema) in list.tools().iter().zip(schemas) {
        let arguments = arguments(schema, longest);
        for attempt in 1..=MAX_ATTEMPTS {
            match tool.call(arguments.clone(), &ToolContext::default()).await {
                Err(ToolError::Failed { source: Some(source), .. })
                    if source.is::<LoginRequired>() && attempt < MAX_ATTEMPTS =>
                {
                    let scopes = source.downcast_ref::<LoginRequired>().map(|error| error.scopes.clone());
                    log_in(&server, &credentials, &scopes.unwrap_or_default()).await?;
                }
                Err(error) => {
                    tracing::warn!(name = %tool.definition().name(), %error, "a call failed");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
    Ok(())
}

/// Accepts an elicitation, with a value for each required property without a default. The client
/// adds the defaults of the schema.
async fn accept(elicitation: Elicitation) -> ElicitationResponse {
    let ElicitationKind::Form { schema } = &elicitation.kind else {
        return ElicitationResponse::accept(Value::Null);
    };
    let missing = schema.properties().filter(|it| it.is_required && it.schema.get("default").is_none());
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        _ => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("a")),
    };
    let content: Value = missing.map(|it| (it.name.to_owned(), value(it.schema))).collect();
    ElicitationResponse::accept(content)
}

/// Logs the failure of a call. The suite decides if it is expected.
fn report(name: &str, result: ToolResult) {
    if let Err(failure) = result.into_output() {
        tracing::warn!(name, failure.message, "a call failed");
    }
}

/// Returns an argument of 1 for each number of `schema`, `object` for each object, and `a` for each
/// other property.
fn arguments(schema: &Value, object: Option<&Value>) -> Value {
    let argument = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("object") => object.cloned().unwrap_or_default(),
        _ => json!("a"),
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, schema)| (name.clone(), argument(schema))).collect()
}

/// Returns the client of the scenarios `auth/client-credentials-…`, which acts for itself.
fn client_credentials() -> Result<ClientCredentials> {
    let context: Value = serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    let id = text("client_id").ok_or("the id of the client is missing")?;
    match text("private_key_pem") {
        Some(pem) => Ok(ClientCredentials::with_private_key(id, pem)?),
        None => Ok(ClientCredentials::with_secret(id, text("client_secret").unwrap_or_default())),
    }
}

/// Performs a login. The browser is a task that follows the redirect of the authorization server.
async fn log_in(server: &HttpServer, credentials: &CredentialFile, scopes: &[String]) -> Result<()> {
    let context: Value =
        serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    let mut options = LoginOptions::default();
    options.scopes = scopes.to_vec();
    options.client_id = context["client_id"].as_str().map(str::to_owned);
    options.client_secret = context["client_secret"].as_str().map(str::to_owned);
    options.client_metadata_url = Some(CLIENT_METADATA_URL.to_owned());
    let open = |url: &str| drop(tokio::spawn(browse(url.to_owned())));
    login(server, credentials, options, open).await?;
    Ok(())
}

/// Requests `url`, an `http` URL, and follows its redirects.
async fn browse(mut url: String) -> std::io::Result<()> {
    loop {
        let (authority, target) = url.trim_start_matches("http://").split_once('/').unwrap_or((&url, ""));
        let mut stream = TcpStream::connect(authority).await?;
        let request = format!("GET /{target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        let location = |line: &str| {
            line.split_once(": ")
                .filter(|(name, _)| name.eq_ignore_ascii_case("location"))
                .map(|(_, url)| url.to_owned())
        };
        match response.lines().find_map(location) {
            Some(next) => url = next,
            None => return Ok(()),
        }
    }
}
