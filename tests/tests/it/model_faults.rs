//! An agent on a model server with the faults of real servers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_anthropic::Messages;
use haft_core::{
    Message, RunEvent, RunInput, RunOutput, Schema, ToolCall, ToolDefinition, ToolName, ToolResult, Toolset,
    Transcript,
    agent::AgentErrorKind,
    message::AssistantMessage,
    model::{ChatModel, ChatSettings},
    tool::DynamicTool,
};
use haft_gemini::Gemini;
use haft_openai::{ChatCompletions, ModelBuilder, Responses, Timeouts};
use haft_react::ReactAgent;
use haft_testing::model_server::{ErrorKind, ErrorPlace, Fault, Gateway, ModelServer, Reply, Requirement};
use serde_json::{Value, json};

use crate::Add;

const ARGUMENTS: &str = r#"{"x":17,"y":25}"#;

fn call() -> Reply {
    Reply::calls([("call_1", "add", ARGUMENTS)])
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Api {
    ChatCompletions,
    Responses,
    Anthropic,
    Gemini,
    Interactions,
}

/// The ways to get a reply.
const FORMS: [(Api, bool); 10] = [
    (Api::ChatCompletions, false),
    (Api::ChatCompletions, true),
    (Api::Responses, false),
    (Api::Responses, true),
    (Api::Anthropic, false),
    (Api::Anthropic, true),
    (Api::Gemini, false),
    (Api::Gemini, true),
    (Api::Interactions, false),
    (Api::Interactions, true),
];

fn timeouts() -> Timeouts {
    Timeouts::default().with_idle(Duration::from_millis(100))
}

fn configured<M>(builder: ModelBuilder<M>, server: &ModelServer) -> ModelBuilder<M> {
    builder.base_url(server.base_url()).timeouts(timeouts()).first_retry_wait(Duration::from_millis(1))
}

fn model(api: Api, server: &ModelServer) -> Arc<dyn ChatModel> {
    match api {
        Api::ChatCompletions => {
            Arc::new(configured(ChatCompletions::builder("test"), server).build().unwrap())
        }
        Api::Responses => Arc::new(configured(Responses::builder("test"), server).build().unwrap()),
        Api::Anthropic => Arc::new(
            Messages::builder("test")
                .base_url(server.origin())
                .timeouts(timeouts())
                .first_retry_wait(Duration::from_millis(1))
                .build()
                .unwrap(),
        ),
        Api::Gemini => Arc::new(gemini(haft_gemini::Api::GenerateContent, server)),
        Api::Interactions => Arc::new(gemini(haft_gemini::Api::Interactions, server)),
    }
}

fn gemini(api: haft_gemini::Api, server: &ModelServer) -> Gemini {
    Gemini::builder("test")
        .api(api)
        .base_url(server.origin())
        .timeouts(timeouts())
        .first_retry_wait(Duration::from_millis(1))
        .build()
        .unwrap()
}

/// Runs an agent on `server` and describes the outcome: the answer or the error, the number of
/// model requests, and the results that the server received.
async fn outcome(server: &ModelServer, (api, is_streamed): (Api, bool)) -> String {
    let model = model(api, server);
    let settings = ChatSettings { temperature: Some(0.0), ..ChatSettings::default() };
    let agent =
        ReactAgent::builder(model).tools(Toolset::new().with_tool(Add)).settings(settings).build().unwrap();
    let output = if is_streamed {
        agent.stream("What is 17 + 25?").try_collect::<Vec<_>>().await.map(|events| {
            match events.into_iter().next_back() {
                Some(RunEvent::Done { output }) => output,
                other => panic!("{other:?}"),
            }
        })
    } else {
        agent.run("What is 17 + 25?").await
    };
    let requests = server.requests();
    let results = calls_with_results(requests.last().unwrap());
    let end = match output {
        Ok(RunOutput::Answer(answer)) => answer.text,
        Ok(other) => panic!("{other:?}"),
        Err(error) => match &*error.kind {
            AgentErrorKind::Model(error) => error.to_string(),
            other => other.to_string(),
        },
    };
    format!("{end}; requests {}, results {results}", requests.len())
}

/// Checks that each call in the request is the scripted one and has a result. Returns their number.
fn calls_with_results(request: &Value) -> usize {
    let items = ["messages", "input", "contents"].iter().find_map(|key| request[key].as_array()).unwrap();
    let parts =
        || items.iter().flat_map(|item| item["content"].as_array().or(item["parts"].as_array())).flatten();
    let is_result = |item: &&Value| {
        let kind = &item["type"];
        item["role"] == "tool"
            || kind == "function_call_output"
            || kind == "function_result"
            || kind == "tool_result"
            || !item["functionResponse"].is_null()
    };
    let results = items.iter().chain(parts()).filter(is_result).count();
    let functions = items.iter().flat_map(|item| item["tool_calls"].as_array()).flatten();
    let json = |arguments: &Value| match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        object => object.clone(),
    };
    let texts = functions
        .map(|call| &call["function"])
        .chain(items.iter().filter(|item| item["type"] == "function_call"))
        .map(|call| (&call["name"], json(&call["arguments"])));
    let objects =
        parts().filter(|part| part["type"] == "tool_use").map(|call| (&call["name"], call["input"].clone()));
    let gemini = parts().filter(|part| !part["functionCall"].is_null()).map(|part| {
        let call = &part["functionCall"];
        (&call["name"], call["args"].clone())
    });
    let calls: Vec<(&Value, Value)> = texts.chain(objects).chain(gemini).collect();
    assert_eq!(calls.len(), results, "{request:#}");
    let arguments: Value = serde_json::from_str(ARGUMENTS).unwrap();
    for (name, call) in calls {
        assert_eq!((name, &call), (&json!("add"), &arguments), "{request:#}");
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn readable_replies_are_read() {
    for fault in Fault::ALL.iter().filter(|fault| fault.is_readable()) {
        for form in FORMS {
            let replies = [call().with_fault(*fault), Reply::text("It is 42.").with_fault(*fault)];
            let server = ModelServer::start(replies).unwrap();
            let outcome = outcome(&server, form).await;
            assert_eq!(outcome, "It is 42.; requests 2, results 1", "{fault:?}, {form:?}");
        }
    }
}

/// Describes the outcome of each fault that makes a reply unreadable, for each form with another
/// outcome than the one before.
async fn outcomes(script: impl Fn(Fault) -> Vec<Reply>) -> String {
    let mut lines = String::new();
    for fault in Fault::ALL.iter().filter(|fault| !fault.is_readable()) {
        let mut last = String::new();
        for (api, is_streamed) in FORMS {
            let server = ModelServer::start(script(*fault)).unwrap();
            let outcome = outcome(&server, (api, is_streamed)).await;
            if outcome != last {
                let form = if is_streamed { "streamed" } else { "whole" };
                writeln!(lines, "{fault:?}, {api:?} {form}: {outcome}").unwrap();
                last = outcome;
            }
        }
    }
    lines
}

/// The server repeats its fault.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_replies_run_no_call() {
    let table = outcomes(|fault| vec![call().with_fault(fault); 30]).await;
    expect![[r#"
        NameMissing, ChatCompletions whole: the model's reply cannot be read: a call in it has no name; requests 3, results 0
        ArgumentsCut, ChatCompletions whole: the reply was cut: a limit of tokens stopped it inside the call of "add"; requests 3, results 0
        ArgumentsCut, Gemini whole: the reply was cut: it reached the limit of tokens of one reply; requests 1, results 0
        ArgumentsCut, Interactions streamed: the reply was cut: a limit of tokens stopped it inside the call of "add"; requests 3, results 0
        CallsMissing, ChatCompletions whole: the model gave an empty reply; requests 12, results 0
        CallsMissing, Gemini whole: the model's server could not use the reply of the model: the server could not use it (MALFORMED_FUNCTION_CALL); requests 3, results 0
        CallsMissing, Interactions whole: the model gave an empty reply; requests 12, results 0
        ChoicesEmpty, ChatCompletions whole: the model gave an empty reply; requests 12, results 0
        ChoicesEmpty, Gemini streamed: the reply was cut: the connection was closed early; requests 12, results 0
        ChoicesEmpty, Interactions whole: the model gave an empty reply; requests 12, results 0
        BodyCut, ChatCompletions whole: the reply was cut: EOF while parsing a string at line 1 column 182; requests 12, results 0
        BodyCut, ChatCompletions streamed: the reply was cut: the connection was closed early; requests 3, results 0
        BodyCut, Responses whole: the reply was cut: EOF while parsing a string at line 1 column 164; requests 12, results 0
        BodyCut, Responses streamed: the reply was cut: the connection was closed early; requests 3, results 0
        BodyCut, Anthropic whole: the reply was cut: EOF while parsing a string at line 1 column 122; requests 12, results 0
        BodyCut, Anthropic streamed: the reply was cut: the connection was closed early; requests 3, results 0
        BodyCut, Gemini whole: the reply was cut: EOF while parsing a string at line 1 column 143; requests 12, results 0
        BodyCut, Gemini streamed: the reply was cut: the connection was closed early; requests 12, results 0
        BodyCut, Interactions whole: the reply was cut: EOF while parsing a string at line 1 column 131; requests 12, results 0
        BodyCut, Interactions streamed: the reply was cut: the connection was closed early; requests 3, results 0
        ConnectionCut, ChatCompletions whole: the reply was cut: end of file before message length reached; requests 12, results 0
        ConnectionCut, ChatCompletions streamed: the reply was cut: end of file before message length reached; requests 3, results 0
        ConnectionCut, Responses whole: the reply was cut: end of file before message length reached; requests 12, results 0
        ConnectionCut, Responses streamed: the reply was cut: end of file before message length reached; requests 3, results 0
        ConnectionCut, Anthropic whole: the reply was cut: end of file before message length reached; requests 12, results 0
        ConnectionCut, Anthropic streamed: the reply was cut: end of file before message length reached; requests 3, results 0
        ConnectionCut, Gemini whole: the reply was cut: end of file before message length reached; requests 12, results 0
        ConnectionCut, Interactions streamed: the reply was cut: end of file before message length reached; requests 3, results 0
        Stalled, ChatCompletions whole: timed out after 100ms waiting for more of the reply; requests 1, results 0
    "#]].assert_eq(&table);
}

/// The server has the fault once.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_reply_is_asked_for_again() {
    let table = outcomes(|fault| vec![call().with_fault(fault), call(), Reply::text("It is 42.")]).await;
    expect![[r#"
        NameMissing, ChatCompletions whole: It is 42.; requests 3, results 1
        ArgumentsCut, ChatCompletions whole: It is 42.; requests 3, results 1
        ArgumentsCut, Gemini whole: the reply was cut: it reached the limit of tokens of one reply; requests 1, results 0
        ArgumentsCut, Interactions streamed: It is 42.; requests 3, results 1
        CallsMissing, ChatCompletions whole: It is 42.; requests 3, results 1
        ChoicesEmpty, ChatCompletions whole: It is 42.; requests 3, results 1
        BodyCut, ChatCompletions whole: It is 42.; requests 3, results 1
        ConnectionCut, ChatCompletions whole: It is 42.; requests 3, results 1
        Stalled, ChatCompletions whole: timed out after 100ms waiting for more of the reply; requests 1, results 0
    "#]].assert_eq(&table);
}

/// One cause is one error with its reason, at each place and behind each gateway. Only transient
/// errors are repeated.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_recognized_at_each_place() {
    let mut table = String::new();
    for kind in ErrorKind::ALL {
        let mut outcomes = BTreeSet::new();
        for gateway in [None].into_iter().chain(Gateway::ALL.iter().copied().map(Some)) {
            for place in [ErrorPlace::Status, ErrorPlace::Reply, ErrorPlace::Stream] {
                for form in FORMS {
                    let server =
                        ModelServer::start(vec![Reply::error_at(*kind, place, gateway); 30]).unwrap();
                    let outcome = outcome(&server, form).await;
                    // An error after the beginning of a text cuts the reply.
                    let outcome = outcome.replace("the reply was cut: ", "");
                    assert!(outcome.contains(kind.message()), "{gateway:?}, {place:?}, {form:?}: {outcome}");
                    outcomes.insert(outcome.replace(kind.message(), "..."));
                }
            }
        }
        writeln!(table, "{kind:?}: {outcomes:#?}").unwrap();
    }
    expect![[r#"
        RateLimit: {
            "the model's server is limiting requests: ...; requests 3, results 0",
            "the model's server is limiting requests: ...; requests 4, results 0",
        }
        Quota: {
            "the model's server is limiting requests: ...; requests 1, results 0",
            "the model's server is limiting requests: ...; requests 3, results 0",
            "the model's server is limiting requests: ...; requests 4, results 0",
        }
        ContextOverflow: {
            "the conversation is too long for the model: ...; requests 1, results 0",
        }
        ContentFilter: {
            "a content filter of the provider stopped the reply: ...; requests 1, results 0",
        }
        RejectedParameter: {
            "the model's server refused the request (status 400): ...; requests 1, results 0",
            "the model's server refused the request (status 400): ...; requests 2, results 0",
        }
        BadGeneration: {
            "the model's server could not use the reply of the model: ...; requests 3, results 0",
            "the model's server refused the request (status 400): ...; requests 1, results 0",
        }
        Authentication: {
            "the model's server refused the key: ...; requests 1, results 0",
        }
        Overloaded: {
            "the model's server failed (status 503): ...; requests 3, results 0",
            "the model's server failed (status 503): ...; requests 4, results 0",
            "the model's server failed (status 529): ...; requests 3, results 0",
            "the model's server failed (status 529): ...; requests 4, results 0",
            "the model's server failed: ...; requests 3, results 0",
            "the model's server failed: ...; requests 4, results 0",
        }
    "#]]
    .assert_eq(&table);
}

/// The first request of a strict server is accepted, also with the history of another model.
#[tokio::test(flavor = "multi_thread")]
async fn strict_servers_accept_the_requests() {
    let schema = json!({"type": "object", "properties": {
        "tags": {"type": "array"},
        "any": true,
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "size": {"type": ["integer", "null"], "anyOf": [{"minimum": 1}, {"type": "null"}]},
    }});
    let definition = ToolDefinition::new(ToolName::sanitize("tag"), Schema::for_arguments(schema).unwrap());
    let tag = DynamicTool::new(definition, |_, _| async { "tagged" });
    let id = "call_".repeat(20);
    let reply = AssistantMessage {
        tool_calls: vec![ToolCall::new(&*id, "tag", "{}")],
        ..AssistantMessage::default()
    };
    let history = Transcript::from_iter([
        Message::system("You are Ada."),
        Message::user("Hi."),
        Message::assistant(reply),
        Message::tool(ToolResult::done(&*id, "tag", "tagged".into())),
        Message::assistant("Done."),
        Message::system("Be kind."),
    ]);
    for requirement in Requirement::ALL {
        for has_tools in [true, false] {
            let name = match requirement {
                Requirement::CallIdsOf9 => "mistral-small",
                Requirement::TypesInAlternatives => "kimi-k2",
                _ => "any",
            };
            let server = ModelServer::with_requirements([*requirement], [Reply::text("Yes.")]).unwrap();
            let model = configured(ChatCompletions::builder(name), &server).max_retries(0).build().unwrap();
            let tools = if has_tools { Toolset::new().with_tool(tag.clone()) } else { Toolset::new() };
            let agent = ReactAgent::builder(model).tools(tools).instructions("Be brief.").build().unwrap();
            let output = agent.run(RunInput::new("Ready?").with_history(&history)).await;
            let output = output.unwrap_or_else(|error| panic!("{requirement:?}, {has_tools}: {error}"));
            assert_eq!(output.text().unwrap(), "Yes.");
            assert_eq!(server.requests().len(), 1, "{requirement:?}");
        }
    }
}
