use async_trait::async_trait;
use expect_test::expect;
use haft_core::tool::Principal;

use super::{
    ProtectedResource, TokenError, TokenVerifier, bearer_challenge, insufficient_scope, parse_identifier,
};

/// A verifier that accepts one token.
struct OneToken(&'static str, TokenError);

#[async_trait]
impl TokenVerifier for OneToken {
    async fn verify(&self, token: &str) -> Result<Principal, TokenError> {
        match token == self.0 {
            true => Ok(Principal { id: self.0.to_owned(), ..Principal::default() }),
            false => Err(self.1.clone()),
        }
    }
}

fn resource(url: &str) -> ProtectedResource {
    ProtectedResource::new(url).unwrap()
}

#[test]
fn identifier_is_an_absolute_url() {
    for url in ["https://mcp.example.org", "http://localhost:8000/mcp", "https://[::1]:1/a/b"] {
        assert!(parse_identifier(url).is_ok(), "{url}");
    }
    let error = |url: &str| ProtectedResource::new(url).unwrap_err().to_string();
    expect![[r#"the URL "mcp.example.org" does not begin with http:// or https://: write one such as https://tools.example.org/mcp"#]]
        .assert_eq(&error("mcp.example.org"));
    for (url, reason) in [
        ("https://mcp.example.org/#a", "has a fragment"),
        ("https://mcp.example.org/?a=b", "has a query"),
        ("https://ann@mcp.example.org/", "has a user name"),
        ("ftp://mcp.example.org/", "does not begin with"),
        ("https:///mcp", "is no URL"),
        ("https://mcp.example.org/a\"b", "is no URL"),
        ("", "is no URL"),
    ] {
        assert!(error(url).contains(reason), "{}", error(url));
    }
}

#[test]
fn metadata_is_at_the_path_of_the_resource() {
    for (url, metadata_url) in [
        ("https://mcp.example.org", "https://mcp.example.org/.well-known/oauth-protected-resource"),
        ("https://mcp.example.org/", "https://mcp.example.org/.well-known/oauth-protected-resource"),
        (
            "https://mcp.example.org:8443/a/mcp",
            "https://mcp.example.org:8443/.well-known/oauth-protected-resource/a/mcp",
        ),
    ] {
        let resource = resource(url);
        assert_eq!(resource.metadata_url(), metadata_url);
        assert!(resource.is_metadata_path("/.well-known/oauth-protected-resource"));
    }
    let resource = resource("https://mcp.example.org/mcp").with_required_scopes(["tools"]);
    assert!(resource.is_metadata_path("/.well-known/oauth-protected-resource/mcp"));
    assert!(!resource.is_metadata_path("/.well-known/oauth-protected-resource/other"));
    let unavailable = TokenError::unavailable("later");
    let resource = resource.with_verifier("https://auth.example.org", OneToken("a", unavailable)).unwrap();
    expect![[r#"
        {
          "resource": "https://mcp.example.org/mcp",
          "authorization_servers": [
            "https://auth.example.org"
          ],
          "bearer_methods_supported": [
            "header"
          ],
          "scopes_supported": [
            "tools"
          ]
        }"#]]
    .assert_eq(&format!("{:#}", resource.metadata()));
}

#[test]
fn challenges_name_the_metadata_and_the_scopes() {
    let plain = resource("https://mcp.example.org/mcp");
    let scoped = plain.clone().with_required_scopes(["tools", "read"]);
    let challenges = [
        bearer_challenge(Some(&plain), None),
        bearer_challenge(Some(&scoped), None),
        bearer_challenge(Some(&scoped), Some("the token \"a\\\r\n\" has expired")),
        insufficient_scope(&scoped, ["tools", "write"]),
        bearer_challenge(None, None),
    ];
    let text: Vec<_> = challenges.iter().map(|it| it.to_str().unwrap()).collect();
    expect![[r#"
        Bearer resource_metadata="https://mcp.example.org/.well-known/oauth-protected-resource/mcp"
        Bearer resource_metadata="https://mcp.example.org/.well-known/oauth-protected-resource/mcp", scope="tools read"
        Bearer error="invalid_token", error_description="the token a has expired", resource_metadata="https://mcp.example.org/.well-known/oauth-protected-resource/mcp", scope="tools read"
        Bearer error="insufficient_scope", resource_metadata="https://mcp.example.org/.well-known/oauth-protected-resource/mcp", scope="tools write"
        Bearer"#]]
    .assert_eq(&text.join("\n"));
}

/// A token is accepted if one of the verifiers accepts it. Otherwise, an error that is not final
/// takes precedence, so that the client repeats the request.
#[tokio::test]
async fn each_verifier_is_tried() {
    let (invalid, unavailable) = (TokenError::invalid("unknown"), TokenError::unavailable("later"));
    let verifiers = [OneToken("a", unavailable.clone()), OneToken("b", invalid.clone())];
    let resource = verifiers.into_iter().fold(resource("https://mcp.example.org/mcp"), |it, verifier| {
        it.with_verifier("https://auth.example.org", verifier).unwrap()
    });
    assert_eq!(resource.verify("b").await.unwrap().id, "b");
    assert_eq!(resource.verify("c").await, Err(unavailable));
    let too_long = resource.verify(&"a".repeat(20_000)).await;
    assert_eq!(too_long, Err(TokenError::invalid("the token is too long")));
    let none = ProtectedResource::new("https://mcp.example.org/mcp").unwrap().verify("a").await;
    assert_eq!(none, Err(TokenError::invalid("no issuer is accepted")));
}
