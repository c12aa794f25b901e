//! An authorization server of the tests: it issues signed access tokens.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use haft_core::Toolset;
use haft_mcp::{HttpServiceConfig, authorization::ProtectedResource};
use reqwest::Url;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    http_serving::{Served, serve_at},
    web::{Request, read_request, write},
};

/// The id and the secret of the client for the grant `client_credentials`.
pub(crate) const MACHINE: (&str, &str) = ("machine-1", "m4chine-s3cret");
/// The secret of dynamically registered clients.
pub(crate) const REGISTERED_SECRET: &str = "reg1stered-s3cret";

/// A running authorization server. Dropping it closes its socket and its connections.
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) state: Arc<State>,
    _tasks: JoinSet<()>,
}

pub(crate) struct State {
    key: Mutex<SigningKey>,
    /// The requests for metadata, keys and tokens, such as `GET /keys`.
    requests: Mutex<Vec<String>>,
    /// The form parameters of the requests to the token endpoint.
    pub(crate) token_requests: Mutex<Vec<BTreeMap<String, String>>>,
    /// The parameters of the last authorization request.
    authorization: Mutex<BTreeMap<String, String>>,
    /// Members that replace those of the metadata.
    pub(crate) metadata: Mutex<Value>,
    /// The lifetime of the tokens, in seconds.
    pub(crate) lifetime: Mutex<u64>,
    /// `true` if a registered client gets a secret, and must authenticate with it.
    pub(crate) has_client_secrets: Mutex<bool>,
}

struct SigningKey {
    id: usize,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    fn new(id: usize) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self { id, pair: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap() }
    }

    fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
        json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id.to_string(), "x": x, "y": y})
    }
}

/// Serves `tools` with `config` as a protected resource, which requires the scope `tools`. Returns
/// the authorization server, the URL of the resource, and its server.
pub(crate) async fn serve_protected(
    tools: Toolset,
    config: HttpServiceConfig,
) -> (AuthorizationServer, String, Served) {
    let issuer = AuthorizationServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let resource = ProtectedResource::new(&url).unwrap().with_issuer(&issuer.issuer).unwrap();
    let config = config.with_protected_resource(resource.with_required_scopes(["tools"]));
    (issuer, url, serve_at(listener, tools, config))
}

impl AuthorizationServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            key: Mutex::new(SigningKey::new(1)),
            requests: Mutex::default(),
            token_requests: Mutex::default(),
            authorization: Mutex::default(),
            metadata: Mutex::new(json!({})),
            lifetime: Mutex::new(3600),
            has_client_secrets: Mutex::new(false),
        });
        let mut tasks = JoinSet::new();
        let (shared, own_issuer) = (Arc::clone(&state), issuer.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (state, issuer) = (Arc::clone(&shared), own_issuer.clone());
                connections.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read_request(&mut stream).await
                        && respond(stream.get_mut(), &request, &state, &issuer).await
                    {}
                });
            }
        });
        Self { issuer, state, _tasks: tasks }
    }

    /// Replaces the signing key.
    pub(crate) fn rotate_key(&self) {
        let mut key = self.state.key.lock().unwrap();
        *key = SigningKey::new(key.id + 1);
    }

    /// Returns the number of requests such as `GET /keys`.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.state.requests.lock().unwrap().iter().filter(|request| *request == line).count()
    }

    /// Returns a token of `ann` for `resource` with `scope`, and with `changes` of its claims.
    pub(crate) fn token(&self, resource: &str, scope: &str, changes: &Value) -> String {
        let mut claims = self.state.claims(&self.issuer, "ann", resource, scope);
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.state.sign(&claims)
    }
}

impl State {
    fn claims(&self, issuer: &str, subject: &str, resource: &str, scope: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let expiry = now + *self.lifetime.lock().unwrap();
        json!({"iss": issuer, "sub": subject, "aud": resource, "exp": expiry, "scope": scope})
    }

    fn sign(&self, claims: &Value) -> String {
        let key = self.key.lock().unwrap();
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": key.id.to_string()});
        let message = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = key.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn metadata(&self, issuer: &str) -> Value {
        let mut metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "jwks_uri": format!("{issuer}/keys"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
        });
        for (name, value) in self.metadata.lock().unwrap().as_object().unwrap() {
            metadata[name] = value.clone();
        }
        metadata
    }

    /// Returns the response of the token endpoint, or `None` if the client is not authenticated.
    fn grant(&self, request: &Request, issuer: &str) -> Option<Value> {
        let form = parameters(request.body.as_str().unwrap_or_default());
        self.token_requests.lock().unwrap().push(form.clone());
        let authorization = self.authorization.lock().unwrap().clone();
        let client = client_of(request, &form);
        let (subject, scope) = match form["grant_type"].as_str() {
            "client_credentials" if client == (MACHINE.0.to_owned(), MACHINE.1.to_owned()) => {
                (MACHINE.0, form.get("scope").cloned().unwrap_or_default())
            }
            "authorization_code" | "refresh_token"
                if !*self.has_client_secrets.lock().unwrap() || client.1 == REGISTERED_SECRET =>
            {
                if let Some(verifier) = form.get("code_verifier") {
                    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
                    assert_eq!(challenge, authorization["code_challenge"]);
                }
                ("ann", authorization.get("scope").cloned().unwrap_or_default())
            }
            _ => return None,
        };
        let claims = self.claims(issuer, subject, &form["resource"], &scope);
        let mut response = json!({
            "access_token": self.sign(&claims), "token_type": "Bearer", "scope": scope,
            "expires_in": *self.lifetime.lock().unwrap(),
        });
        if subject == "ann" {
            response["refresh_token"] = "refresh-1".into();
        }
        Some(response)
    }
}

/// Returns the id and the secret of the client, from the header `Authorization` or from `form`.
fn client_of(request: &Request, form: &BTreeMap<String, String>) -> (String, String) {
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    match request.header("authorization").strip_prefix("Basic ") {
        Some(encoded) => {
            let text = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
            let (id, secret) = text.split_once(':').unwrap();
            (id.to_owned(), secret.to_owned())
        }
        None => (field("client_id"), field("client_secret")),
    }
}

fn parameters(text: &str) -> BTreeMap<String, String> {
    let url = Url::parse(&format!("http://localhost/?{text}")).unwrap();
    url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// Responds to `request`. Returns `false` if the connection is closed.
async fn respond(stream: &mut TcpStream, request: &Request, state: &State, issuer: &str) -> bool {
    let (path, query) = request.line.split_once('?').unwrap_or((&request.line, ""));
    state.requests.lock().unwrap().push(path.to_owned());
    let body = match path {
        "GET /.well-known/oauth-authorization-server" => state.metadata(issuer),
        "GET /keys" => json!({"keys": [state.key.lock().unwrap().jwk()]}),
        "POST /register" => {
            let mut client = request.body.clone();
            client["client_id"] = "client-1".into();
            if *state.has_client_secrets.lock().unwrap() {
                client["client_secret"] = REGISTERED_SECRET.into();
            }
            let json = "Content-Type: application/json\r\n";
            return write(stream, "201 Created", json, &client.to_string()).await;
        }
        "GET /authorize" => {
            let parameters = parameters(query);
            let location = format!(
                "{}?code=code-1&state={}&iss={issuer}",
                parameters["redirect_uri"], parameters["state"]
            );
            *state.authorization.lock().unwrap() = parameters;
            return write(stream, "302 Found", &format!("Location: {location}\r\n"), "").await;
        }
        "POST /token" => match state.grant(request, issuer) {
            Some(response) => response,
            None => {
                let json = "Content-Type: application/json\r\n";
                let body = json!({"error": "invalid_client"}).to_string();
                return write(stream, "401 Unauthorized", json, &body).await;
            }
        },
        _ => return write(stream, "404 Not Found", "", "").await,
    };
    write(stream, "200 OK", "Content-Type: application/json\r\n", &body.to_string()).await
}
