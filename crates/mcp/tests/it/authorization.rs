//! The server as an OAuth protected resource.

use std::time::Duration;

use futures::future::join_all;
use haft_core::{
    Tool as _, ToolContext, ToolError, ToolSource as _, Toolset,
    call::ToolResponse,
    tool::{Principal, ToolPolicy},
    toolset::ListContext,
};
use haft_mcp::{
    HttpServer, HttpServiceConfig, LoginOptions, LoginRequired, McpSource,
    authorization::{JwtVerifier, ProtectedResource},
    login,
};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use crate::{
    authorization_server::AuthorizationServer,
    http_serving::{Probe, Served, serve_at},
    oauth::{browse, credential_file},
};

/// A server that accepts the tokens of an authorization server. It has the tool `probe`, and the
/// tool `admin_probe`, which needs the scope `admin`.
struct Resource {
    issuer: AuthorizationServer,
    server: Served,
    url: String,
}

impl Resource {
    async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    async fn start_with(change: impl FnOnce(HttpServiceConfig) -> HttpServiceConfig) -> Self {
        let issuer = AuthorizationServer::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let resource = ProtectedResource::new(&url).unwrap().with_issuer(&issuer.issuer).unwrap();
        let resource = resource.with_required_scopes(["tools"]);
        let config = change(HttpServiceConfig::default().with_protected_resource(resource));
        let server = serve_at(listener, tools(), config);
        Self { issuer, server, url }
    }

    fn token(&self, scope: &str, changes: &Value) -> String {
        self.issuer.token(&self.url, scope, changes)
    }

    /// Calls `tool` with `token` and returns the HTTP response.
    async fn call(&self, tool: &str, token: &str) -> String {
        let head = format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", self.server.address);
        let head = format!("{head}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": {}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.server.post(&format!("{head}Mcp-Name: {tool}\r\n"), &body.to_string()).await
    }
}

fn tools() -> Toolset {
    let admin = Probe::with_policy("admin_probe", ToolPolicy::default().with_required_scope("admin"));
    Toolset::new().with_tool(Probe::new().0).with_tool(admin)
}

fn status(response: &str) -> &str {
    response.get(9..12).unwrap_or(response)
}

/// Returns the value of `WWW-Authenticate`.
fn challenge(response: &str) -> &str {
    response.lines().find_map(|line| line.strip_prefix("www-authenticate: ")).unwrap_or_default()
}

/// The metadata of the resource is at both well-known paths, without a token.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_names_the_authorization_server() {
    let resource = Resource::start().await;
    let well_known = "/.well-known/oauth-protected-resource";
    let get = async |path: &str| resource.server.request(&format!("GET {path}"), "Host: a\r\n", "").await;
    for path in [well_known, &format!("{well_known}/mcp")] {
        let response = get(path).await;
        assert_eq!(status(&response), "200", "{response}");
        assert!(response.contains("access-control-allow-origin: *"), "{response}");
        let metadata: Value = serde_json::from_str(response.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(metadata["resource"], resource.url);
        assert_eq!(metadata["authorization_servers"], json!([resource.issuer.issuer]));
        assert_eq!(metadata["scopes_supported"], json!(["tools"]));
    }
    let other = format!("GET {well_known}/other");
    assert_eq!(status(&resource.server.request(&other, "Host: localhost\r\n", "").await), "404");
    let post = format!("POST {well_known}");
    assert_eq!(status(&resource.server.request(&post, "Host: a\r\n", "").await), "405");
}

/// A client of haft logs in to a server of haft, and the principal of its calls is the subject of
/// the token. A call that needs another scope is repeated after another login.
#[tokio::test(flavor = "multi_thread")]
async fn client_logs_in_to_the_server() {
    let resource = Resource::start().await;
    let (_folder, _path, credentials) = credential_file();
    let server = HttpServer::new(&resource.url);
    let log_in = async |scopes: &[String]| {
        let mut options = LoginOptions::default();
        options.scopes = scopes.to_vec();
        let browser = |url: &str| drop(tokio::spawn(browse(Url::parse(url).unwrap())));
        timeout(Duration::from_secs(10), login(&server, &credentials, options, browser)).await.unwrap()
    };
    log_in(&[]).await.unwrap();
    let config = server.clone().with_credentials(credentials.clone());
    let source = McpSource::connect("resource", config).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    let call = async |name: &str| {
        let response = list.get(name).unwrap().call(json!({}), &ToolContext::default()).await?;
        let ToolResponse::Done(output) = response else { panic!("an output") };
        Ok(output.text().into_owned())
    };
    let ann = format!("{}#ann", resource.issuer.issuer);
    assert_eq!(call("probe").await.unwrap(), ann);
    let Err(ToolError::Failed { source: Some(error), .. }) = call("admin_probe").await else {
        panic!("a scope is missing")
    };
    let scopes = &error.downcast_ref::<LoginRequired>().unwrap().scopes;
    assert_eq!(scopes, &["tools", "admin"]);
    log_in(scopes).await.unwrap();
    assert_eq!(call("admin_probe").await.unwrap(), ann);
}

/// A request without a token, and one with a token that is forged, expired, or for others, gets
/// status 401 and a challenge with the metadata.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_tokens_are_challenged() {
    let resource = Resource::start().await;
    let metadata = resource.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    let parameters = format!("resource_metadata=\"{metadata}\", scope=\"tools\"");
    let head = format!("Host: {}\r\n", resource.server.address);
    let response = resource.server.post(&head, "{}").await;
    assert_eq!((status(&response), challenge(&response)), ("401", &*format!("Bearer {parameters}")));
    let evil = AuthorizationServer::start().await;
    let unsigned = {
        let token = resource.token("tools", &json!({}));
        let claims = token.split('.').nth(1).unwrap();
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{claims}.")
    };
    for (token, reason) in [
        (resource.token("tools", &json!({"exp": 1})), "the token has expired"),
        (resource.token("tools", &json!({"aud": "http://127.0.0.1:1/mcp"})), "for another resource"),
        (evil.token(&resource.url, "tools", &json!({})), "from another issuer"),
        // Signed by another issuer that claims to be the right one.
        (
            evil.token(&resource.url, "tools", &json!({"iss": resource.issuer.issuer})),
            "the signature of the token is wrong",
        ),
        (unsigned, "the algorithm of the token is not permitted"),
        ("opaque".to_owned(), "no signed JWT"),
    ] {
        let response = resource.call("probe", &token).await;
        assert_eq!(status(&response), "401", "{reason}: {response}");
        let challenge = challenge(&response);
        assert!(challenge.starts_with("Bearer error=\"invalid_token\", error_description=\""), "{challenge}");
        assert!(challenge.contains(reason) && challenge.ends_with(&parameters), "{reason}: {challenge}");
        assert!(!response.contains(&token), "{response}");
    }
    assert_eq!(evil.count("GET /keys"), 0, "no request to a foreign issuer");
    assert_eq!(status(&resource.call("probe", &resource.token("tools", &json!({}))).await), "200");
}

/// A token without a scope of the resource or of the tool gets status 403 with all scopes of the
/// call.
#[tokio::test(flavor = "multi_thread")]
async fn missing_scopes_are_named() {
    let resource = Resource::start().await;
    for (tool, scope, expected) in [
        ("probe", "tools", None),
        ("probe", "read", Some("tools")),
        ("admin_probe", "tools", Some("tools admin")),
        ("admin_probe", "tools admin", None),
    ] {
        let response = resource.call(tool, &resource.token(scope, &json!({}))).await;
        match expected {
            None => assert_eq!(status(&response), "200", "{tool} {scope}: {response}"),
            Some(scopes) => {
                assert_eq!(status(&response), "403", "{tool} {scope}: {response}");
                let challenge = challenge(&response);
                assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
                assert!(challenge.ends_with(&format!("scope=\"{scopes}\"")), "{challenge}");
            }
        }
    }
}

/// The same call in a session of revision 2025-11-25 gets the same status.
#[tokio::test(flavor = "multi_thread")]
async fn missing_scopes_are_named_in_a_session() {
    let resource = Resource::start().await;
    let head = |scope| {
        let token = resource.token(scope, &json!({}));
        format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", resource.server.address)
    };
    let session = open_session(&resource.server, &head("tools")).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "admin_probe"}});
    for (scope, expected) in [("tools", "403"), ("tools admin", "200")] {
        let head = format!("{}Mcp-Session-Id: {session}\r\n", head(scope));
        assert_eq!(status(&resource.server.post(&head, &call.to_string()).await), expected, "{scope}");
    }
}

/// Opens a session of an earlier revision and returns its id.
async fn open_session(server: &Served, head: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = server.post(head, &body.to_string()).await.to_lowercase();
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = session.unwrap_or_else(|| panic!("{opened}")).to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let head = format!("{head}Mcp-Session-Id: {session}\r\n");
    assert_eq!(status(&server.post(&head, &ready).await), "202");
    session
}

/// The session of a principal is unknown to others, also if the subject is equal and the issuer is
/// not.
#[tokio::test(flavor = "multi_thread")]
async fn session_belongs_to_the_issuer_and_the_subject() {
    let issuers = [AuthorizationServer::start().await, AuthorizationServer::start().await];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let resource = issuers.iter().fold(ProtectedResource::new(&url).unwrap(), |resource, server| {
        resource.with_issuer(&server.issuer).unwrap()
    });
    let config = HttpServiceConfig::default().with_protected_resource(resource);
    let server = serve_at(listener, tools(), config);
    let head = |issuer: &AuthorizationServer, claims: Value| {
        let token = issuer.token(&url, "", &claims);
        format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", server.address)
    };
    let session = open_session(&server, &head(&issuers[0], json!({}))).await;
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    for (issuer, claims, expected) in [
        (&issuers[0], json!({"sub": "ben"}), "404"),
        (&issuers[1], json!({}), "404"),
        (&issuers[1], json!({"sub": format!("{}#ann", issuers[0].issuer)}), "404"),
        (&issuers[0], json!({}), "200"),
    ] {
        let head = format!("{}Mcp-Session-Id: {session}\r\n", head(issuer, claims.clone()));
        assert_eq!(status(&server.post(&head, &list).await), expected, "{claims}");
        if expected == "404" {
            for line in ["GET /mcp", "DELETE /mcp"] {
                assert_eq!(status(&server.request(line, &head, "").await), "404", "{line} {claims}");
            }
        }
    }
}

/// Keys are fetched once, and again for an unknown key, but not for each token.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_cached_and_refreshed_with_a_pause() {
    let resource = Resource::start().await;
    assert_eq!(resource.issuer.count("GET /keys"), 0, "no request before the first token");
    let token = resource.token("tools", &json!({}));
    let calls = (0..8).map(|_| resource.call("probe", &token));
    for response in join_all(calls).await {
        assert_eq!(status(&response), "200", "{response}");
    }
    assert_eq!(resource.issuer.count("GET /keys"), 1);
    // The pause after the last fetch has not ended.
    resource.issuer.rotate_key();
    for _ in 0..3 {
        let response = resource.call("probe", &resource.token("tools", &json!({}))).await;
        assert!(challenge(&response).contains("the key of the token is unknown"), "{response}");
    }
    assert_eq!(resource.issuer.count("GET /keys"), 1);
    assert_eq!(status(&resource.call("probe", &token).await), "200", "the known key stays valid");
}

/// A token that cannot be verified gets status 503. Metadata of another issuer, and keys at a
/// foreign address, are not used.
#[tokio::test(flavor = "multi_thread")]
async fn unusable_keys_are_unavailable() {
    for metadata in [
        json!({"jwks_uri": "http://169.254.169.254/keys"}),
        json!({"jwks_uri": "http://10.0.0.9/keys"}),
        json!({"jwks_uri": "file:///etc/passwd"}),
        json!({"issuer": "https://evil.example"}),
        json!({"jwks_uri": null}),
    ] {
        let resource = Resource::start().await;
        *resource.issuer.state.metadata.lock().unwrap() = metadata.clone();
        let response = resource.call("probe", &resource.token("tools", &json!({}))).await;
        assert_eq!(status(&response), "503", "{metadata}: {response}");
        assert!(response.contains("retry-after: 30"), "{response}");
        assert_eq!(resource.issuer.count("GET /keys"), 0);
    }
}

/// A bearer token of the configuration is accepted beside access tokens.
#[tokio::test(flavor = "multi_thread")]
async fn fixed_token_is_accepted_beside_access_tokens() {
    let robot = Principal { id: "robot".to_owned(), ..Principal::default() };
    let resource = Resource::start_with(|config| config.with_bearer_token("s3cret", robot)).await;
    assert!(resource.call("probe", "s3cret").await.contains("robot"));
    assert_eq!(status(&resource.call("probe", &resource.token("tools", &json!({}))).await), "200");
    assert_eq!(status(&resource.call("probe", "s3cret2").await), "401");
}

/// A verifier for another audience accepts its tokens only.
#[tokio::test(flavor = "multi_thread")]
async fn verifier_can_have_another_audience() {
    let issuer = AuthorizationServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let verifier = JwtVerifier::new(&issuer.issuer, "api://tools").unwrap();
    let resource = ProtectedResource::new(&url).unwrap().with_verifier(&issuer.issuer, verifier).unwrap();
    let config = HttpServiceConfig::default().with_protected_resource(resource);
    let server = serve_at(listener, tools(), config);
    let resource = Resource { issuer, server, url };
    let token = |audience| resource.issuer.token(audience, "", &json!({}));
    assert_eq!(status(&resource.call("probe", &token("api://tools")).await), "200");
    assert_eq!(status(&resource.call("probe", &token(&resource.url)).await), "401");
}
