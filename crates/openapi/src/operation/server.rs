//! The base URLs of operations: servers with variables, and the origins that may be called.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::Value;

use crate::document::Document;

/// The servers of a document, and the rule for the servers that may be called.
pub(crate) struct Servers<'d> {
    document: &'d Document,
    /// The base URL that replaces all servers of the document.
    base_url: Option<Url>,
    variables: &'d BTreeMap<String, String>,
    /// The URLs whose origins may be called.
    allowed: Vec<Url>,
}

/// Returns the servers of `document`. `base_url` replaces them, and `allowed` are further origins
/// that may be called.
///
/// Without a base URL, the origin of a fetched document may be called, or the origin of the first
/// server of any other document.
pub(crate) fn document_servers<'d>(
    document: &'d Document,
    base_url: Option<Url>,
    variables: &'d BTreeMap<String, String>,
    allowed: &[Url],
) -> Servers<'d> {
    let mut servers = Servers { document, base_url, variables, allowed: allowed.to_vec() };
    let own = match &document.url {
        Some(url) => Some(url.clone()),
        None => servers.first_of(document.root()).and_then(Result::ok),
    };
    servers.allowed.extend(own);
    servers
}

impl Servers<'_> {
    /// Returns the base URL of the operation `operation` of `path_item`.
    ///
    /// # Errors
    ///
    /// Fails with a description of the fault and its remedy.
    pub(crate) fn base_url(&self, path_item: &Value, operation: &Value) -> Result<Url, String> {
        if let Some(url) = &self.base_url {
            return Ok(url.clone());
        }
        let owners = [operation, path_item, self.document.root()];
        let url = match owners.into_iter().find_map(|owner| self.first_of(owner)) {
            Some(url) => url?,
            // The default of `servers` is the URL `/` (OpenAPI 3.1, section 4.8.1.1).
            None => self.resolve("/")?,
        };
        if self.allowed.iter().any(|allowed| allowed.origin() == url.origin()) {
            return Ok(url);
        }
        let origin = url.origin().ascii_serialization();
        let rule = match &self.document.url {
            Some(from) => format!("the document comes from {}", from.origin().ascii_serialization()),
            None => "it is not the server of the document".to_owned(),
        };
        Err(format!(
            "the server {origin} may not be called, because {rule}: set a base URL, or allow the origin"
        ))
    }

    /// Returns the URL of the first server of `owner`. `None` if it has no servers.
    fn first_of(&self, owner: &Value) -> Option<Result<Url, String>> {
        let server = owner.get("servers")?.as_array()?.first()?;
        Some(self.expand(server).and_then(|url| self.resolve(&url)))
    }

    /// Replaces the variables in the URL of `server`.
    fn expand(&self, server: &Value) -> Result<String, String> {
        let url = server.get("url").and_then(Value::as_str).ok_or("a server has no `url`")?;
        let declared = server.get("variables").and_then(Value::as_object);
        let (mut expanded, mut rest) = (String::new(), url);
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| format!("the server {url:?} has a brace that is not closed"))?;
            let variable = declared.and_then(|variables| variables.get(name));
            let default = variable.and_then(|it| it.get("default")).and_then(Value::as_str);
            let value = self.variables.get(name).map(String::as_str).or(default);
            let value = value.ok_or_else(|| {
                format!("the variable {name:?} of the server has no default: set it, or set a base URL")
            })?;
            let permitted = variable.and_then(|it| it.get("enum")).and_then(Value::as_array);
            if permitted.is_some_and(|values| !values.iter().any(|it| it == value)) {
                return Err(format!("the variable {name:?} of the server does not permit {value:?}"));
            }
            expanded.push_str(literal);
            expanded.push_str(value);
            rest = after;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// Resolves `url` against the URL of the document.
    fn resolve(&self, url: &str) -> Result<Url, String> {
        let parsed = match &self.document.url {
            Some(base) => base.join(url),
            None => Url::parse(url),
        };
        match parsed {
            Ok(url) => check_base_url(url),
            Err(_) if self.document.url.is_none() => {
                Err(format!("the server {url:?} of the document is relative: set a base URL"))
            }
            Err(error) => Err(format!("the server {url:?} is not a valid URL: {error}")),
        }
    }
}

/// Returns `url` without its query and fragment.
///
/// # Errors
///
/// Fails if `url` is no `http` or `https` URL, or if it has a user name or a password.
pub(crate) fn check_base_url(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("the scheme {:?} of a server is not supported: use http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a server URL has a user name or a password: use a credential".to_owned());
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests;
