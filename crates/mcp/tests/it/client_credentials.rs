//! OAuth clients that act for themselves, and the secrets of clients.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use haft_core::{Toolset, tool::ToolPolicy};
use haft_mcp::{
    CredentialFile, HttpServer, HttpServiceConfig, LoginError, LoginOptions, McpConfig, McpSource,
    client_credentials::{ClientCredentials, login_client},
    login,
};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    authorization_server::{AuthorizationServer, MACHINE, REGISTERED_SECRET, serve_protected},
    http_serving::{Probe, Served},
    oauth::{browse, credential_file},
};

/// A server of haft that accepts the tokens of an authorization server.
struct Resource {
    issuer: AuthorizationServer,
    _server: Served,
    url: String,
}

impl Resource {
    async fn start() -> Self {
        let admin = Probe::with_policy("admin_probe", ToolPolicy::default().with_required_scope("admin"));
        let tools = Toolset::new().with_tools([Probe::new().0, admin]);
        let (issuer, url, server) = serve_protected(tools, HttpServiceConfig::default()).await;
        Self { issuer, _server: server, url }
    }

    fn server(&self) -> HttpServer {
        HttpServer::new(&self.url)
    }

    fn token_requests(&self) -> Vec<std::collections::BTreeMap<String, String>> {
        self.issuer.state.token_requests.lock().unwrap().clone()
    }
}

fn machine() -> ClientCredentials {
    ClientCredentials::with_secret(MACHINE.0, MACHINE.1)
}

async fn connect(server: HttpServer) -> Result<Toolset, String> {
    let source = timeout(Duration::from_secs(10), McpSource::connect("machine", server)).await.unwrap();
    source.map(|source| Toolset::new().with_source(source)).map_err(|error| error.reason)
}

/// Returns the principal of a call.
async fn principal(tools: &Toolset) -> String {
    tools.call("probe", json!({})).await.model_text().into_owned()
}

/// A client without a user gets a token with its secret, for the scopes of the challenge and the
/// URL of the server, and shares it between its calls.
#[tokio::test(flavor = "multi_thread")]
async fn client_gets_a_token_with_its_secret() {
    let resource = Resource::start().await;
    let tools = connect(resource.server().with_client_credentials(machine())).await.unwrap();
    let calls = futures::future::join_all((0..8).map(|_| principal(&tools))).await;
    assert!(calls.iter().all(|id| *id == format!("{}#{}", resource.issuer.issuer, MACHINE.0)), "{calls:?}");
    let requests = resource.token_requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["grant_type"], "client_credentials");
    assert_eq!((&requests[0]["scope"], &requests[0]["resource"]), (&"tools".to_owned(), &resource.url));
    assert!(!requests[0].contains_key("client_secret"), "the secret is in the header");
}

/// If a call needs a further scope, the client requests a token with it, once.
#[tokio::test(flavor = "multi_thread")]
async fn client_requests_a_further_scope() {
    let resource = Resource::start().await;
    let tools = connect(resource.server().with_client_credentials(machine())).await.unwrap();
    for _ in 0..2 {
        let result = tools.call("admin_probe", json!({})).await;
        assert!(result.model_text().contains(MACHINE.0), "{}", result.model_text());
    }
    let scopes: Vec<_> = resource.token_requests().iter().map(|request| request["scope"].clone()).collect();
    assert_eq!(scopes, ["tools", "tools admin"]);
}

/// A secret with reserved characters is encoded in both forms of client authentication.
#[tokio::test(flavor = "multi_thread")]
async fn secret_is_sent_as_the_authorization_server_reads_it() {
    let resource = Resource::start().await;
    let methods = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    *resource.issuer.state.metadata.lock().unwrap() = methods;
    assert!(connect(resource.server().with_client_credentials(machine())).await.is_ok());
    assert_eq!(resource.token_requests()[0]["client_secret"], MACHINE.1);
    let methods = json!({"token_endpoint_auth_methods_supported": ["tls_client_auth"]});
    *resource.issuer.state.metadata.lock().unwrap() = methods;
    let error = connect(resource.server().with_client_credentials(machine())).await.unwrap_err();
    assert!(error.contains("accepts only other clients: tls_client_auth"), "{error}");
}

/// A call with its own authorization is not sent with the token of the client.
#[tokio::test(flavor = "multi_thread")]
async fn authorization_of_a_call_replaces_the_token() {
    let resource = Resource::start().await;
    let server = resource.server().with_client_credentials(machine()).with_call_headers(|_, _| async {
        Ok([("Authorization".to_owned(), "Bearer of-a-user".to_owned())].into_iter().collect())
    });
    let tools = connect(server).await.unwrap();
    // The server does not know the token of the user.
    assert!(tools.call("probe", json!({})).await.into_output().is_err());
}

/// A token is renewed before it expires, and once if the server rejects it.
#[tokio::test(flavor = "multi_thread")]
async fn token_is_renewed() {
    let resource = Resource::start().await;
    *resource.issuer.state.lifetime.lock().unwrap() = 0;
    let tools = connect(resource.server().with_client_credentials(machine())).await.unwrap();
    let before = resource.token_requests().len();
    assert!(principal(&tools).await.contains(MACHINE.0));
    // The subscription to list changes also needs a token.
    assert!(resource.token_requests().len() > before, "an expired token is not used");
    *resource.issuer.state.lifetime.lock().unwrap() = 3600;
    assert!(principal(&tools).await.contains(MACHINE.0));
    let before = resource.token_requests().len();
    assert!(principal(&tools).await.contains(MACHINE.0));
    assert_eq!(resource.token_requests().len(), before, "a valid token is used again");
    // The server no longer knows the key of the token, and does not fetch it again at once.
    resource.issuer.rotate_key();
    let tools = connect(resource.server().with_client_credentials(machine())).await;
    assert!(tools.unwrap_err().contains("requires authorization"));
    assert_eq!(resource.token_requests().len(), before + 2, "one attempt with another token");
}

/// The client is not identified to another authorization server than the expected one, and a
/// rejected secret is an error without the secret.
#[tokio::test(flavor = "multi_thread")]
async fn secret_is_kept_from_other_authorization_servers() {
    let resource = Resource::start().await;
    let expected = machine().with_issuer("https://auth.example.org");
    let error = connect(resource.server().with_client_credentials(expected)).await.unwrap_err();
    assert!(error.contains("not \"https://auth.example.org\""), "{error}");
    *resource.issuer.state.metadata.lock().unwrap() =
        json!({"token_endpoint": "http://169.254.169.254/token"});
    let error = connect(resource.server().with_client_credentials(machine())).await.unwrap_err();
    assert!(error.contains("no permitted address"), "{error}");
    assert!(resource.token_requests().is_empty());
    *resource.issuer.state.metadata.lock().unwrap() = json!({});
    let wrong = ClientCredentials::with_secret(MACHINE.0, "wr0ng");
    assert!(!format!("{wrong:?}").contains("wr0ng"));
    let error = connect(resource.server().with_client_credentials(wrong)).await.unwrap_err();
    assert!(error.contains("invalid_client") && !error.contains("wr0ng"), "{error}");
    let mut options = LoginOptions::default();
    options.issuer = Some("https://auth.example.org".to_owned());
    let (_folder, _path, credentials) = credential_file();
    let failed = login(&resource.server(), &credentials, options, |_| panic!("no URL is opened")).await;
    assert!(matches!(failed, Err(LoginError::OtherIssuer { .. })), "{failed:?}");
}

/// A stored client needs no login in another process, and its secret is in a file that only the
/// owner can read.
#[tokio::test(flavor = "multi_thread")]
async fn stored_client_renews_its_token() {
    let resource = Resource::start().await;
    let (_folder, path, credentials) = credential_file();
    login_client(&resource.server(), &credentials, machine().with_scopes(["tools"])).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let server = || resource.server().with_credentials(CredentialFile::new(&path));
    assert!(principal(&connect(server()).await.unwrap()).await.contains(MACHINE.0));
    assert_eq!(resource.token_requests().len(), 1, "the stored token is used");
    // The stored token has expired.
    let mut content: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    content["servers"][&resource.url]["token_received_at"] = 1.into();
    fs::write(&path, content.to_string()).unwrap();
    assert!(principal(&connect(server()).await.unwrap()).await.contains(MACHINE.0));
    let requests = resource.token_requests();
    assert_eq!((requests.len(), &*requests[1]["scope"]), (2, "tools"));
    // The server now names another authorization server, which does not get the secret.
    content["servers"][&resource.url]["issuer"] = "https://auth.example.org".into();
    fs::write(&path, content.to_string()).unwrap();
    let error = connect(server()).await.unwrap_err();
    assert!(error.contains("not \"https://auth.example.org\""), "{error}");
    assert_eq!(resource.token_requests().len(), 2);
}

/// The secret of a registered client is stored, so that its token is refreshed after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn secret_of_a_registered_client_survives_a_restart() {
    let resource = Resource::start().await;
    *resource.issuer.state.has_client_secrets.lock().unwrap() = true;
    let (_folder, path, credentials) = credential_file();
    let browser = |url: &str| drop(tokio::spawn(browse(Url::parse(url).unwrap())));
    let server = resource.server();
    let login = login(&server, &credentials, LoginOptions::default(), browser);
    timeout(Duration::from_secs(10), login).await.unwrap().unwrap();
    for number in 2..4 {
        let mut content: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let entry = &mut content["servers"][&resource.url];
        assert_eq!(entry["client_secret"], REGISTERED_SECRET);
        entry["token_received_at"] = 1.into();
        fs::write(&path, content.to_string()).unwrap();
        let server = resource.server().with_credentials(CredentialFile::new(&path));
        assert!(principal(&connect(server).await.unwrap()).await.ends_with("#ann"));
        let requests = resource.token_requests();
        assert_eq!((requests.len(), &*requests[number - 1]["grant_type"]), (number, "refresh_token"));
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// An entry of `mcp.json` can have the client.
#[tokio::test(flavor = "multi_thread")]
async fn client_can_be_in_the_configuration() {
    let resource = Resource::start().await;
    let oauth = json!({
        "grantType": "client_credentials", "clientId": MACHINE.0, "clientSecret": MACHINE.1,
        "scope": "tools extra", "issuer": resource.issuer.issuer,
    });
    let config = json!({"mcpServers": {"machine": {"url": resource.url, "oauth": oauth}}});
    let source = McpConfig::from_json(&config.to_string()).unwrap().start().remove(0);
    source.wait_until_ready().await.unwrap();
    let tools = Toolset::new().with_source(source);
    assert!(principal(&tools).await.contains(MACHINE.0));
    assert_eq!(resource.token_requests()[0]["scope"], "tools extra");
    for (oauth, expected) in [
        (
            json!({"grantType": "client_credentials", "clientId": "a", "privateKeyFile": "/nonexistent"}),
            "\"privateKeyFile\" of \"oauth\": No such file",
        ),
        (
            json!({"grantType": "client_credentials", "clientId": "a"}),
            "\"clientSecret\" of \"oauth\" is missing",
        ),
        (json!({"grantType": "implicit"}), "\"grantType\" of \"oauth\" must be"),
        (
            json!({"grantType": "client_credentials", "clientId": 1}),
            "\"clientId\" of \"oauth\" must be a string",
        ),
    ] {
        let config = json!({"mcpServers": {"machine": {"url": resource.url, "oauth": oauth}}});
        let config = McpConfig::from_json(&config.to_string()).unwrap();
        let (_, reason) = config.invalid_entries().next().unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
}
