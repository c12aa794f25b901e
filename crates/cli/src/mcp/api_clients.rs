//! The file of `haft mcp from-openapi --clients`: the clients of a served HTTP API.

use std::{collections::BTreeMap, path::Path};

use haft_mcp::{
    config::{McpConfigProblem, expand_variables},
    gateway::{GatewayConfig, OTHER_CLIENTS},
};
use haft_openapi::{Credentials, OpenApiOptions};
use serde_json::{Map, Value, json};

use crate::{error::CliError, text_file};

/// The key of the credentials of a client. The other keys are those of a client of a gateway.
const CREDENTIALS: &str = "credentials";

/// The clients by id, their tools, and the credentials that the API receives for their calls.
pub(super) struct ApiClients {
    pub(super) rules: GatewayConfig,
    credentials: BTreeMap<String, Credentials>,
}

impl ApiClients {
    /// Reads the file at `path`: an object with a client for each id.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let fault = |reason: &str| CliError::usage(format!("{}: {reason}", path.display()));
        let text = text_file::read(path).map_err(|error| fault(&format!("cannot be read: {error}")))?;
        let clients = serde_json::from_str(&text).map_err(|error| fault(&format!("not JSON: {error}")))?;
        Self::parse(clients).map_err(|reason| fault(&reason))
    }

    fn parse(clients: Value) -> Result<Self, String> {
        let Value::Object(mut clients) = clients else {
            return Err("the root must be an object of clients by id".to_owned());
        };
        let mut credentials = BTreeMap::new();
        for (id, client) in &mut clients {
            let Some(own) = client.as_object_mut().and_then(|client| client.remove(CREDENTIALS)) else {
                continue;
            };
            let own = parse_credentials(&own).map_err(|reason| format!("the client {id:?}: {reason}"))?;
            if id == OTHER_CLIENTS {
                return Err(format!("\"{OTHER_CLIENTS}\" has no credentials: set them with --credential"));
            }
            credentials.insert(id.clone(), own);
        }
        let rules = GatewayConfig::from_value(&json!({"prefix": false, "clients": clients}));
        let rules = rules.map_err(|problem| match problem {
            McpConfigProblem::InvalidGateway(fault) => fault,
            other => other.to_string(),
        })?;
        Ok(Self { rules, credentials })
    }

    /// Adds the credentials of the clients to `options`.
    pub(super) fn add_to(&self, options: OpenApiOptions) -> OpenApiOptions {
        self.credentials.iter().fold(options, |options, (id, credentials)| {
            options.with_principal_credentials(id, credentials.clone())
        })
    }
}

/// Parses `value`, an object with the credential of each security scheme. The fault contains no
/// credential.
fn parse_credentials(value: &Value) -> Result<Credentials, String> {
    let empty = Map::new();
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => &empty,
        _ => return Err(format!("\"{CREDENTIALS}\" must be an object of strings by security scheme")),
    };
    fields.iter().try_fold(Credentials::new(), |credentials, (scheme, value)| {
        let path = || format!("\"{scheme}\" of \"{CREDENTIALS}\"");
        let text = value.as_str().ok_or_else(|| format!("{} must be a string", path()))?;
        let secret = expand_variables(text).map_err(|fault| format!("{}: {fault}", path()))?;
        Ok(credentials.with(scheme, secret))
    })
}
