//! Runs the conformance checks of `haft-testing` on the tools, tool sources, models and agents of
//! haft.

use std::time::Duration;

use haft_anthropic::Messages;
use haft_core::{ChatModel, Schema, ToolExt as _, Toolset, model::ModelProfile, tool};
use haft_gemini::Gemini;
use haft_mcp::McpSource;
use haft_middleware::AgentExt as _;
use haft_openai::{ChatCompletions, Responses};
use haft_react::{
    JsonReact, ReactAgent, Router,
    router::{Route, RouteTable},
};
use haft_testing::model_server::{ModelServer, Reply};
use haft_testing::{TestModel, conformance};
use haft_tools::{Calculator, GetCurrentDatetime};
use serde_json::json;

use crate::{Add, child};

/// Deletes a file.
#[tool(requires_approval)]
async fn delete(file: String) -> String {
    format!("{file} is gone")
}

/// Never ends by itself.
#[tool]
async fn wait() -> String {
    std::future::pending().await
}

fn agent(tools: Toolset) -> ReactAgent {
    ReactAgent::new(TestModel::new(), tools).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_conform() {
    conformance::tool(Add).arguments(json!({"x": 17, "y": 25})).await.assert_conforms();
    conformance::tool(Add.with_definition(|it| it.with_name("sum"))).await.assert_conforms();
    conformance::tool(Delete).await.assert_conforms();
    conformance::tool(Wait).timeout(Duration::from_millis(100)).await.assert_conforms();
    conformance::tool(Calculator).await.assert_conforms();
    conformance::tool(GetCurrentDatetime).await.assert_conforms();
    let research = agent(Toolset::new().with_tool(Add).with_tool(Delete)).into_tool("research", "Finds out.");
    conformance::tool(research).await.assert_conforms();
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_source_and_its_tools_conform() {
    let server = || async { McpSource::connect("child", child::server()).await.unwrap() };
    conformance::source(server().await).await.assert_conforms();
    conformance::source(Toolset::from_source(server().await).prefixed("child_")).await.assert_conforms();
    let tools = Toolset::new().with_source(server().await);
    for name in tools.names().await {
        conformance::tool(tools.get(name.as_str()).await.unwrap()).await.assert_conforms();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_models_conform() {
    let call = || Reply::calls([("call_1", "get_weather", r#"{"city":"Paris"}"#)]);
    let server = || {
        let replies = [
            Reply::text("Hello."),
            Reply::text("Hello."),
            call(),
            call(),
            Reply::text(r#"{"city":"Paris"}"#),
        ];
        let greetings = (0..10).map(|_| Reply::text("Hello."));
        ModelServer::start(replies.into_iter().chain(greetings)).unwrap()
    };
    let chat = server();
    check(ChatCompletions::builder("scripted").base_url(chat.base_url()).build().unwrap()).await;
    let responses = server();
    check(Responses::builder("scripted").base_url(responses.base_url()).build().unwrap()).await;
    let anthropic = server();
    check(Messages::builder("claude-sonnet-4-5").base_url(anthropic.origin()).build().unwrap()).await;
    for api in [haft_gemini::Api::GenerateContent, haft_gemini::Api::Interactions] {
        let gemini = server();
        check(Gemini::builder("gemini-3-flash").api(api).base_url(gemini.origin()).build().unwrap()).await;
    }

    async fn check(model: impl ChatModel + 'static) {
        conformance::model(model).assume_deterministic().await.assert_conforms();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_conform_in_each_dialect() {
    let tools = || Toolset::new().with_tool(Add).with_tool(Calculator);
    conformance::agent(agent(tools())).await.assert_conforms();
    conformance::agent(agent(tools().with_tool(Delete))).await.assert_conforms();
    let profile = ModelProfile { supports_native_tools: false, ..ModelProfile::new("test") };
    let json =
        ReactAgent::builder(TestModel::new().with_profile(profile)).tools(tools()).dialect(JsonReact::new());
    conformance::agent(json.build().unwrap()).await.assert_conforms();
    let outputs =
        Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap();
    let typed = ReactAgent::builder(TestModel::new()).tools(tools()).outputs(outputs).chain_of_thought();
    conformance::agent(typed.build().unwrap()).await.assert_conforms();
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agents_and_routers_conform() {
    let child = || agent(Toolset::new().with_tool(Add).with_tool(Delete)).into_tool("research", "Finds out.");
    conformance::agent(agent(Toolset::new().with_tool(child()))).await.assert_conforms();
    let table = || {
        RouteTable::new([
            Route::new("sum", "sums").with_keywords(["add", "hello"]),
            Route::new("file", "files").with_keywords(["delete"]),
        ])
    };
    let agents =
        || [("sum", agent(Toolset::new().with_tool(Add))), ("file", agent(Toolset::new().with_tool(Delete)))];
    conformance::agent(Router::new(table(), agents()).unwrap()).await.assert_conforms();
    conformance::agent(Router::new(table(), agents()).unwrap())
        .input(|| "Delete it.".into())
        .await
        .assert_conforms();
    conformance::agent(Router::new(table(), agents()).unwrap())
        .input(|| "What?".into())
        .await
        .assert_conforms();
}
