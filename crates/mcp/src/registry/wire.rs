//! The JSON of the MCP registry API.

use std::collections::BTreeMap;

use haft_core::text::without_hidden_chars;
use serde::Deserialize;
use serde_json::Value;

/// A page of the list of servers.
#[derive(Deserialize)]
pub(super) struct Page {
    /// The servers, each parsed alone, so that an invalid entry does not affect the others.
    pub(super) servers: Vec<Value>,
    pub(super) metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) next_cursor: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ServerResponse {
    pub(super) server: ServerDetail,
    #[serde(rename = "_meta", default)]
    pub(super) meta: Value,
}

#[derive(Deserialize)]
pub(super) struct ServerDetail {
    pub(super) name: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) packages: Vec<Package>,
    #[serde(default)]
    pub(super) remotes: Vec<Remote>,
}

/// A package, for example of npm.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Package {
    pub(super) registry_type: String,
    pub(super) registry_base_url: Option<String>,
    pub(super) identifier: String,
    pub(super) version: Option<String>,
    pub(super) transport: Transport,
    #[serde(default)]
    pub(super) runtime_arguments: Vec<Argument>,
    #[serde(default)]
    pub(super) package_arguments: Vec<Argument>,
    #[serde(default)]
    pub(super) environment_variables: Vec<NamedInput>,
}

#[derive(Deserialize)]
pub(super) struct Transport {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// A server that runs elsewhere.
#[derive(Deserialize)]
pub(super) struct Remote {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: Vec<NamedInput>,
    #[serde(default)]
    pub(super) variables: BTreeMap<String, Input>,
}

/// An argument of a command line: a positional argument, or with `name` an option.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value_hint: Option<String>,
    #[serde(flatten)]
    pub(super) input: Input,
}

/// A header or an environment variable.
#[derive(Deserialize)]
pub(super) struct NamedInput {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) input: Input,
}

/// A value that the publisher sets, or that the user provides.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) is_required: bool,
    #[serde(default)]
    pub(super) is_secret: bool,
    /// The value, with variables in braces.
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
    #[serde(default)]
    pub(super) variables: BTreeMap<String, Input>,
}

/// Removes hidden characters and the variables of `mcp.json` from all strings in `value`. A command
/// must not differ from the displayed command, and an entry must not send any environment variable
/// of the user to the server.
pub(super) fn sanitize(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_variables(&without_hidden_chars(text)),
        Value::Array(items) => items.iter_mut().for_each(sanitize),
        Value::Object(members) => members.values_mut().for_each(sanitize),
        _ => {}
    }
}

/// Returns `text` without the beginnings of variables of `mcp.json`.
pub(super) fn without_variables(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("${") || text.contains("{env:") {
        text = text.replace("${", "{").replace("{env:", "{");
    }
    text
}
