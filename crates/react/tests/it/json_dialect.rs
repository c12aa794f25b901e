//! Tests of runs in the JSON dialect.

use expect_test::expect;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use haft_core::{
    ChatModel, RunEvent, RunInput,
    agent::{AgentErrorKind, Limit},
    export::async_trait,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile, ResponseFormat},
};
use haft_react::{JsonReact, NativeCalls, ReactAgent};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{pairing::message_lines, tools::calculator};

const ADD: &str = r#"{"thought":"I add them.","tool_name":"add","tool_args":{"x":17,"y":25}}"#;
const FINISH: &str = r#"{"thought":"Known.","tool_name":"finish","tool_args":{"answer":"It is \"42\"."}}"#;

fn agent(model: impl ChatModel + 'static) -> ReactAgent {
    ReactAgent::builder(model)
        .tools(calculator())
        .instructions("Be brief.")
        .dialect(JsonReact::new())
        .build()
        .unwrap()
}

#[tokio::test]
async fn request_schema_has_one_alternative_per_tool() {
    let model = ScriptedModel::new().reply_text(ADD).reply_text(FINISH);

    let output = agent(model.clone()).run("What is 17 plus 25?").await.unwrap();

    assert_eq!(output.text().unwrap(), r#"It is "42"."#);
    let requests = model.requests();
    expect![[r#"
        Be brief.

        You work in steps. Each of your replies is one step, written as one JSON object and nothing else:
        {"thought": "what to do next, and why", "tool_name": "one of the tools below", "tool_args": {its arguments}}
        After each step you are told the observation: what the tool returned. When the observations answer the question, the next step is "finish".

        Tools:
        1. add: Adds two integers. Arguments: {"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"]}
        2. finish: Gives the final answer and ends. Use it as soon as the observations answer the question. Arguments: {"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}

        Examples with other tools. The question "How many people live in Japan?" takes two steps:
        {"thought":"I need the population of Japan.","tool_name":"get_population","tool_args":{"country":"Japan"}}
        Observation from get_population: 123000000
        {"thought":"The observation answers the question.","tool_name":"finish","tool_args":{"answer":"About 123 million people live in Japan."}}
        The question "What does piedra mean, and how many people live in Chile?" takes three:
        {"thought":"I look up piedra first.","tool_name":"look_up_word","tool_args":{"word":"piedra"}}
        Observation from look_up_word: stone
        {"thought":"Now I need the population of Chile.","tool_name":"get_population","tool_args":{"country":"Chile"}}
        Observation from get_population: 19600000
        {"thought":"The observations answer both parts.","tool_name":"finish","tool_args":{"answer":"Piedra means stone, and about 19.6 million people live in Chile."}}
        The question "Who painted the Mona Lisa?" takes one:
        {"thought":"I know this without a tool.","tool_name":"finish","tool_args":{"answer":"Leonardo da Vinci painted the Mona Lisa."}}"#]]
    .assert_eq(&requests[0].instructions.as_ref().unwrap().text());
    expect![[r#"
        user: What is 17 plus 25?
        assistant: {"thought":"I add them.","tool_name":"add","tool_args":{"x":17,"y":25}}
        user: Observation from add: 42
    "#]]
    .assert_eq(&message_lines(&requests[1]));
    assert!(requests.iter().all(|request| request.tools.is_empty()));

    let ResponseFormat::JsonSchema { schema, .. } = &requests[0].response_format else { panic!() };
    let fits = |text: &str| schema.is_valid(&serde_json::from_str(text).unwrap());
    assert!(fits(ADD) && fits(FINISH));
    assert!(!fits(r#"{"thought":"","tool_name":"add","tool_args":{"x":1}}"#));
    assert!(!fits(r#"{"thought":"","tool_name":"sub","tool_args":{}}"#));
    assert!(!fits(r#"{"thought":"","tool_name":"finish","tool_args":{}}"#));
}

/// The instructions and each message are rendered only once. All requests share the rendered
/// `Arc`s.
#[tokio::test]
async fn step_renders_only_new_messages() {
    let model = ScriptedModel::new().reply_text(ADD).reply_text(ADD.replace("17", "18")).reply_text(FINISH);
    agent(model.clone()).run("Add.").await.unwrap();
    let requests = model.requests();
    let (second, third) = (&requests[1], &requests[2]);
    let same = |(a, b): (&std::sync::Arc<_>, &std::sync::Arc<_>)| std::sync::Arc::ptr_eq(a, b);
    assert_eq!(second.all_messages().count(), 4);
    assert!(second.all_messages().zip(third.all_messages()).all(same));
}

#[tokio::test]
async fn reply_outside_the_schema_is_parsed() {
    let model = ScriptedModel::new()
        .reply_text("Let me see {really}.\n```json\n{\"name\": \"add\", \"arguments\": \"{\\\"x\\\":17,\\\"y\\\":25}\"}\n```\nThat's it.")
        .reply_text("{\"answer\": 42}");
    let output = agent(model).run("What is 17 plus 25?").await.unwrap();
    assert_eq!((output.text().unwrap(), output.results_of("add").count()), ("42", 1));
}

#[tokio::test]
async fn unreadable_reply_is_returned_to_the_model_within_a_limit() {
    let model = ScriptedModel::new().reply_text("I think it is 42.").reply_text(FINISH);
    let output = agent(model.clone()).run("17 + 25?").await.unwrap();
    assert_eq!(output.text().unwrap(), r#"It is "42"."#);
    expect![[r#"
        user: 17 + 25?
        assistant: I think it is 42.
        user: Your reply cannot be read. Write one JSON object and nothing else:
        {"thought": "why", "tool_name": "a tool, or finish", "tool_args": {its arguments}}
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));

    let model = ScriptedModel::new().reply_text("No.").reply_text("No!").reply_text("{}");
    let error = agent(model).run("17 + 25?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// Another run can continue a conversation in another dialect, since the transcript does not depend
/// on the dialect.
#[tokio::test]
async fn dialects_share_the_transcript() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "add", r#"{"x":2,"y":2}"#)])
        .reply_text("2 and 4.")
        .reply_text(ADD)
        .reply_text(FINISH)
        .reply_text("Bye.");
    let native = ReactAgent::builder(model.clone()).tools(calculator()).dialect(NativeCalls).build().unwrap();
    let json = agent(model.clone());

    let first = native.run("Add.").await.unwrap().into_answer().unwrap();
    let second = json
        .run(RunInput::new("17 + 25?").with_history(first.transcript))
        .await
        .unwrap()
        .into_answer()
        .unwrap();
    native.run(RunInput::new("Bye.").with_history(second.transcript)).await.unwrap();

    expect![[r#"
        user: Add.
        assistant: {"thought":"","tool_name":"add","tool_args":{"x":1,"y":1}}
        {"thought":"","tool_name":"add","tool_args":{"x":2,"y":2}}
        user: Observation from add: 2
        user: Observation from add: 4
        assistant: {"thought":"","tool_name":"finish","tool_args":{"answer":"2 and 4."}}
        user: 17 + 25?
    "#]]
    .assert_eq(&message_lines(&model.requests()[2]));
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}; b add{"x":2,"y":2}
        tool: a 2
        tool: b 4
        assistant: 2 and 4.
        user: 17 + 25?
        assistant: call_3 add{"x":17,"y":25}
        tool: call_3 42
        assistant: It is "42".
        user: Bye.
    "#]]
    .assert_eq(&message_lines(&model.requests()[4]));
}

/// A model that streams the text of its replies in chunks of three characters.
struct ChunkingModel(ScriptedModel);

#[async_trait]
impl ChatModel for ChunkingModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let chunks = stream::once(self.chat(request)).flat_map(|response| {
            let response = response.unwrap();
            let text: Vec<char> = response.message.text().chars().collect();
            let chunks: Vec<_> =
                text.chunks(3).map(|chunk| ChatEvent::TextDelta { text: chunk.iter().collect() }).collect();
            stream::iter(chunks.into_iter().chain([ChatEvent::Finished(response.into())]).map(Ok))
        });
        chunks.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

/// In the JSON dialect, the events contain the text of thoughts and answers, without the JSON
/// syntax around the text.
#[tokio::test]
async fn thoughts_and_answers_are_streamed_as_text() {
    let model = ChunkingModel(ScriptedModel::new().reply_text(ADD).reply_text(FINISH));
    let events: Vec<_> = agent(model).stream("17 + 25?").map(Result::unwrap).collect().await;

    let mut streamed = String::new();
    for event in &events {
        match event {
            RunEvent::ReasoningDelta { text } => streamed += &format!("<{text}>"),
            RunEvent::TextDelta { text } => streamed += &format!("[{text}]"),
            _ => {}
        }
    }
    expect![[r#"<I a><dd ><the><m.><Kno><wn.>[It][ is][ "][42][".]"#]].assert_eq(&streamed);
    assert_eq!(json!(events.last())["type"], "done");
}
