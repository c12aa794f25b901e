//! Schemathesis checks that the HTTP server does what its OpenAPI description says: it generates
//! valid and invalid requests, and compares each response with the description.

use std::{process::Command, sync::Arc};

use haft_core::{Toolset, tool};
use haft_react::ReactAgent;
use haft_server::Server;
use haft_session::SqlStore;
use haft_testing::TestModel;
use tokio::net::TcpListener;

use super::installed_folder;
use crate::Add;

/// Pays an amount.
#[tool(requires_approval)]
fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

#[tokio::test(flavor = "multi_thread")]
async fn server_does_what_its_description_says() {
    let Some(place) = installed_folder("schemathesis") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = SqlStore::open_file(folder.path().join("haft.db")).await.unwrap();
    let agent = ReactAgent::builder(TestModel::new()).tools(Toolset::new().with_tool(Add).with_tool(Pay));
    let server = Server::builder(agent).store(Arc::new(store)).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { server.serve(listener, std::future::pending()).await });

    let mut command = Command::new(place.join("bin/schemathesis"));
    let config = folder.path().join("schemathesis.toml");
    std::fs::write(&config, include_str!("schemathesis.toml")).unwrap();
    command
        .arg("--config-file")
        .arg(config)
        .arg("run")
        .arg(format!("{url}/openapi.json"))
        .args(["--url", &url])
        .current_dir(folder.path());
    // This stream has no end.
    command.args(["--exclude-path", "/sessions/{id}/events"]);
    command.args(["--checks", "all", "--seed", "1", "--max-examples", "40", "--request-timeout", "20"]);
    command.args(["--continue-on-failure", "--no-color", "--warnings", "off"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    serving.abort();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
}
