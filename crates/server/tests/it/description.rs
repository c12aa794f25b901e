//! Tests of the OpenAPI description and its page.

use expect_test::expect;
use haft_testing::ScriptedModel;

use crate::{TestServer, send};

#[tokio::test]
async fn description_has_all_routes() {
    let server = TestServer::start(&ScriptedModel::new(), None).await;
    let (status, description) = send(server.get("/openapi.json")).await;
    assert_eq!(status, 200);
    let mut routes: Vec<_> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |it| format!("{path} {it}")))
        .collect();
    routes.sort();
    expect![[r#"
        /chat post
        /metrics get
        /runs/{id} get
        /runs/{id}/cancel post
        /runs/{id}/decisions post
        /runs/{id}/events get
        /runs/{id}/messages post
        /search get
        /sessions get
        /sessions/{id} delete
        /sessions/{id} get
        /sessions/{id}/events get
        /sessions/{id}/export get
        /sessions/{id}/fork post
        /sessions/{id}/messages get
        /sessions/{id}/rewind post
        /sessions/{id}/runs get
        /sessions/{id}/runs post
        /stats/tools get
        /tools get
        /tools/names get
        /tools/{name} get
        /tools/{name}/call post"#]]
    .assert_eq(&routes.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn page_runs_only_its_own_files() {
    let server = TestServer::start(&ScriptedModel::new(), None).await;
    for path in ["/docs", "/docs/page.js", "/docs/page.css"] {
        let response = server.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        let text = response.text().await.unwrap();
        assert!(!text.contains("http://") && !text.contains("https://"), "{path} loads from elsewhere");
    }
    server.stop().await;
}
