//! The layer around a function and around a router of axum.

use std::{
    convert::Infallible,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use axum::{Extension, Json, Router, body::Bytes, routing::post};
use expect_test::expect;
use haft_core::tool::Principal;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{AccessConfig, AccessLayer, ClientAddress, ClientKey, LimitedBody, ProtectedResource};

type Body = Full<Bytes>;

fn principal(id: &str) -> Principal {
    Principal { id: id.to_owned(), ..Principal::default() }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("Host", "localhost");
    headers.iter().fold(builder, |it, (name, value)| it.header(*name, *value)).body(Body::default()).unwrap()
}

/// Returns what a service behind `layer` finds in `request`, or the rejection.
async fn send(layer: &AccessLayer, request: Request<Body>) -> String {
    let service = service_fn(async |request: Request<LimitedBody<Body>>| {
        let extensions = request.extensions();
        let text = format!(
            "{:?} {:?} {:?} authorization: {}",
            extensions.get::<Principal>().map(|principal| &principal.id),
            extensions.get::<ClientAddress>(),
            extensions.get::<ClientKey>(),
            request.headers().contains_key("authorization"),
        );
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    let response = layer.layer(service).oneshot(request).await.unwrap();
    let mut text = response.status().as_u16().to_string();
    for name in ["www-authenticate", "retry-after"] {
        if let Some(value) = response.headers().get(name) {
            text += &format!(" {name}: {};", value.to_str().unwrap());
        }
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{text} {}\n", String::from_utf8_lossy(&body).trim_end())
}

#[tokio::test]
async fn admitted_request_has_extensions() {
    let open = AccessLayer::new(AccessConfig::default());
    let closed = AccessLayer::new(AccessConfig::default().with_bearer_token("token-a", principal("ann")));
    let mut report = String::new();
    for (layer, headers) in [
        (&open, &[][..]),
        (&closed, &[("Authorization", "Bearer token-a")]),
        (&closed.without_authentication(), &[("Authorization", "Bearer token-a")]),
        (&closed, &[]),
        (&closed, &[("Authorization", "Bearer token-b")]),
        (&open, &[("Host", "localhost")]),
        (&open, &[("Origin", "https://evil.example")]),
    ] {
        let mut request = request("POST", "/", headers);
        request.extensions_mut().insert(ClientAddress([192, 0, 2, 7].into()));
        // A layer of another server cannot set the principal.
        request.extensions_mut().insert(principal("mallory"));
        report += &send(layer, request).await;
    }
    expect![[r#"
        200 None Some(ClientAddress(192.0.2.7)) Some(Address(192.0.2.7)) authorization: false
        200 Some("ann") Some(ClientAddress(192.0.2.7)) Some(Principal("ann")) authorization: false
        200 None Some(ClientAddress(192.0.2.7)) Some(Address(192.0.2.7)) authorization: false
        401 www-authenticate: Bearer; a valid bearer token is required
        401 www-authenticate: Bearer error="invalid_token"; a valid bearer token is required
        400 the headers are ambiguous
        403 the header Origin is not permitted
    "#]]
    .assert_eq(&report);
}

/// The layers with and without authentication share the counts, and the hook gets each rejection.
#[tokio::test(start_paused = true)]
async fn requests_are_counted_and_rejections_are_reported() {
    let rejected: Arc<Mutex<Vec<_>>> = Arc::default();
    let log = Arc::clone(&rejected);
    let config = AccessConfig::default()
        .with_bearer_token("token-a", principal("ann"))
        .with_max_requests_per_minute(NonZeroU32::new(2).unwrap())
        .with_rejection_hook(move |request| {
            log.lock().unwrap().push((request.status, request.principal.clone()));
        });
    let layer = AccessLayer::new(config);
    let mut report = String::new();
    for (layer, headers) in [
        (&layer, &[("Authorization", "Bearer token-a")][..]),
        (&layer, &[("Authorization", "Bearer token-a"), ("Origin", "null")]),
        (&layer, &[("Authorization", "Bearer token-a")]),
        (&layer, &[]),
        (&layer.without_authentication(), &[]),
        (&layer.without_authentication(), &[]),
    ] {
        report += &send(layer, request("GET", "/", headers)).await[..4];
    }
    assert_eq!(report, "200 403 429 401 200 429 ");
    let ann = Some("ann".to_owned());
    assert_eq!(*rejected.lock().unwrap(), [(403, ann.clone()), (429, ann), (401, None), (429, None)]);
}

#[tokio::test]
async fn metadata_needs_no_token() {
    let resource = ProtectedResource::new("https://tools.example.org/api").unwrap();
    let layer = AccessLayer::new(AccessConfig::default().with_protected_resource(resource));
    let mut report = String::new();
    for (method, path) in [
        ("GET", "/.well-known/oauth-protected-resource/api"),
        ("POST", "/.well-known/oauth-protected-resource"),
        ("GET", "/api"),
    ] {
        report += &send(&layer, request(method, path, &[])).await;
    }
    expect![[r#"
        200 {"resource":"https://tools.example.org/api","authorization_servers":[],"bearer_methods_supported":["header"]}
        405 the method must be GET
        401 www-authenticate: Bearer resource_metadata="https://tools.example.org/.well-known/oauth-protected-resource/api"; a valid bearer token is required
    "#]]
    .assert_eq(&report);
}

/// The layer is around a router of axum, or inside it. A body that is too long has status 413,
/// although the extractor of axum fails with another one.
#[tokio::test]
async fn router_of_axum_is_a_service() {
    let handler =
        async |Extension(key): Extension<ClientKey>, Json(name): Json<String>| format!("{name}: {key:?}");
    let layer = AccessLayer::new(AccessConfig::default().with_max_body_bytes(10));
    let router = || Router::new().route("/", post(handler));
    let outside = layer.layer(router());
    let inside = router().layer(layer);
    for body in ["\"ann\"", "\"a long name\""] {
        let request = || {
            let mut request = request("POST", "/", &[("Content-Type", "application/json")]);
            *request.body_mut() = Full::from(body);
            request
        };
        let outside = outside.clone().oneshot(request()).await.unwrap();
        let inside = inside.clone().oneshot(request()).await.unwrap();
        let expected = if body.len() > 10 { (413, "the body is too long\n") } else { (200, "ann: Unknown") };
        assert_eq!((outside.status().as_u16(), inside.status().as_u16()), (expected.0, expected.0));
        let outside = outside.into_body().collect().await.unwrap().to_bytes();
        let inside = inside.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((&*outside, &*inside), (expected.1.as_bytes(), expected.1.as_bytes()));
    }
}
