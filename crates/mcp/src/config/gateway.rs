//! The rules of a gateway in an `mcp.json` file.

use haft_core::tool::ToolName;
use serde_json::{Map, Value};

use super::{
    McpConfigProblem,
    entry::EntryReader,
    type_name,
    variables::{Variables, environment_variable},
};
use crate::{
    ToolFilter,
    gateway::{GatewayClient, GatewayConfig},
};

/// The key of the rules in the root of the file.
pub(super) const KEY: &str = "gateway";
const KEYS: [&str; 6] = ["prefix", "includeTools", "excludeTools", "renameTools", "approveTools", "clients"];
const CLIENT_KEYS: [&str; 4] = ["token", "scopes", "includeTools", "excludeTools"];

impl GatewayConfig {
    /// Parses `rules`, an object in the form of `gateway` in an `mcp.json` file; see
    /// [`McpConfig`](crate::McpConfig). Variables are looked up in the environment of this process.
    ///
    /// # Errors
    ///
    /// Fails with [`McpConfigProblem::InvalidGateway`] if a key is unknown, if a value is invalid,
    /// or if a variable is undefined.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_mcp::gateway::GatewayConfig;
    /// use serde_json::json;
    ///
    /// let rules = json!({"prefix": false, "clients": {"ann": {"includeTools": ["read_*"]}}});
    /// let config = GatewayConfig::from_value(&rules)?;
    /// assert!(config.clients["ann"].tool_filter.selects("read_note"));
    /// # Ok::<(), haft_mcp::config::McpConfigProblem>(())
    /// ```
    pub fn from_value(rules: &Value) -> Result<Self, McpConfigProblem> {
        parse_gateway(rules, &Variables::new(&environment_variable, &Map::new()))
            .map_err(McpConfigProblem::InvalidGateway)
    }
}

/// Parses `value`, the object with the rules. A key that is unknown is an error, because a rule
/// that is not applied would permit too much.
///
/// # Errors
///
/// Returns a description of the fault. It contains keys and the names of tools, but no tokens.
pub(super) fn parse_gateway(value: &Value, variables: &Variables<'_>) -> Result<GatewayConfig, String> {
    let fields = object(value, "\"gateway\"", &KEYS)?;
    let rules = EntryReader { fields, variables };
    let mut config = GatewayConfig { tool_filter: tool_filter(&rules)?, ..GatewayConfig::default() };
    match rules.get_non_null("prefix") {
        Some(Value::Bool(prefix)) => config.has_prefixes = *prefix,
        None => {}
        Some(other) => return Err(format!("\"prefix\" must be a boolean, not {}", type_name(other))),
    }
    for (old, new) in rules.expanded_map("renameTools")? {
        ToolName::new(&new).map_err(|error| format!("\"{old}\" of \"renameTools\": {error}"))?;
        config.renamed_tools.insert(old, new);
    }
    config.approval_patterns = rules.texts("approveTools")?;
    match rules.get_non_null("clients") {
        Some(Value::Object(clients)) => {
            for (id, client) in clients {
                let client = parse_client(client, variables)
                    .map_err(|fault| format!("the client \"{id}\": {fault}"))?;
                let has_same_token =
                    |(_, other): &(_, &GatewayClient)| client.token.is_some() && client.token == other.token;
                if let Some((other, _)) = config.clients.iter().find(has_same_token) {
                    return Err(format!("the clients \"{other}\" and \"{id}\" have the same token"));
                }
                config.clients.insert(id.clone(), client);
            }
        }
        None => {}
        Some(other) => return Err(format!("\"clients\" must be an object, not {}", type_name(other))),
    }
    Ok(config)
}

fn parse_client(value: &Value, variables: &Variables<'_>) -> Result<GatewayClient, String> {
    let rules = EntryReader { fields: object(value, "the entry", &CLIENT_KEYS)?, variables };
    let token = rules.expanded_text("token")?;
    if token.as_ref().is_some_and(String::is_empty) {
        return Err("\"token\" is empty".to_owned());
    }
    Ok(GatewayClient { tool_filter: tool_filter(&rules)?, scopes: rules.texts("scopes")?, token })
}

fn tool_filter(rules: &EntryReader<'_>) -> Result<ToolFilter, String> {
    let allowed = rules.get_non_null("includeTools").map(|_| rules.texts("includeTools")).transpose()?;
    Ok(ToolFilter { allowed, denied: rules.texts("excludeTools")? })
}

/// Returns `value` as an object with no other keys than `keys`.
fn object<'a>(value: &'a Value, path: &str, keys: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let Value::Object(fields) = value else {
        return Err(format!("{path} must be an object, not {}", type_name(value)));
    };
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => Err(format!("unknown key \"{unknown}\" in {path}: use {}", keys.join(", "))),
        None => Ok(fields),
    }
}
