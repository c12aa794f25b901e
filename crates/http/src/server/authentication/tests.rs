use haft_core::tool::Principal;
use http::{HeaderMap, HeaderValue, header};

use super::{Authenticator, BearerTokens, Rejection};

#[tokio::test]
async fn only_permitted_tokens_are_accepted() {
    let mut tokens = BearerTokens::default();
    for id in ["ann", "ben"] {
        tokens.add(format!("token-of-{id}"), Principal { id: id.to_owned(), ..Principal::default() });
    }
    let access = Authenticator::new(tokens, None);
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
