//! Search in a registry of MCP servers.

mod entry;
mod wire;

use std::time::Duration;

use haft_core::text::ErrorChain;
use haft_http::client::{self, ReadBodyError};
use reqwest::{Url, redirect::Policy};
use serde_json::{Map, Value};

use self::wire::{Page, ServerResponse};
use crate::http;

/// The maximum duration of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a response body, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;
/// The maximum number of servers in a page of a response.
const PAGE_SIZE: usize = 100;
/// The maximum number of pages of a search.
const MAX_PAGES: usize = 20;

/// A registry of MCP servers with the MCP registry API (version 0.1).
///
/// # Examples
///
/// ```no_run
/// use haft_mcp::registry::Registry;
///
/// # async fn example() -> Result<(), haft_mcp::registry::RegistryError> {
/// for server in Registry::default().search("filesystem", 10).await? {
///     println!("{} {}: {}", server.name, server.version, server.description);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    url: String,
}

/// An MCP server in a registry. All texts come from its publisher, without hidden characters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegistryServer {
    /// The unique name, such as `io.github.user/weather`.
    pub name: String,
    /// The title for people. `None` if the server has no title.
    pub title: Option<String>,
    /// A short description.
    pub description: String,
    /// The version of the server.
    pub version: String,
    /// `true` if the registry marks the server as deprecated.
    pub is_deprecated: bool,
    /// The ways to run or reach the server that this crate supports.
    pub installations: Vec<Installation>,
    /// The reasons why other packages and remote servers in the entry are not supported.
    pub unsupported: Vec<String>,
}

/// A way to run or reach an MCP server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Installation {
    /// The origin of the server: `npm`, `pypi`, `oci` or `nuget` for a package, or `remote`.
    pub kind: String,
    /// The entry for an `mcp.json` file. Values of the user are variables, such as `${API_KEY}`.
    pub entry: Map<String, Value>,
    /// The variables in the entry.
    pub variables: Vec<RegistryVariable>,
}

/// A variable in the [entry](Installation::entry) of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryVariable {
    /// The name, such as `API_KEY`.
    pub name: String,
    /// The description by the publisher. Empty if there is none.
    pub description: String,
    /// `true` if the value is a secret.
    pub is_secret: bool,
}

/// An error from a search in a registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The URL of the registry is invalid.
    #[error("invalid URL of a registry: {0}")]
    InvalidUrl(String),
    /// The request failed.
    #[error("cannot reach the registry: {0}")]
    Request(String),
    /// The registry returned a status other than 200.
    #[error("the registry returned status {0}")]
    Status(u16),
    /// The response is too long, or not in the format of the API.
    #[error("invalid response of the registry: {0}")]
    InvalidResponse(String),
}

impl Default for Registry {
    /// Returns the official registry.
    fn default() -> Self {
        Self::new(Self::OFFICIAL)
    }
}

impl Registry {
    /// The base URL of the official registry.
    pub const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";

    /// Creates a handle to the registry with the base URL `url`, without the path `/v0.1`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into() }
    }

    /// Returns the latest versions of the servers whose name contains `name`, in the order of the
    /// registry, at most `limit`. Deleted servers are omitted. At most 20 pages are read, each with
    /// up to `limit` servers, at most 100.
    ///
    /// # Errors
    ///
    /// Fails if a page takes longer than 30 seconds or exceeds 8 MiB, or if the registry returns an
    /// error or an invalid response. A server whose entry is invalid is omitted.
    pub async fn search(&self, name: &str, limit: usize) -> Result<Vec<RegistryServer>, RegistryError> {
        let client = new_client()?;
        let mut servers = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let page = fetch(&client, self.page_url(name, limit, cursor.as_deref())?).await?;
            servers.extend(page.servers.into_iter().filter_map(parse_server));
            let next =
                page.metadata.and_then(|metadata| metadata.next_cursor).filter(|next| !next.is_empty());
            if servers.len() >= limit || next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        servers.truncate(limit);
        Ok(servers)
    }

    fn page_url(&self, name: &str, limit: usize, cursor: Option<&str>) -> Result<Url, RegistryError> {
        let base = self.url.trim_end_matches('/');
        let invalid = |reason: String| RegistryError::InvalidUrl(reason);
        let mut url =
            Url::parse(&format!("{base}/v0.1/servers")).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("it must begin with http:// or https://".to_owned()));
        }
        let mut query = url.query_pairs_mut();
        query.append_pair("search", name).append_pair("version", "latest");
        query.append_pair("limit", &limit.clamp(1, PAGE_SIZE).to_string());
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        drop(query);
        Ok(url)
    }
}

fn new_client() -> Result<reqwest::Client, RegistryError> {
    let failed = |reason: String| RegistryError::Request(reason);
    let builder = http::client_builder().map_err(failed)?;
    let builder = builder.redirect(Policy::custom(client::follow_within_origin)).timeout(TIMEOUT);
    builder.build().map_err(|error| failed(error.to_string()))
}

async fn fetch(client: &reqwest::Client, url: Url) -> Result<Page, RegistryError> {
    let failed = |error: reqwest::Error| RegistryError::Request(ErrorChain(&error).to_string());
    let mut response = client.get(url).send().await.map_err(failed)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(RegistryError::Status(response.status().as_u16()));
    }
    let body = client::read_body(&mut response, MAX_BODY_BYTES).await.map_err(|error| match error {
        ReadBodyError::Lost(error) => failed(error),
        _ => RegistryError::InvalidResponse(error.to_string()),
    })?;
    serde_json::from_slice(&body).map_err(|error| RegistryError::InvalidResponse(error.to_string()))
}

/// Converts an entry of a page. Returns `None` if the server is deleted, or if the entry is
/// invalid.
fn parse_server(mut response: Value) -> Option<RegistryServer> {
    wire::sanitize(&mut response);
    let ServerResponse { server, meta } = serde_json::from_value(response).ok()?;
    let status = meta.get("io.modelcontextprotocol.registry/official").and_then(|it| it.get("status"));
    if status.is_some_and(|status| status == "deleted") {
        return None;
    }
    let (mut installations, mut unsupported) = (Vec::new(), Vec::new());
    let packages = server.packages.iter().map(entry::from_package);
    for installation in
        packages.chain(server.remotes.iter().map(|remote| entry::from_remote(&server.name, remote)))
    {
        match installation {
            Ok(installation) => installations.push(installation),
            Err(reason) => unsupported.push(reason),
        }
    }
    Some(RegistryServer {
        name: server.name,
        title: server.title,
        description: server.description,
        version: server.version,
        is_deprecated: status.is_some_and(|status| status == "deprecated"),
        installations,
        unsupported,
    })
}

#[cfg(test)]
mod tests;
