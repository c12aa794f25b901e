use std::{env, process::Command};

use haft_core::Toolset;
use haft_mcp::{HttpServer, McpConfig, McpSource};
use serde_json::json;
use tokio::{runtime::Runtime, task::spawn_blocking};

use crate::{child, web::WebServer};

/// Ten sources of one origin use one connection in turn, and close it at their end.
#[tokio::test(flavor = "multi_thread")]
async fn sources_share_connections() {
    let server = WebServer::start("modern").await;
    let entries: serde_json::Map<_, _> =
        (0..10).map(|index| (format!("web{index}"), json!({"url": server.url}))).collect();
    let config = McpConfig::from_json(&json!({"mcpServers": entries}).to_string()).unwrap();
    let mut tools = Toolset::new();
    for (name, entry) in config.servers() {
        let source = McpSource::connect(name, entry.clone()).await.unwrap();
        tools = tools.combined(Toolset::from_source(source).prefixed(format!("{name}_")));
    }
    for name in config.server_names() {
        let sum = tools.call(&format!("{name}_add"), json!({"x": 1, "y": 2})).await;
        assert_eq!(sum.model_text(), "3");
    }
    assert_eq!(server.connections(), 1);
    // Without a shared pool, each source has a connection.
    let alone = McpSource::connect("alone", HttpServer::new(&server.url)).await.unwrap();
    assert_eq!(server.connections(), 2);
    drop((tools, config, alone));
    assert_eq!(server.remaining_connections().await, 0);
}

/// Calls the tool `add` of the server at `url`. Prints the result.
pub(crate) fn child(url: &str) {
    Runtime::new().unwrap().block_on(async {
        let source = McpSource::connect("web", HttpServer::new(url)).await.unwrap();
        let sum = Toolset::new().with_source(source).call("add", json!({"x": 17, "y": 25})).await;
        println!("the sum is {}", sum.model_text());
    });
}

/// Runs [`child`] in a process with the variables `env`. Returns its output.
async fn call_in_child(url: &str, env: [(&'static str, String); 2]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(child::arguments(&format!("calls={url}")));
    for name in ["http_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let output = spawn_blocking(move || command.envs(env).output().unwrap()).await.unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// The proxy variables of the environment apply, and `NO_PROXY` excludes hosts.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_variables_apply() {
    let server = WebServer::start("modern").await;
    let origin = server.url.trim_end_matches("/mcp").to_owned();
    let none = ("NO_PROXY", String::new());
    let output = call_in_child("http://mcp.test.invalid/mcp", [("HTTP_PROXY", origin), none]).await;
    assert!(output.contains("the sum is 42"), "{output}");
    let requests = server.requests();
    assert!(requests.iter().all(|it| it.line == "POST http://mcp.test.invalid/mcp"), "{requests:?}");

    let unreachable = ("HTTP_PROXY", "http://127.0.0.1:1".to_owned());
    let output = call_in_child(&server.url, [unreachable, ("NO_PROXY", "127.0.0.1".to_owned())]).await;
    assert!(output.contains("the sum is 42"), "{output}");
}
