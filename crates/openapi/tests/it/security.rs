//! Credentials: their places, their principals, and the origins that receive them.

use expect_test::expect;
use haft_core::{
    ToolContext, Toolset,
    call::{BoxError, FailureKind},
    tool::Principal,
};
use haft_openapi::{Credentials, OpenApiError, OpenApiOptions, OpenApiSource};
use serde_json::json;

use crate::{
    call_failed, call_ok, document, tools_with,
    web::{self, Api},
};

const PATHS: &str = r#"
  /header: {get: {operationId: header, security: [{key: []}]}}
  /query: {get: {operationId: query, security: [{queryKey: []}], parameters: [{name: token, in: query, schema: {type: string}}]}}
  /cookie: {get: {operationId: cookie, security: [{cookieKey: []}]}}
  /bearer: {get: {operationId: bearer, security: [{bearer: []}]}}
  /oauth: {get: {operationId: oauth, security: [{oauth: [read]}]}}
  /basic: {get: {operationId: basic, security: [{basic: []}]}}
  /both: {get: {operationId: both, security: [{digest: []}, {key: [], bearer: []}]}}
  /public: {get: {operationId: public, security: []}}
  /optional: {get: {operationId: optional, security: [{}, {bearer: []}]}}
"#;
const COMPONENTS: &str = r#"
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Api-Key}
    queryKey: {type: apiKey, in: query, name: token}
    cookieKey: {type: apiKey, in: cookie, name: sid}
    bearer: {type: http, scheme: Bearer}
    oauth: {type: oauth2, flows: {}}
    basic: {type: http, scheme: basic}
    digest: {type: http, scheme: digest}
"#;

fn secured(api: &Api, options: &OpenApiOptions) -> Toolset {
    tools_with(&document(api, PATHS, COMPONENTS), options)
}

fn all_credentials() -> Credentials {
    Credentials::new()
        .with("key", "k3y")
        .with("queryKey", "q&y")
        .with("cookieKey", "c;k==")
        .with("bearer", "t0ken")
        .with("oauth", "0auth")
        .with("basic", "ann:s3cret")
}

#[tokio::test]
async fn credentials_follow_their_scheme() {
    let api = Api::ok().await;
    let tools = secured(&api, &OpenApiOptions::default().with_credentials(all_credentials()));
    let mut requests = String::new();
    for tool in ["header", "query", "cookie", "bearer", "oauth", "basic", "both", "public", "optional"] {
        call_ok(&tools, tool, json!({})).await;
        let text = api.take_request().describe(&["authorization", "cookie", "x-api-key"]);
        requests.push_str(&format!("{}\n", text.trim_end().replace('\n', " | ")));
    }
    expect![[r#"
        GET /header | x-api-key: k3y
        GET /query?token=q%26y
        GET /cookie | cookie: sid=c%3Bk==
        GET /bearer | authorization: Bearer t0ken
        GET /oauth | authorization: Bearer 0auth
        GET /basic | authorization: Basic YW5uOnMzY3JldA==
        GET /both | authorization: Bearer t0ken | x-api-key: k3y
        GET /public
        GET /optional | authorization: Bearer t0ken
    "#]]
    .assert_eq(&requests);
}

/// A credential is no argument: neither a model nor a caller can set it.
#[tokio::test]
async fn credentials_are_no_arguments() {
    let api = Api::ok().await;
    let tools = secured(&api, &OpenApiOptions::default());
    let list = tools.list(&haft_core::toolset::ListContext::default()).await;
    let schema = list.get("query").unwrap().definition().input_schema().as_value();
    assert_eq!(schema["properties"], json!({}));
}

/// Each user's own credential is sent. A failure of the provider sends no request.
#[tokio::test]
async fn credentials_belong_to_the_principal() {
    let api = Api::ok().await;
    let options = OpenApiOptions::default().with_credential_provider(|principal| async move {
        let user = principal.ok_or("s3cret database is down")?;
        Ok::<_, BoxError>(Credentials::new().with("bearer", format!("token-of-{}", user.id)))
    });
    let tools = secured(&api, &options);
    for user in ["ann", "ben"] {
        let principal = Principal { id: user.to_owned(), ..Principal::default() };
        let cx = ToolContext::default().with_principal(principal);
        let result = tools.call_with("bearer", json!({}), &cx).await;
        assert!(result.failure().is_none());
        assert_eq!(api.take_request().header("authorization"), format!("Bearer token-of-{user}"));
    }
    let (_, message) = call_failed(&tools, "bearer", json!({})).await;
    assert_eq!(message, "there are no credentials for this call");
    assert!(api.requests().is_empty());
}

/// The credentials of a principal replace the shared ones of the same schemes.
#[tokio::test]
async fn principals_may_have_fixed_credentials() {
    let api = Api::ok().await;
    let options = OpenApiOptions::default()
        .with_credentials(Credentials::new().with("bearer", "shared"))
        .with_principal_credentials("ann", Credentials::new().with("bearer", "token-of-ann"));
    let tools = secured(&api, &options);
    for (user, token) in [(Some("ann"), "token-of-ann"), (Some("ben"), "shared"), (None, "shared")] {
        let mut cx = ToolContext::default();
        if let Some(user) = user {
            cx = cx.with_principal(Principal { id: user.to_owned(), ..Principal::default() });
        }
        let result = tools.call_with("bearer", json!({}), &cx).await;
        assert!(result.failure().is_none());
        assert_eq!(api.take_request().header("authorization"), format!("Bearer {token}"));
    }
    assert!(!format!("{options:?}").contains("token-of-ann"));
}

#[tokio::test]
async fn missing_credential_is_named_and_a_rejected_one_is_not_shown() {
    let api = Api::start(|request| {
        web::json(401, format!("{{\"error\": \"bad token {}\"}}", request.header("authorization")))
    })
    .await;
    let (_, message) = call_failed(&secured(&api, &OpenApiOptions::default()), "both", json!({})).await;
    assert!(message.ends_with("for the security schemes of the operation: digest, key, bearer"), "{message}");
    let options = OpenApiOptions::default().with_credentials(all_credentials());
    let (_, message) = call_failed(&secured(&api, &options), "bearer", json!({})).await;
    assert_eq!(message, r#"HTTP 401 Unauthorized: {"error": "bad token Bearer [redacted]"}"#);
    let options = OpenApiOptions::default().with_header("Authorization", "Bearer s3cret-header");
    let (_, message) = call_failed(&secured(&api, &options), "public", json!({})).await;
    assert_eq!(message, r#"HTTP 401 Unauthorized: {"error": "bad token [redacted]"}"#);
}

/// A redirect to another origin would send the credential there.
#[tokio::test]
async fn credentials_stay_at_the_origin() {
    let thief = Api::ok().await;
    let target = thief.url.clone();
    let api = Api::start(move |_| (307, vec![("location", target.clone())], Vec::new())).await;
    let tools = secured(&api, &OpenApiOptions::default().with_credentials(all_credentials()));
    let (_, message) = call_failed(&tools, "header", json!({})).await;
    assert_eq!(message, format!("the server redirects to another origin: {}", thief.url));
    assert!(thief.requests().is_empty());
}

#[test]
fn unknown_scheme_is_an_error() {
    let text = "openapi: 3.0.0\nservers: [{url: 'http://localhost'}]\npaths: {}\n";
    let options = OpenApiOptions::default().with_credentials(Credentials::new().with("bearer", "s3cret"));
    let error = OpenApiSource::from_text("test", text, &options).unwrap_err();
    assert!(matches!(error, OpenApiError::InvalidOption { option: "credentials", .. }));
    expect![[r#"invalid option `credentials`: the document has no security scheme "bearer"; known: none"#]]
        .assert_eq(&error.to_string());
}

/// A credential with a line break fails the call, and is not shown.
#[tokio::test]
async fn invalid_credential_sends_no_request() {
    let api = Api::ok().await;
    let credentials = Credentials::new().with("bearer", "s3cret\n");
    let tools = secured(&api, &OpenApiOptions::default().with_credentials(credentials));
    let (kind, message) = call_failed(&tools, "bearer", json!({})).await;
    assert_eq!(kind, FailureKind::Failed);
    assert!(message.contains("has characters that a header cannot have") && !message.contains("s3cret"));
    assert!(api.requests().is_empty());
}

/// A header of the program is no argument: a model cannot choose another tenant.
#[tokio::test]
async fn fixed_headers_are_no_arguments() {
    let paths = "  /a:\n    get:\n      operationId: a\n      parameters:\n      \
                 - {name: X-Tenant, in: header, required: true, schema: {type: string}}\n      \
                 - {name: theme, in: cookie, schema: {type: string}}\n";
    let api = Api::ok().await;
    let options = OpenApiOptions::default().with_header("x-tenant", "acme").with_header("Cookie", "id=1");
    let tools = tools_with(&document(&api, paths, "  schemas: {}\n"), &options);
    call_ok(&tools, "a", json!({"theme": "dark"})).await;
    expect![[r#"
        GET /a
        x-tenant: acme
        cookie: id=1; theme=dark
    "#]]
    .assert_eq(&api.take_request().describe(&["x-tenant", "cookie"]));
}

/// An object whose members become parameters cannot replace a credential or another parameter.
#[tokio::test]
async fn exploded_object_cannot_set_other_parameters() {
    let paths = r#"
  /search: {get: {operationId: search, security: [{queryKey: []}], parameters: [
    {name: filter, in: query, schema: {type: object, additionalProperties: {type: string}}},
    {name: limit, in: query, schema: {type: integer}}]}}
"#;
    let api = Api::ok().await;
    let options = OpenApiOptions::default().with_credentials(all_credentials());
    let tools = tools_with(&document(&api, paths, COMPONENTS), &options);
    for name in ["token", "limit"] {
        let (kind, message) = call_failed(&tools, "search", json!({"filter": {name: "x"}})).await;
        assert_eq!(kind, FailureKind::InvalidArguments);
        assert!(message.contains("is another parameter of the operation"), "{message}");
    }
    call_ok(&tools, "search", json!({"filter": {"color": "red"}, "limit": 3})).await;
    assert_eq!(api.take_request().line, "GET /search?color=red&limit=3&token=q%26y");
}

/// An object whose members become parameters cannot repeat a parameter in the path of the
/// operation, or a cookie of the program.
#[tokio::test]
async fn exploded_object_cannot_repeat_fixed_parameters() {
    let paths = r#"
  /search?kind=open&page%5Bsize%5D=5: {get: {operationId: search, security: [{queryKey: []}], parameters: [
    {name: filter, in: query, schema: {type: object}},
    {name: deep, in: query, style: deepObject, schema: {type: object}},
    {name: 'deep[a]', in: query, schema: {type: string}},
    {name: kind, in: query, schema: {type: string}},
    {name: prefs, in: cookie, schema: {type: object}}]}}
"#;
    let api = Api::ok().await;
    let options =
        OpenApiOptions::default().with_credentials(all_credentials()).with_header("Cookie", "sid=1; theme=x");
    let tools = tools_with(&document(&api, paths, COMPONENTS), &options);
    for arguments in [
        json!({"filter": {"kind": "all"}}),
        json!({"filter": {"Kind": "all"}}),
        json!({"filter": {"kind[]": "all"}}),
        json!({"filter": {"page[size]": "9"}}),
        json!({"filter": {"token[0]": "x"}}),
        json!({"deep": {"a": "x"}}),
        json!({"prefs": {"theme": "x"}}),
        json!({"prefs": {"sid": "2"}}),
    ] {
        let (kind, message) = call_failed(&tools, "search", arguments).await;
        assert_eq!(kind, FailureKind::InvalidArguments);
        assert!(message.contains("is another parameter of the operation"), "{message}");
    }
    // The path has the value of the parameter.
    let (_, message) = call_failed(&tools, "search", json!({"kind": "all"})).await;
    assert!(message.contains("unknown property \"kind\""), "{message}");
    call_ok(&tools, "search", json!({"filter": {"color": "red"}, "deep": {"b": 1}, "prefs": {"lang": "en"}}))
        .await;
    let request = api.take_request();
    assert_eq!(request.line, "GET /search?kind=open&page%5Bsize%5D=5&color=red&deep%5Bb%5D=1&token=q%26y");
    assert_eq!(request.header("cookie"), "sid=1; theme=x; lang=en");
}

/// A server sends a request with `TRACE` back, and the model would read the credentials.
#[test]
fn methods_that_show_credentials_are_refused() {
    let text = "openapi: 3.2.0\nservers: [{url: 'http://localhost'}]\npaths:\n  /a:\n    trace: {operationId: echo}\n    \
                get: {operationId: read}\n    additionalOperations: {CONNECT: {operationId: tunnel}, track: {operationId: track}}\n";
    let source = OpenApiSource::from_text("test", text, &OpenApiOptions::default()).unwrap();
    let names: Vec<_> = source.tool_list().names().map(ToString::to_string).collect();
    assert_eq!(names, ["read"]);
    let diagnostics: Vec<_> = source.tool_list().diagnostics().iter().map(ToString::to_string).collect();
    expect![[r#"
        tool "echo" of openapi:test is quarantined: the method TRACE is not supported, because it shows the credentials of a request to others
        tool "tunnel" of openapi:test is quarantined: the method CONNECT is not supported, because it shows the credentials of a request to others
        tool "track" of openapi:test is quarantined: the method TRACK is not supported, because it shows the credentials of a request to others"#]].assert_eq(&diagnostics.join("\n"));
}

/// A server may repeat a credential in another encoding.
#[tokio::test]
async fn encoded_credentials_are_not_shown() {
    let secret = "p@ss/w\"rd+1";
    for echo in [
        "p%40ss%2Fw%22rd%2B1",
        "p%40ss%2fw%22rd%2b1",
        r#"p@ss/w\"rd+1"#,
        r"p\u0040ss\/w\u0022rd+1",
        "p&#64;ss&#x2f;w&quot;rd+1",
        "cEBzcy93InJkKzE=",
        "7040 73732f7722 72642b31".replace(' ', "").as_str(),
    ] {
        let body = format!("rejected: {echo} (end)");
        let api = Api::start(move |_| {
            (401, vec![("content-type", "text/plain".to_owned())], body.clone().into_bytes())
        })
        .await;
        for (tool, options) in [
            ("bearer", OpenApiOptions::default().with_credentials(Credentials::new().with("bearer", secret))),
            (
                "basic",
                OpenApiOptions::default()
                    .with_credentials(Credentials::new().with("basic", format!("ann:{secret}"))),
            ),
            ("public", OpenApiOptions::default().with_header("X-Token", format!("Token {secret}"))),
            ("public", OpenApiOptions::default().with_header("Cookie", format!("a=1; sid={secret}"))),
        ] {
            let (_, message) = call_failed(&secured(&api, &options), tool, json!({})).await;
            assert!(message.ends_with("rejected: [redacted] (end)"), "{tool}: {message}");
        }
    }
}
