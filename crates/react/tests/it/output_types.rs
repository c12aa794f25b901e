//! Tests of outputs that are not JSON objects: numbers, text, lists, enums, options and tuples.

use expect_test::expect;
use haft_core::{
    Schema,
    agent::{AgentErrorKind, Limit, RunAnswer, StopReason},
    export::schemars::{self, JsonSchema},
    tool,
    toolset::Toolset,
};
use haft_react::{
    JsonReact, NativeCalls, OutputStrategy, ReactAgent, ReactAgentBuilder, TextReact, Trajectory, Verdict,
    dialect::FINISH,
};
use haft_testing::ScriptedModel;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::pairing::message_lines;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Point,
    Circle { radius: u8 },
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Either {
    Person(Person),
    Place { city: String },
}

/// A reply that ends the run with the arguments `outputs`, in the format of each dialect.
fn finishing(dialect: &str, outputs: &Value) -> ScriptedModel {
    match dialect {
        "native" => ScriptedModel::new().reply_calls([("a", FINISH, outputs.to_string().as_str())]),
        "json" => ScriptedModel::new()
            .reply_text(json!({"thought": "So.", "tool_name": FINISH, "tool_args": outputs}).to_string()),
        _ => ScriptedModel::new().reply_text(format!("Thought: So.\nAction: finish\nArguments: {outputs}")),
    }
}

fn with_dialect(builder: ReactAgentBuilder, dialect: &str) -> ReactAgentBuilder {
    match dialect {
        "native" => builder.dialect(NativeCalls),
        "json" => builder.dialect(JsonReact::new()),
        _ => builder.dialect(TextReact),
    }
}

const DIALECTS: [&str; 3] = ["native", "json", "text"];

/// Checks that the agent with the output type `T` returns `expected` for `outputs`, the arguments
/// of the `finish` call, in each dialect.
async fn check<T: JsonSchema + DeserializeOwned + PartialEq + std::fmt::Debug>(outputs: Value, expected: T) {
    for dialect in DIALECTS {
        let agent = ReactAgent::builder(finishing(dialect, &outputs)).output::<T>();
        let agent = with_dialect(agent, dialect).build().unwrap();
        let answer = agent.run("?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.parse::<T>().unwrap(), expected, "{dialect} {outputs}");
        let saved = serde_json::to_value(&answer).unwrap();
        assert_eq!(serde_json::from_value::<RunAnswer>(saved).unwrap(), answer, "{dialect} {outputs}");
    }
}

/// The output of an agent can have any JSON type. A type that is not an object is the member
/// `response` of the object that the model writes, in each dialect.
#[tokio::test]
async fn output_has_any_type_in_each_dialect() {
    check::<i64>(json!({"response": 42}), 42).await;
    check::<bool>(json!({"response": false}), false).await;
    check::<f64>(json!({"response": 0.5}), 0.5).await;
    check::<Vec<i64>>(json!({"response": []}), Vec::new()).await;
    check::<Vec<Person>>(json!({"response": [{"name": "Ada", "age": 36}]}), vec![ada()]).await;
    check::<Shape>(json!({"response": "point"}), Shape::Point).await;
    check::<Shape>(json!({"response": {"circle": {"radius": 2}}}), Shape::Circle { radius: 2 }).await;
    check::<Option<Person>>(json!({"response": null}), None).await;
    check::<Option<Person>>(json!({"response": {"name": "Ada", "age": 36}}), Some(ada())).await;
    check::<(String, u8)>(json!({"response": ["a", 1]}), ("a".to_owned(), 1)).await;
    check::<Vec<Vec<Option<bool>>>>(
        json!({"response": [[true, null], []]}),
        vec![vec![Some(true), None], vec![]],
    )
    .await;
    check::<Value>(json!({"response": [1, {"x": null}]}), json!([1, {"x": null}])).await;
    // Objects are not wrapped, and neither are unions of objects.
    check::<Person>(json!({"name": "Ada", "age": 36}), ada()).await;
    check::<Either>(json!({"name": "Ada", "age": 36}), Either::Person(ada())).await;
    check::<Either>(json!({"city": "Rome"}), Either::Place { city: "Rome".to_owned() }).await;
}

fn ada() -> Person {
    Person { name: "Ada".to_owned(), age: 36 }
}

/// Common mistakes are repaired: no wrapper, another key, a number as a string, and the value as
/// text.
#[tokio::test]
async fn mistakes_around_the_value_are_repaired() {
    check::<i64>(json!({"response": "3"}), 3).await;
    check::<i64>(json!({"answer": 3}), 3).await;
    check::<Vec<i64>>(json!({"response": "[1, 2]"}), vec![1, 2]).await;
    check::<Option<Person>>(json!({"name": "Ada", "age": 36}), Some(ada())).await;
    for (dialect, reply) in [
        ("native", "42"),
        ("native", "```json\n42\n```"),
        ("native", r#"{"response": 42}"#),
        ("json", r#"{"thought": "So.", "tool_name": "finish", "tool_args": 42}"#),
        ("json", r#"{"answer": "42"}"#),
        ("text", "Thought: So.\nAction: finish\nArguments: 42"),
        ("text", "Thought: So.\nAnswer: 42"),
        ("text", "Action: finish[42]"),
    ] {
        assert_eq!(answer_of::<i64>(dialect, reply).await, 42, "{dialect}: {reply}");
    }
    for (dialect, reply) in [
        ("native", r#"[{"name": "Ada", "age": 36}]"#),
        ("json", "```json\n[{\"name\": \"Ada\", \"age\": 36}]\n```"),
        ("text", "Answer: [{\"name\": \"Ada\", \"age\": 36}]"),
        ("text", "Thought: So.\nAction: finish\nArguments: [{\"name\": \"Ada\", \"age\": 36}]"),
    ] {
        assert_eq!(answer_of::<Vec<Person>>(dialect, reply).await, [ada()], "{dialect}: {reply}");
    }
    assert_eq!(answer_of::<Shape>("native", "point").await, Shape::Point);
}

/// Reasoning before an output that is written as text is not the output.
#[tokio::test]
async fn reasoning_before_the_value_is_ignored() {
    let draft = "<think>{\"name\": \"Draft\", \"age\": 1} or so.</think>\n";
    let reply = format!("{draft}{}", r#"{"name": "Ada", "age": 36}"#);
    assert_eq!(answer_of::<Person>("native", &reply).await, ada());
    assert_eq!(answer_of::<Vec<i64>>("native", "<think>Hm: [3]</think>[1, 2]").await, [1, 2]);
    assert_eq!(answer_of::<i64>("native", "<think>41?</think>\n42").await, 42);
}

/// The wrapper of other types around an object is removed, unless the object declares the property.
#[tokio::test]
async fn wrapper_around_an_object_is_removed() {
    check::<Person>(json!({"response": {"name": "Ada", "age": 36}}), ada()).await;
    let map: std::collections::BTreeMap<String, i64> = [("response".to_owned(), 1)].into();
    check(json!({"response": 1}), map).await;
}

/// A float without a fraction is an integer.
#[tokio::test]
async fn whole_float_is_an_integer() {
    check::<i64>(json!({"response": 42.0}), 42).await;
    check::<Person>(json!({"name": "Ada", "age": 36.0}), ada()).await;
}

async fn answer_of<T: JsonSchema + DeserializeOwned>(dialect: &str, reply: &str) -> T {
    let agent = ReactAgent::builder(ScriptedModel::new().reply_text(reply)).output::<T>();
    let agent = with_dialect(agent, dialect).build().unwrap();
    agent.run("?").await.unwrap().into_answer().unwrap().parse().unwrap()
}

/// An error names the member of the object that the model wrote.
#[tokio::test]
async fn error_for_the_model_names_the_written_member() {
    let model = ScriptedModel::new()
        .reply_calls([("a", FINISH, r#"{"response":[1,"x"]}"#)])
        .reply_text("It is one.")
        .reply_calls([("b", FINISH, r#"{"response":[1]}"#)]);
    let agent = ReactAgent::builder(model.clone()).output::<Vec<i64>>().build().unwrap();
    assert_eq!(agent.run("?").await.unwrap().text().unwrap(), "[1]");
    expect![[r#"
        user: ?
        assistant: {"response":[1,"x"]}
        user: The answer does not have the form that it must have:
        /response/1: expected integer, received string "x"
        Give it again.
        assistant: It is one.
        user: The answer must be one JSON object of this schema: {"type":"object","properties":{"response":{"type":"array","items":{"type":"integer"}}},"required":["response"]}
    "#]]
    .assert_eq(&message_lines(&model.requests()[2]));
    let model = ScriptedModel::new().reply_text("one").reply_text("two").reply_text("three");
    let agent = ReactAgent::builder(model).output::<i64>().build().unwrap();
    let error = agent.run("?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::RejectedReplies(3))), "{error:?}");
}

/// An output of type `String` is the text of the answer. The model needs no call.
#[tokio::test]
async fn string_is_plain_text() {
    let model = ScriptedModel::new().reply_text("Paris");
    let agent = ReactAgent::builder(model.clone()).output::<String>().build().unwrap();
    let answer = agent.run("?").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.parse::<String>().unwrap(), answer.value), ("Paris".to_owned(), None));
    assert!(model.requests()[0].tools.is_empty());
}

/// A string with a bound is structured, and its text is the string without quotes.
#[tokio::test]
async fn bounded_string_is_validated() {
    let schema = Schema::new(json!({"type": "string", "maxLength": 5})).unwrap();
    let model = ScriptedModel::new()
        .reply_calls([("a", FINISH, r#"{"response":"Constantinople"}"#)])
        .reply_calls([("b", FINISH, r#"{"response":"Paris"}"#)]);
    let agent = ReactAgent::builder(model).outputs(schema).build().unwrap();
    let answer = agent.run("?").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), &answer.value), ("Paris", &Some(json!("Paris"))));
    assert_eq!(answer.usage.requests, 2);
}

/// A validator reads and replaces the value. A value of the wrong type is an error.
#[tokio::test]
async fn validator_reads_and_replaces_the_value() {
    let agent = |new: Value| {
        let model =
            finishing("native", &json!({"response": 1})).reply_calls([("b", FINISH, r#"{"response":2}"#)]);
        ReactAgent::builder(model).output::<i64>().output_validator(move |mut output, _| {
            let new = new.clone();
            async move {
                if output.value == Some(json!(1)) {
                    return Ok(Verdict::retry("It must be even."));
                }
                output.value = Some(new);
                Ok(Verdict::Replace(output))
            }
        })
    };
    let answer = agent(json!(4)).build().unwrap().run("?").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.parse::<i64>().unwrap(), answer.text.as_str()), (4, "4"));
    let error = agent(json!("x")).build().unwrap().run("?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::HookFailed { .. }), "{error:?}");
}

/// The extraction of the outputs, and a chain of thought, work with any type.
#[tokio::test]
async fn value_is_extracted_and_has_reasoning() {
    let model =
        ScriptedModel::new().reply_text("I see two.").reply_calls([("a", FINISH, r#"{"response":2}"#)]);
    let agent = ReactAgent::builder(model).output::<i64>().output_strategy(OutputStrategy::Extraction);
    let answer = agent.build().unwrap().run("?").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.parse::<i64>().unwrap(), 2);

    for outputs in [json!({"reasoning": "So.", "response": "Rome"})] {
        let model = finishing("native", &outputs);
        let agent = ReactAgent::builder(model).output::<String>().chain_of_thought().build().unwrap();
        let answer = agent.run("?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.parse::<String>().unwrap(), "Rome");
        assert_eq!((answer.text.as_str(), &answer.outputs["reasoning"]), ("Rome", &json!("So.")));
        let trajectory = Trajectory::from_transcript(&answer.transcript);
        assert_eq!(trajectory.steps[0].tool_args, outputs);
    }
}

/// The result of a stop tool is the value if it fits the declared type.
#[tokio::test]
async fn stop_tool_returns_the_value() {
    /// Counts the letters.
    #[tool]
    fn count(text: String) -> usize {
        text.len()
    }

    /// Lists the letters.
    #[tool]
    fn letters(text: String) -> haft_core::Json<Vec<char>> {
        haft_core::Json(text.chars().collect())
    }

    let run = async |name: &str, builder: fn(ReactAgentBuilder) -> ReactAgentBuilder| {
        let model = ScriptedModel::new().reply_calls([("a", name, r#"{"text":"ab"}"#)]);
        let tools = Toolset::new().with_tool(Count).with_tool(Letters);
        let agent = builder(ReactAgent::builder(model).tools(tools).stop_on([name])).build().unwrap();
        let answer = agent.run("?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.stop_reason, StopReason::Tool);
        answer
    };
    assert_eq!(run("count", ReactAgentBuilder::output::<u64>).await.parse::<u64>().unwrap(), 2);
    assert_eq!(run("count", ReactAgentBuilder::output::<bool>).await.value, None);
    assert_eq!(run("letters", ReactAgentBuilder::output::<Vec<String>>).await.value, Some(json!(["a", "b"])));
    assert_eq!(run("letters", |it| it).await.value, Some(json!(["a", "b"])));
    assert_eq!(run("letters", ReactAgentBuilder::output::<Person>).await.value, None);
}

/// A structured output with a number that cannot be held is rejected, and the model answers again.
#[tokio::test]
async fn inexact_number_in_an_output_is_rejected() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Order {
        id: u64,
        total: f64,
    }
    for dialect in DIALECTS {
        for written in [
            r#"{"id": 123456789012345678901234567890, "total": 1.5}"#,
            r#"{"id": 1e25, "total": 1.5}"#,
            r#"{"id": 1, "total": 1e400}"#,
            r#"{"id": 1, "total": 0.1234567890123456789012}"#,
        ] {
            let model = match dialect {
                "native" => ScriptedModel::new().reply_calls([("a", FINISH, written)]),
                "json" => ScriptedModel::new().reply_text(format!(
                    r#"{{"thought": "So.", "tool_name": "finish", "tool_args": {written}}}"#
                )),
                _ => ScriptedModel::new()
                    .reply_text(format!("Thought: So.\nAction: finish\nArguments: {written}")),
            };
            let right = r#"{"id": 18446744073709551615, "total": 1e3}"#;
            let model = match dialect {
                "native" => model.reply_calls([("b", FINISH, right)]),
                "json" => model.reply_text(format!(
                    r#"{{"thought": "So.", "tool_name": "finish", "tool_args": {right}}}"#
                )),
                _ => model.reply_text(format!("Thought: So.\nAction: finish\nArguments: {right}")),
            };
            let agent = with_dialect(ReactAgent::builder(model.clone()).output::<Order>(), dialect);
            let answer = agent.build().unwrap().run("Order?").await.unwrap().into_answer().unwrap();
            assert_eq!(answer.parse::<Order>().unwrap(), Order { id: u64::MAX, total: 1000.0 }, "{dialect}");
            let hint = model.requests()[1].messages.iter().map(|it| it.text()).collect::<String>();
            assert!(
                hint.contains("out of range: ") || hint.contains("too many digits: "),
                "{dialect}: {hint}"
            );
            assert!(!hint.contains("haft:number"), "{dialect}: {hint}");
        }
    }
}
