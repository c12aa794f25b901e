use ::http::{HeaderMap, HeaderValue, header};
use haft_core::tool::Principal;

use super::{Access, BearerTokens, Rejection};

#[test]
fn session_belongs_to_its_principal() {
    let access = Access::new(BearerTokens::default(), None, 1);
    let principal = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
    let headers: HeaderMap = [("mcp-session-id", "1")]
        .map(|(name, id)| (name.parse().unwrap(), HeaderValue::from_static(id)))
        .into_iter()
        .collect();
    assert!(access.may_use_session(&HeaderMap::new(), &principal("ann")));
    assert!(!access.may_use_session(&headers, &principal("ann")));
    access.record_session(&headers, &principal("ann"));
    assert!(access.may_use_session(&headers, &principal("ann")));
    assert!(!access.may_use_session(&headers, &principal("ben")));
}

#[tokio::test]
async fn only_permitted_tokens_are_accepted() {
    let mut tokens = BearerTokens::default();
    for id in ["ann", "ben"] {
        tokens.add(format!("token-of-{id}"), Principal { id: id.to_owned(), ..Principal::default() });
    }
    let access = Access::new(tokens, None, 1);
    let check = async |value: Option<&'static str>| {
        let headers: HeaderMap =
            value.map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value))).into_iter().collect();
        access.authenticate(&headers).await.map(|principal| principal.map(|principal| principal.id))
    };
    let unauthorized = |challenge| Err(Rejection::Unauthorized(HeaderValue::from_static(challenge)));
    assert_eq!(check(Some("Bearer token-of-ben")).await, Ok(Some("ben".to_owned())));
    assert_eq!(check(Some("bearer  token-of-ann")).await, Ok(Some("ann".to_owned())));
    assert_eq!(check(None).await, unauthorized("Bearer"));
    for wrong in ["Bearer token-of-be", "Bearer token-of-bent"] {
        assert_eq!(check(Some(wrong)).await, unauthorized("Bearer error=\"invalid_token\""), "{wrong}");
    }
    for other in ["Basic token-of-ben", "Bearer ", "token-of-ben"] {
        assert_eq!(check(Some(other)).await, unauthorized("Bearer"), "{other}");
    }
}
