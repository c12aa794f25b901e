use std::{fs, path::Path, time::Duration};

use haft_core::Toolset;
use haft_mcp::{McpConfig, McpSource, ServerOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{server, web::WebServer};

/// Returns options with the cache in `folder`. The probe timeout is a third of `timeout`, and at
/// most three seconds.
fn options(folder: &Path, timeout: Duration) -> ServerOptions {
    ServerOptions::default()
        .with_handshake_timeout(timeout)
        .with_revision_cache(folder.join("cache/revisions.json"))
}

/// Returns the handshakes in the cache in `folder`.
fn cached(folder: &Path) -> Vec<Value> {
    let Ok(text) = fs::read(folder.join("cache/revisions.json")) else { return Vec::new() };
    let content: Value = serde_json::from_slice(&text).unwrap();
    content["servers"].as_object().unwrap().values().map(|entry| entry["handshake"].clone()).collect()
}

async fn sum(source: McpSource) -> String {
    let sum = Toolset::new().with_source(source).call("add", json!({"x": 17, "y": 25})).await;
    sum.model_text().into_owned()
}

/// A server that ignores `server/discover` costs the probe timeout only at the first start. After
/// an update of the server, its revision is detected again.
#[tokio::test(flavor = "multi_thread")]
async fn silent_server_is_probed_once() {
    let folder = tempfile::tempdir().unwrap();
    let short = options(folder.path(), Duration::from_secs(3));
    let long = options(folder.path(), Duration::from_secs(30));
    let silent = server("ignores_discover");
    let started = Instant::now();
    let source = McpSource::connect("slow", silent.clone().with_options(short)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1), "the probe timeout is a third");
    drop(source);
    assert_eq!(cached(folder.path()), ["initialize"]);

    let started = Instant::now();
    let source = McpSource::connect("slow", silent.clone().with_options(long.clone())).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    assert_eq!(sum(source).await, "42");

    let updated = silent.with_env("UPDATED_MODE", "modern").with_options(long);
    assert_eq!(sum(McpSource::connect("slow", updated).await.unwrap()).await, "42");
    assert_eq!(cached(folder.path()), [json!(null); 0]);
}

/// Only servers that are slow to detect are stored.
#[tokio::test(flavor = "multi_thread")]
async fn quick_server_is_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, expected) in
        [("legacy", [].as_slice()), ("modern", &[]), ("exits_on_discover", &["initialize"])]
    {
        let config = server(mode).with_options(options(folder.path(), Duration::from_secs(30)));
        assert_eq!(sum(McpSource::connect("quick", config).await.unwrap()).await, "42", "{mode}");
        assert_eq!(cached(folder.path()), expected, "{mode}");
    }
}

/// HTTP with SSE is detected once, and again after an update of the server. An unreachable server
/// keeps its entry.
#[tokio::test(flavor = "multi_thread")]
async fn sse_server_is_detected_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = WebServer::start("sse").await;
    let json = json!({"mcpServers": {"web": {"url": server.url}}}).to_string();
    let config =
        McpConfig::from_json(&json).unwrap().with_revision_cache(folder.path().join("cache/revisions.json"));
    let start = async || {
        let source = config.start().remove(0);
        source.wait_until_ready().await.map(|()| source)
    };
    start().await.unwrap();
    assert_eq!(cached(folder.path()), ["sse"]);
    let detection = server.requests().len();
    assert_eq!(sum(start().await.unwrap()).await, "42");
    assert_eq!(server.requests()[detection].line, "GET /mcp");

    server.set_mode("unauthorized");
    start().await.unwrap_err();
    assert_eq!(cached(folder.path()), ["sse"]);

    server.set_mode("modern");
    assert_eq!(sum(start().await.unwrap()).await, "42");
    assert_eq!(cached(folder.path()), [json!(null); 0]);
}

/// An invalid cache file does not prevent the start of a server.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_cache_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("cache")).unwrap();
    fs::write(folder.path().join("cache/revisions.json"), "{").unwrap();
    let config = server("legacy").with_options(options(folder.path(), Duration::from_secs(30)));
    assert_eq!(sum(McpSource::connect("any", config).await.unwrap()).await, "42");
}
