//! Tests of the fallback from one HTTP model to another.

use futures::TryStreamExt as _;
use haft_core::{RunEvent, RunOutput, Toolset, agent::AgentErrorKind, model::ModelError};
use haft_middleware::FallbackModel;
use haft_middleware::ModelMiddleware as _;
use haft_openai::{ChatCompletions, Provider};
use haft_react::ReactAgent;
use haft_testing::model_server::{ModelServer, Reply};
use serde_json::Value;

use crate::Add;

const ADD_CALL: (&str, &str, &str) = ("call_a", "add", r#"{"x":17,"y":25}"#);
fn unavailable_reply() -> Reply {
    Reply::status(503, "<html>overloaded</html>")
}

fn model(server: &ModelServer, name: &str, provider: Provider) -> ChatCompletions {
    let builder = ChatCompletions::builder(name).base_url(server.base_url()).provider(provider);
    builder.api_key("sk-canary").max_retries(0).build().unwrap()
}

fn agent(first: &ModelServer, second: &ModelServer) -> ReactAgent {
    let first = model(first, "first", Provider::OpenAi);
    let model: FallbackModel = first.with_fallback(model(second, "second", Provider::Gemini));
    ReactAgent::new(model, Toolset::new().with_tool(Add)).unwrap()
}

/// Describes a model request. Returns `true` if its tools are strict, and the roles of its
/// messages.
fn strict_and_roles(request: &Value) -> (bool, Vec<&str>) {
    let is_strict = request["tools"][0]["function"]["strict"] == true;
    let messages = request["messages"].as_array().unwrap();
    (is_strict, messages.iter().map(|message| message["role"].as_str().unwrap()).collect())
}

/// The conversation moves from the first server to the second server and back. Each server must
/// receive the whole conversation in its own format.
#[tokio::test(flavor = "multi_thread")]
async fn each_server_receives_its_own_request_format() {
    for is_streamed in [false, true] {
        let again = Reply::calls([("call_b", "add", r#"{"x":1,"y":2}"#)]);
        let first =
            ModelServer::start([Reply::calls([ADD_CALL]), unavailable_reply(), Reply::text("42 and 3.")])
                .unwrap();
        let second = ModelServer::start([again]).unwrap();
        let agent = agent(&first, &second);
        let output = if is_streamed {
            let events: Vec<_> = agent.stream("Add.").try_collect().await.unwrap();
            let refused = |event: &RunEvent| matches!(event, RunEvent::ReplyRejected { .. });
            assert!(!events.iter().any(refused));
            let Some(RunEvent::Done { output }) = events.into_iter().next_back() else { panic!("no end") };
            output
        } else {
            agent.run("Add.").await.unwrap()
        };
        let RunOutput::Answer(answer) = output else { panic!("{output:?}") };
        assert_eq!((&*answer.text, answer.steps.len(), answer.usage.requests), ("42 and 3.", 2, 3));
        let (to_first, to_second) = (first.requests(), second.requests());
        let one = ["user", "assistant", "tool"];
        let both = ["user", "assistant", "tool", "assistant", "tool"];
        assert_eq!(
            to_first.iter().map(strict_and_roles).collect::<Vec<_>>(),
            [(true, vec!["user"]), (true, one.to_vec()), (true, both.to_vec())]
        );
        assert_eq!(strict_and_roles(&to_second[0]), (false, one.to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_has_the_reason_of_each_server_and_no_key() {
    let (first, second) = (
        ModelServer::start([unavailable_reply()]).unwrap(),
        ModelServer::start([Reply::status(401, "sk-canary is no key")]).unwrap(),
    );
    let gone = ChatCompletions::builder("gone").base_url("http://127.0.0.1:1/v1");
    let model = gone
        .max_retries(0)
        .build()
        .unwrap()
        .with_fallback(model(&first, "first", Provider::OpenAi))
        .with_fallback(model(&second, "second", Provider::OpenAi));
    let error = ReactAgent::new(model, Toolset::new()).unwrap().run("Hi").await.unwrap_err();
    let AgentErrorKind::Model(ModelError::AllFailed { failures }) = &*error.kind else { panic!("{error:?}") };
    let kinds: Vec<_> = failures.iter().map(|failure| (&*failure.model, &failure.error)).collect();
    assert!(
        matches!(
            kinds[..],
            [
                ("gone", ModelError::Unreachable { .. }),
                ("first", ModelError::Server { status: Some(503), .. }),
                ("second", ModelError::Unauthorized(_)),
            ]
        ),
        "{kinds:?}"
    );
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}
