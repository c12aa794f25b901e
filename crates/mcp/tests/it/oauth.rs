use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::Engine as _;
use haft_core::{
    Tool as _, ToolContext, ToolError, ToolSource as _, Toolset,
    toolset::{ListContext, ToolList},
};
use haft_mcp::{
    CredentialFile, HttpServer, LoginError, LoginOptions, LoginRequired, McpSource,
    client_credentials::{ClientCredentials, login_client},
    login,
};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::{
    authorization_server::{AuthorizationServer, MACHINE, REGISTERED_SECRET},
    web::{Request, WebServer, read_request, write},
};

/// An MCP server that requires authorization, together with its authorization server.
struct ProtectedServer {
    origin: String,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    faults: Faults,
    /// The PKCE challenge of the last authorization request.
    challenge: Mutex<String>,
    /// The client of the last authorization request.
    client_id: Mutex<String>,
    /// The scopes of the last authorization request.
    scopes: Mutex<String>,
    /// The access token that the MCP server accepts.
    access_token: Mutex<String>,
    /// The form parameters of the requests to the token endpoint.
    token_requests: Mutex<Vec<BTreeMap<String, String>>>,
}

/// The faults of the authorization server.
#[derive(Clone, Default)]
struct Faults {
    /// The issuer in the redirect, instead of the right one.
    issuer: Option<&'static str>,
    /// The user denies the request.
    denies: bool,
    /// The authorization endpoint, instead of the right one.
    authorization_endpoint: Option<&'static str>,
    /// The token endpoint has the address 0.0.0.0, over which Linux reaches the same server.
    has_reserved_token_endpoint: bool,
    /// The authorization server in the metadata of the resource, instead of the right one.
    authorization_server: Option<&'static str>,
    /// The authorization server supports client id metadata documents.
    supports_client_documents: bool,
    /// The status of the response to a `ping` without a token, instead of a challenge.
    ping_status: Option<&'static str>,
    /// The metadata of the resource names a document at a URL that is no well-known URL of an
    /// issuer. The document has this issuer, and the endpoints of the server.
    document_issuer: Option<String>,
    /// Neither the resource nor its authorization server has metadata.
    has_no_metadata: bool,
    /// The challenge, with `METADATA` for the URL of the metadata of the resource.
    challenge: Option<&'static [&'static str]>,
    /// The members of a token response, besides the token and the refresh token.
    token_members: Option<Value>,
    /// The members of the response to a registration, besides the id.
    client_members: Option<Value>,
    /// The response of the token endpoint to a refresh, with status 200.
    refresh_response: Option<Value>,
}

impl ProtectedServer {
    async fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { faults, ..State::default() });
        let mut tasks = JoinSet::new();
        let (shared, own_origin) = (Arc::clone(&state), origin.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (state, origin) = (Arc::clone(&shared), own_origin.clone());
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read_request(&mut stream).await
                        && respond(stream.get_mut(), &request, &state, &origin).await
                    {}
                });
            }
        });
        Self { origin, state, _tasks: tasks }
    }

    fn config(&self) -> HttpServer {
        HttpServer::new(format!("{}/mcp", self.origin))
    }

    /// Performs a login. A task follows the redirect of the authorization server, like a browser.
    async fn login(&self, credentials: &CredentialFile) -> Result<(), LoginError> {
        self.login_with(credentials, LoginOptions::default()).await
    }

    async fn login_with(
        &self,
        credentials: &CredentialFile,
        options: LoginOptions,
    ) -> Result<(), LoginError> {
        let browser = |url: &str| drop(tokio::spawn(browse(Url::parse(url).unwrap())));
        let config = self.config();
        let login = login(&config, credentials, options, browser);
        timeout(Duration::from_secs(10), login).await.unwrap()
    }
}

/// Requests `url`, and then the URL of its redirect.
pub(crate) async fn browse(url: Url) {
    let response = get(&url).await;
    let location = response.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
    // A request of another program does not end the login.
    let (callback, _) = location.split_once('?').unwrap();
    let foreign = get(&Url::parse(&format!("{callback}?code=x&state=y")).unwrap()).await;
    assert!(foreign.starts_with("HTTP/1.1 404"), "{foreign}");
    let page = get(&Url::parse(location).unwrap()).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

async fn get(url: &Url) -> String {
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let target = &url.as_str()[url.origin().ascii_serialization().len()..];
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![0; 4096];
    let length = stream.read(&mut response).await.unwrap();
    String::from_utf8_lossy(&response[..length]).into_owned()
}

/// Responds to `request`. Returns `false` if the connection is closed.
async fn respond(stream: &mut TcpStream, request: &Request, state: &State, origin: &str) -> bool {
    let faults = &state.faults;
    let (method, target) = request.line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parameters = |text: &str| -> BTreeMap<String, String> {
        let url = Url::parse(&format!("http://localhost/?{text}")).unwrap();
        url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
    };
    let is_metadata = path.starts_with("/.well-known/");
    let authorization_server = match &faults.document_issuer {
        Some(_) => format!("{origin}/.well-known/x"),
        None => faults.authorization_server.unwrap_or(origin).to_owned(),
    };
    let body = match (method, path) {
        _ if is_metadata && faults.has_no_metadata => return write(stream, "404 Not Found", "", "").await,
        ("POST", "/mcp") => return respond_as_resource(stream, request, state, origin).await,
        ("GET", "/.well-known/oauth-protected-resource/mcp") => json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [authorization_server],
            "scopes_supported": ["tools"],
        }),
        ("GET", "/.well-known/oauth-authorization-server" | "/.well-known/x") => {
            let authorize = format!("{origin}/authorize");
            let token_origin = match faults.has_reserved_token_endpoint {
                true => origin.replace("127.0.0.1", "0.0.0.0"),
                false => origin.to_owned(),
            };
            json!({
                "issuer": faults.document_issuer.as_deref().filter(|_| path.ends_with("/x")).unwrap_or(origin),
                "authorization_endpoint": faults.authorization_endpoint.unwrap_or(&authorize),
                "token_endpoint": format!("{token_origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": true,
                "client_id_metadata_document_supported": faults.supports_client_documents,
            })
        }
        ("POST", "/register") => {
            let mut client = request.body.clone();
            client["client_id"] = "client-1".into();
            for (name, value) in faults.client_members.iter().flat_map(|it| it.as_object().unwrap()) {
                client[name] = value.clone();
            }
            client
        }
        ("GET", "/authorize") => {
            let parameters = parameters(query);
            assert_eq!(parameters["code_challenge_method"], "S256");
            assert_eq!(parameters["resource"], format!("{origin}/mcp"));
            state.scopes.lock().unwrap().clone_from(&parameters["scope"]);
            state.client_id.lock().unwrap().clone_from(&parameters["client_id"]);
            *state.challenge.lock().unwrap() = parameters["code_challenge"].clone();
            let outcome = if faults.denies { "error=access_denied" } else { "code=code-1" };
            let issuer = faults.issuer.unwrap_or(origin);
            let location = format!(
                "{}?{outcome}&state={}&iss={issuer}",
                parameters["redirect_uri"], parameters["state"]
            );
            return write(stream, "302 Found", &format!("Location: {location}\r\n"), "").await;
        }
        ("POST", "/token") => {
            let parameters = parameters(request.body.as_str().unwrap());
            let number = {
                let mut requests = state.token_requests.lock().unwrap();
                requests.push(parameters.clone());
                requests.len()
            };
            if let Some(verifier) = parameters.get("code_verifier") {
                let hash = Sha256::digest(verifier.as_bytes());
                let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash);
                assert_eq!(challenge, *state.challenge.lock().unwrap());
            }
            let token = format!("access-{number}");
            state.access_token.lock().unwrap().clone_from(&token);
            let scope = state.scopes.lock().unwrap().clone();
            let members = json!({"token_type": "Bearer", "expires_in": 3600, "scope": scope});
            let mut response = faults.token_members.clone().unwrap_or(members);
            response["access_token"] = token.into();
            response["refresh_token"] = format!("refresh-{number}").into();
            match &faults.refresh_response {
                Some(refreshed) if parameters["grant_type"] == "refresh_token" => refreshed.clone(),
                _ => response,
            }
        }
        _ => return write(stream, "404 Not Found", "", "").await,
    };
    let status = if path == "/register" { "201 Created" } else { "200 OK" };
    write(stream, status, "Content-Type: application/json\r\n", &body.to_string()).await
}

/// Responds as the MCP server, which requires the access token.
async fn respond_as_resource(stream: &mut TcpStream, request: &Request, state: &State, origin: &str) -> bool {
    let token = state.access_token.lock().unwrap().clone();
    if let ("ping", Some(status)) = (request.method(), state.faults.ping_status) {
        return write(stream, status, "", "").await;
    }
    if token.is_empty() || request.header("authorization") != format!("Bearer {token}") {
        let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
        let lines =
            state.faults.challenge.unwrap_or(&["Bearer resource_metadata=\"METADATA\", scope=\"tools\""]);
        let lines = lines.iter().map(|line| line.replace("METADATA", &metadata));
        let challenge: String = lines.map(|line| format!("WWW-Authenticate: {line}\r\n")).collect();
        return write(stream, "401 Unauthorized", &challenge, "").await;
    }
    let is_writer = state.scopes.lock().unwrap().split(' ').any(|scope| scope == "write");
    if request.body["params"]["name"] == "write" && !is_writer {
        let challenge = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"\r\n";
        return write(stream, "403 Forbidden", challenge, "").await;
    }
    let id = &request.body["id"];
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match request.method() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "protected", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
        }),
        "tools/list" => json!({
            "tools": [tool("token"), tool("write")], "ttlMs": 0, "cacheScope": "private",
        }),
        _ => json!({"content": [{"type": "text", "text": token}]}),
    };
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    write(stream, "200 OK", "Content-Type: application/json\r\n", &body).await
}

pub(crate) fn credential_file() -> (TempDir, PathBuf, CredentialFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/credentials.json");
    (folder, path.clone(), CredentialFile::new(path))
}

async fn tools_of(server: &ProtectedServer, credentials: &CredentialFile) -> (McpSource, ToolList) {
    let config = server.config().with_credentials(credentials.clone());
    let source = McpSource::connect("protected", config).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    (source, list)
}

async fn token_of(server: &ProtectedServer, credentials: &CredentialFile) -> String {
    let config = server.config().with_credentials(credentials.clone());
    let tools = Toolset::new().with_source(McpSource::connect("protected", config).await.unwrap());
    tools.call("token", json!({})).await.model_text().into_owned()
}

/// A login stores the tokens in a file that only its owner can read, and the source sends them.
#[tokio::test(flavor = "multi_thread")]
async fn login_stores_the_tokens() {
    let server = ProtectedServer::start(Faults::default()).await;
    let (_folder, path, credentials) = credential_file();
    let config = server.config().with_credentials(credentials.clone());
    let error = McpSource::connect("protected", config).await.unwrap_err().reason;
    assert!(error.contains("haft mcp login"), "{error}");
    server.login(&credentials).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(token_of(&server, &credentials).await, "access-1");
    let exchange = server.state.token_requests.lock().unwrap()[0].clone();
    assert_eq!((&*exchange["grant_type"], &*exchange["code"]), ("authorization_code", "code-1"));
    assert_eq!(exchange["resource"], format!("{}/mcp", server.origin));
    assert_eq!(*server.state.scopes.lock().unwrap(), "tools");
    let url = server.config().url;
    assert!(credentials.contains(&url).unwrap());
    assert!(credentials.remove(&url).unwrap() && !credentials.remove(&url).unwrap());
    assert!(!fs::read_to_string(&path).unwrap().contains("access-1"));
}

/// A client id metadata document replaces the registration if the authorization server supports it.
#[tokio::test(flavor = "multi_thread")]
async fn client_document_replaces_the_registration() {
    let url = "https://app.example.org/client.json";
    for (supports_client_documents, client_id) in [(true, url), (false, "client-1")] {
        let server = ProtectedServer::start(Faults { supports_client_documents, ..Faults::default() }).await;
        let (_folder, _path, credentials) = credential_file();
        let mut options = LoginOptions::default();
        options.client_metadata_url = Some(url.to_owned());
        server.login_with(&credentials, options).await.unwrap();
        assert_eq!(*server.state.client_id.lock().unwrap(), client_id);
        assert_eq!(token_of(&server, &credentials).await, "access-1");
    }
}

/// A server that requires a token for some requests only names its authorization server in its
/// metadata.
#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_challenge_is_logged_in_to() {
    for status in ["200 OK", "400 Bad Request"] {
        let faults = Faults { ping_status: Some(status), ..Faults::default() };
        let server = ProtectedServer::start(faults).await;
        let (_folder, _path, credentials) = credential_file();
        server.login(&credentials).await.unwrap();
        assert_eq!(token_of(&server, &credentials).await, "access-1", "{status}");
    }
}

/// A rejected token is refreshed once, and the new token is stored.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_token_is_refreshed() {
    let server = ProtectedServer::start(Faults::default()).await;
    let (_folder, path, credentials) = credential_file();
    server.login(&credentials).await.unwrap();
    "revoked".clone_into(&mut server.state.access_token.lock().unwrap());
    assert_eq!(token_of(&server, &credentials).await, "access-2");
    let refresh = server.state.token_requests.lock().unwrap()[1].clone();
    assert_eq!((&*refresh["grant_type"], &*refresh["refresh_token"]), ("refresh_token", "refresh-1"));
    let stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(stored["servers"][server.config().url]["token_response"]["refresh_token"], "refresh-2");
}

/// A call with an insufficient scope fails with the scope. After a login with it, the same source
/// repeats the call, and the scopes of the earlier token are kept.
#[tokio::test(flavor = "multi_thread")]
async fn insufficient_scope_is_requested_by_another_login() {
    let server = ProtectedServer::start(Faults::default()).await;
    let (_folder, _path, credentials) = credential_file();
    server.login(&credentials).await.unwrap();
    let (_source, list) = tools_of(&server, &credentials).await;
    let write = list.get("write").unwrap();
    let call = async || write.call(json!({}), &ToolContext::default()).await;
    let Err(ToolError::Failed { source: Some(error), message }) = call().await else { panic!("a failure") };
    let error = error.downcast_ref::<LoginRequired>().unwrap();
    assert!(message.contains("it requires \"write\""), "{message}");
    let mut options = LoginOptions::default();
    options.scopes.clone_from(&error.scopes);
    server.login_with(&credentials, options).await.unwrap();
    assert_eq!(*server.state.scopes.lock().unwrap(), "write tools");
    assert!(call().await.is_ok());
}

/// A call without a valid token fails with `LoginRequired`, after one attempt to refresh it.
#[tokio::test(flavor = "multi_thread")]
async fn lost_authorization_requires_a_login() {
    let server = ProtectedServer::start(Faults::default()).await;
    let (_folder, _path, credentials) = credential_file();
    server.login(&credentials).await.unwrap();
    let (_source, list) = tools_of(&server, &credentials).await;
    let token = list.get("token").unwrap();
    assert!(credentials.remove(&server.config().url).unwrap());
    let Err(ToolError::Failed { source: Some(error), .. }) =
        token.call(json!({}), &ToolContext::default()).await
    else {
        panic!("a failure")
    };
    assert_eq!(error.downcast_ref::<LoginRequired>().unwrap().scopes, [""; 0]);
}

/// A denied request, a foreign issuer and an unsafe URL fail the login, and nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn failed_login_stores_nothing() {
    for (faults, expected) in [
        (Faults { denies: true, ..Faults::default() }, "access_denied"),
        (Faults { issuer: Some("https://evil.example"), ..Faults::default() }, "issuer"),
        (Faults { authorization_endpoint: Some("javascript:alert(1)"), ..Faults::default() }, ""),
        // The metadata of a server must not lead to an address of another class.
        (Faults { authorization_server: Some("http://169.254.169.254"), ..Faults::default() }, ""),
        (Faults { authorization_server: Some("http://10.0.0.9"), ..Faults::default() }, ""),
        (Faults { has_reserved_token_endpoint: true, ..Faults::default() }, "token exchange"),
    ] {
        let server = ProtectedServer::start(faults.clone()).await;
        let (_folder, path, credentials) = credential_file();
        let error = server.login(&credentials).await.unwrap_err();
        let text = haft_core::text::ErrorChain(&error).to_string();
        assert!(text.to_lowercase().contains(expected), "{text}");
        assert!(!path.exists() || !fs::read_to_string(&path).unwrap().contains("access-"), "{text}");
        assert_eq!(server.state.token_requests.lock().unwrap().len(), 0, "{text}");
        if faults.authorization_endpoint.is_some() || faults.authorization_server.is_some() {
            assert!(server.state.challenge.lock().unwrap().is_empty(), "no URL was opened: {text}");
        }
    }
}

/// A server without authorization needs no login.
#[tokio::test(flavor = "multi_thread")]
async fn open_server_needs_no_login() {
    let server = WebServer::start("modern").await;
    let (_folder, _path, credentials) = credential_file();
    let outcome = login(&server.config(), &credentials, LoginOptions::default(), |_| ()).await;
    assert!(matches!(outcome, Err(LoginError::NotRequired)), "{outcome:?}");
}

/// An invalid file of tokens is an error that quotes no token.
#[test]
fn invalid_credential_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials.json");
    let credentials = CredentialFile::new(&path);
    for (text, expected) in
        [("{\"s3cret", "invalid at line 1"), (r#"{"version": 2, "servers": {}}"#, "newer than 1")]
    {
        fs::write(&path, text).unwrap();
        let error = credentials.contains("http://localhost/mcp").unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        assert!(credentials.remove("http://localhost/mcp").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

/// A document at another URL than the well-known ones can name any issuer. Its endpoints get
/// neither a code nor a secret nor an assertion: those of the issuer do.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_those_of_the_issuer() {
    let issuer = AuthorizationServer::start().await;
    let faults = Faults { document_issuer: Some(issuer.issuer.clone()), ..Faults::default() };
    let server = ProtectedServer::start(faults).await;
    for (number, expected) in [Some(issuer.issuer.clone()), None].into_iter().enumerate() {
        let (_folder, path, credentials) = credential_file();
        let mut options = LoginOptions::default();
        (options.client_id, options.issuer) = (Some("client-1".to_owned()), expected.clone());
        options.client_secret = Some(REGISTERED_SECRET.to_owned());
        server.login_with(&credentials, options).await.unwrap();
        assert_eq!(issuer.state.token_requests.lock().unwrap().len(), 2 * number + 1);
        let stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(stored["servers"][server.config().url]["issuer"], issuer.issuer);
        let mut client = ClientCredentials::with_secret(MACHINE.0, MACHINE.1);
        client = expected.into_iter().fold(client, ClientCredentials::with_issuer);
        login_client(&server.config(), &credentials, client).await.unwrap();
        assert_eq!(issuer.state.token_requests.lock().unwrap().len(), 2 * number + 2);
    }
    let pem = include_str!("../../src/oauth/signing_key/tests/ed25519.pem");
    let client = ClientCredentials::with_private_key("machine-2", pem).unwrap();
    let (_folder, _path, credentials) = credential_file();
    let error = login_client(&server.config(), &credentials, client).await.unwrap_err();
    assert!(
        haft_core::text::ErrorChain(&error).to_string().contains("accepts only other clients"),
        "{error}"
    );
    assert!(server.state.token_requests.lock().unwrap().is_empty());
}

/// An issuer without metadata at its own URLs is no authorization server.
#[tokio::test(flavor = "multi_thread")]
async fn issuer_without_metadata_gets_nothing() {
    let other = WebServer::start("modern").await;
    for issuer in [other.url.replace("/mcp", ""), "http://127.0.0.1:1".to_owned(), String::new()] {
        let faults = Faults { document_issuer: Some(issuer.clone()), ..Faults::default() };
        let server = ProtectedServer::start(faults).await;
        let (_folder, path, credentials) = credential_file();
        let mut options = LoginOptions::default();
        (options.client_id, options.client_secret) = (Some("a".to_owned()), Some("s3cret".to_owned()));
        options.issuer = Some(issuer.clone()).filter(|issuer| !issuer.is_empty());
        let failed = login(&server.config(), &credentials, options, |_| panic!("no URL is opened")).await;
        assert!(matches!(failed, Err(LoginError::Authorization(_))), "{issuer}: {failed:?}");
        let client = ClientCredentials::with_secret("a", "s3cret");
        assert!(login_client(&server.config(), &credentials, client).await.is_err(), "{issuer}");
        assert!(!path.exists() && server.state.token_requests.lock().unwrap().is_empty(), "{issuer}");
    }
}

/// Stores a login at `issuer` with an expired token for `server`.
fn store_expired_login(path: &std::path::Path, server: &ProtectedServer, issuer: Option<&str>) {
    let entry = json!({
        "client_id": "client-1", "client_secret": REGISTERED_SECRET, "granted_scopes": ["tools"],
        "token_response": {
            "access_token": "old", "token_type": "bearer", "expires_in": "60.5", "scope": ["tools"],
            "refresh_token": "stored-refresh",
        },
        "token_received_at": 1, "issuer": issuer,
    });
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, json!({"version": 1, "servers": {server.config().url: entry}}).to_string()).unwrap();
}

/// A stored refresh token and a stored secret go to the issuer that they are from, whatever the
/// server names.
#[tokio::test(flavor = "multi_thread")]
async fn stored_refresh_token_goes_to_its_issuer() {
    let issuer = AuthorizationServer::start().await;
    *issuer.state.has_client_secrets.lock().unwrap() = true;
    let name = Some(issuer.issuer.clone());
    for (faults, stored_issuer, is_refreshed) in [
        (Faults { document_issuer: name.clone(), ..Faults::default() }, Some(&*issuer.issuer), true),
        (Faults { has_no_metadata: true, ..Faults::default() }, Some(&*issuer.issuer), true),
        (Faults::default(), Some(&*issuer.issuer), false),
        (Faults { has_no_metadata: true, ..Faults::default() }, None, false),
        (Faults::default(), None, false),
        (Faults { document_issuer: name, ..Faults::default() }, Some("http://127.0.0.1:1"), false),
    ] {
        issuer.state.token_requests.lock().unwrap().clear();
        let server = ProtectedServer::start(faults).await;
        let (_folder, path, credentials) = credential_file();
        store_expired_login(&path, &server, stored_issuer);
        let config = server.config().with_credentials(credentials.clone());
        let error = McpSource::connect("protected", config).await.unwrap_err().reason;
        assert!(server.state.token_requests.lock().unwrap().is_empty(), "{error}");
        let refreshed = issuer.state.token_requests.lock().unwrap().first().cloned();
        let token = refreshed.map(|form| form["refresh_token"].clone());
        assert_eq!(token.as_deref(), is_refreshed.then_some("stored-refresh"), "{error}");
        assert!(stored_issuer.is_some() || error.contains("log in again"), "{error}");
    }
}

/// A login at another authorization server keeps no secret of the earlier one, and its refresh
/// token is not sent to the earlier one.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_two_issuers_are_kept_apart() {
    let server = ProtectedServer::start(Faults::default()).await;
    let (_folder, path, credentials) = credential_file();
    store_expired_login(&path, &server, Some("https://auth.example.org"));
    server.login(&credentials).await.unwrap();
    let read = || -> Value { serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap() };
    assert_eq!(read()["servers"][server.config().url].get("client_secret"), None);
    let (_source, list) = tools_of(&server, &credentials).await;
    store_expired_login(&path, &server, Some("https://auth.example.org"));
    let Err(ToolError::Failed { source: Some(error), .. }) =
        list.get("token").unwrap().call(json!({}), &ToolContext::default()).await
    else {
        panic!("a failure")
    };
    assert!(error.is::<LoginRequired>(), "{error}");
    assert_eq!(server.state.token_requests.lock().unwrap().len(), 1, "only that of the login");
}

/// Token and registration responses are read in the forms that servers send.
#[tokio::test(flavor = "multi_thread")]
async fn lenient_responses_are_read() {
    for (token_members, client_members) in [
        (json!({"expires_in": "3600", "scope": ["tools"]}), json!({"client_secret_expires_at": "0"})),
        (json!({"expires_in": 3599.5, "token_type": "BEARER"}), json!({"client_id_issued_at": null})),
        (json!({"expires_in": "soon", "token_type": null, "scope": null}), json!({"client_secret": null})),
        (json!({"expires_in": [], "scope": {}}), json!({"redirect_uris": null, "client_name": 1})),
    ] {
        let faults = Faults {
            token_members: Some(token_members.clone()),
            client_members: Some(client_members),
            ..Faults::default()
        };
        let server = ProtectedServer::start(faults).await;
        let (_folder, _path, credentials) = credential_file();
        server.login(&credentials).await.unwrap();
        "revoked".clone_into(&mut server.state.access_token.lock().unwrap());
        assert_eq!(token_of(&server, &credentials).await, "access-2", "{token_members}");
    }
}

/// An error with status 200 is an error. A rejected refresh token requires a login.
#[tokio::test(flavor = "multi_thread")]
async fn error_with_status_200_is_reported() {
    for (response, expected) in [
        (json!({"error": "invalid_grant"}), "requires authorization"),
        (json!({"error": "slow_down", "error_description": "wait"}), "slow_down: wait"),
        (json!({"token": "s3cret"}), "\"access_token\" of the token response is missing"),
    ] {
        let faults = Faults { refresh_response: Some(response), ..Faults::default() };
        let server = ProtectedServer::start(faults).await;
        let (_folder, _path, credentials) = credential_file();
        server.login(&credentials).await.unwrap();
        "revoked".clone_into(&mut server.state.access_token.lock().unwrap());
        let config = server.config().with_credentials(credentials.clone());
        let error = McpSource::connect("protected", config).await.unwrap_err().reason;
        assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
    }
}

/// The challenge is found in all forms of RFC 9110.
#[tokio::test(flavor = "multi_thread")]
async fn challenge_is_read_in_all_forms() {
    let challenges: [&[&str]; 4] = [
        &["Bearer resource_metadata = \"METADATA\" , scope = \"challenged\""],
        &["Basic realm=\"scope=x\", bearer scope=challenged, resource_metadata=METADATA"],
        &[
            "Negotiate",
            "Basic realm=\"Bearer\"",
            "Bearer scope=\"challenged\", Resource_Metadata=\"METADATA\"",
        ],
        &["Bearer realm=\"a \\\"scope=x\\\"\", scope=\"chal\\lenged\""],
    ];
    for challenge in challenges {
        let server = ProtectedServer::start(Faults { challenge: Some(challenge), ..Faults::default() }).await;
        let (_folder, _path, credentials) = credential_file();
        server.login(&credentials).await.unwrap();
        assert_eq!(*server.state.scopes.lock().unwrap(), "challenged", "{challenge:?}");
    }
}
