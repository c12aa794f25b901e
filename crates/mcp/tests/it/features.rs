use expect_test::expect;
use haft_core::{Toolset, call::FailureKind, content::Content};
use haft_mcp::{McpSource, ServerOptions};
use serde_json::{Value, json};

use crate::{server, web::WebServer};

async fn tools_of(mode: &str) -> Toolset {
    let options = ServerOptions::default().with_resource_tools().with_prompt_tools();
    let source = McpSource::connect("features", server(mode).with_options(options)).await.unwrap();
    Toolset::new().with_source(source)
}

/// The resources and prompts of a server are available as tools, beside a tool of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_are_tools() {
    let tools = tools_of("features").await;
    let names = tools.names().await;
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    expect![[r#"
        add
        features_read_resource
        features_list_resources
        features_read_resource_2
        features_list_prompts
        features_get_prompt"#]]
    .assert_eq(&names.join("\n"));
    let call =
        async |name: &str, arguments: Value| tools.call(name, arguments).await.model_text().into_owned();
    let first = call("features_list_resources", json!({})).await;
    let expected = json!({
        "resources": [{"uri": "note://a", "name": "a"}, {"uri": "note://b", "name": "b"}], "nextCursor": "2",
    });
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap(), expected);
    let second = call("features_list_resources", json!({"cursor": "2"})).await;
    assert_eq!(second, r#"{"resources":[{"uri":"note://c","name":"c"}]}"#);
    // The server does not implement `resources/templates/list`.
    assert_eq!(call("features_list_resources", json!({"kind": "templates"})).await, r#"{"resources":[]}"#);
    assert!(call("features_read_resource_2", json!({"uri": "note://a"})).await.contains("hello"));
    assert!(call("features_list_prompts", json!({})).await.contains("review"));
    let arguments = json!({"name": "review", "arguments": {"code": "x = 1"}});
    assert_eq!(call("features_get_prompt", arguments).await, "user: Review x = 1.");
}

/// A model reads which argument of a resource or of a prompt is invalid.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_of_features_are_reported() {
    let tools = tools_of("features").await;
    for (tool, arguments, reason) in [
        ("features_read_resource_2", json!({"uri": "note://x"}), "resource not found"),
        ("features_get_prompt", json!({"name": "review"}), "the argument `code` is missing"),
        ("features_get_prompt", json!({"name": "review", "arguments": {"code": [1]}}), "/arguments/code"),
    ] {
        let failure = tools.call(tool, arguments).await.into_output().unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidArguments, "{}", failure.message);
        assert!(failure.message.contains(reason), "{}", failure.message);
    }
}

/// Without the option, and without the capability of the server, there are no further tools.
#[tokio::test(flavor = "multi_thread")]
async fn features_are_optional() {
    let source = McpSource::connect("features", server("features")).await.unwrap();
    assert_eq!(Toolset::new().with_source(source).names().await, ["add", "features_read_resource"]);
    assert!(
        tools_of("legacy").await.names().await.iter().all(|name| !name.as_str().starts_with("features_"))
    );
}

/// A resource is read over HTTP, in each revision.
#[tokio::test(flavor = "multi_thread")]
async fn resource_is_read_over_http() {
    for mode in ["modern", "legacy"] {
        let server = WebServer::start(mode).await;
        let options = ServerOptions::default().with_resource_tools();
        let source = McpSource::connect("web", server.config().with_options(options)).await.unwrap();
        let tools = Toolset::new().with_source(source);
        let image = tools.call("web_read_resource", json!({"uri": "note://a"})).await.into_output().unwrap();
        assert!(matches!(&*image.content, [Content::Image { .. }]), "{mode}: {image:?}");
    }
}
