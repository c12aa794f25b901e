//! A conversation that moves between the providers in the middle of a run: each API accepts what
//! the others wrote, and nothing that the next one can read is lost.

use std::sync::{Arc, Mutex};

use haft_core::{
    ChatModel, Message, RunInput, ToolError, ToolOutput, Toolset, content::Content, message::MessageBody,
    tool,
};
use haft_react::ReactAgent;
use serde_json::{Value, json};

use crate::apis::Api;

const PNG: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A];

/// Looks at a picture.
#[tool]
fn picture(name: String) -> ToolOutput {
    ToolOutput {
        content: vec![Content::text(format!("This is {name}.")), Content::from_bytes(PNG, "image/png")],
        ..ToolOutput::default()
    }
}

/// Fails.
#[tool]
fn broken(reason: String) -> Result<String, ToolError> {
    Err(ToolError::failed(format!("it is broken: {reason}")))
}

fn tools() -> Toolset {
    Toolset::new().with_tool(Picture).with_tool(Broken)
}

/// Returns the model of `api` and the bodies of its requests. The model thinks, writes a text and
/// calls both tools, and answers after their results.
fn model(api: Api, tag: &'static str) -> (Arc<dyn ChatModel>, Arc<Mutex<Vec<Value>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&bodies);
    let model = api.model(move |body| {
        let has_results = body.to_string().contains(&format!("the {tag} picture"));
        recorded.lock().unwrap().push(body);
        let calls = [
            (format!("call_{tag}_1"), "picture".to_owned(), json!({"name": format!("the {tag} picture")})),
            (format!("call_{tag}_2"), "broken".to_owned(), json!({"reason": tag})),
        ];
        api.reply(if has_results { &[] } else { &calls }, 100)
    });
    (model, bodies)
}

fn tag(api: Api) -> &'static str {
    match api {
        Api::ChatCompletions => "chat",
        Api::Responses => "responses",
        Api::Anthropic => "anthropic",
        Api::Gemini => "gemini",
        Api::Interactions => "interactions",
    }
}

/// All sequences of three APIs.
fn orders() -> impl Iterator<Item = [Api; 3]> {
    let all = Api::ALL;
    all.into_iter().flat_map(move |first| {
        all.into_iter().flat_map(move |second| all.into_iter().map(move |third| [first, second, third]))
    })
}

/// Each of three models continues the conversation with a step of its own. The last request has
/// everything that the earlier models wrote.
#[tokio::test]
async fn conversation_moves_between_all_providers() {
    for order in orders() {
        let mut history = haft_core::Transcript::new();
        let mut last = Value::Null;
        for (turn, api) in order.into_iter().enumerate() {
            let (model, bodies) = model(api, tag(api));
            let agent = ReactAgent::builder(model).tools(tools()).instructions("Be kind.").build().unwrap();
            let question = format!("Question {turn}?");
            let input = RunInput::new(Message::new(MessageBody::User {
                content: vec![Content::text(question), Content::from_bytes(PNG, "image/png")],
            }))
            .with_history(&history);
            let output = agent.run(input).await.unwrap_or_else(|error| panic!("{order:?}: {error}"));
            history = output.transcript().unwrap().clone();
            last = bodies.lock().unwrap().last().unwrap().clone();
        }
        let text = last.to_string();
        for (turn, api) in order.into_iter().enumerate() {
            let tag = tag(api);
            for part in [
                format!("Question {turn}?"),
                format!("This is the {tag} picture."),
                format!("it is broken: {tag}"),
                "Be kind.".to_owned(),
            ] {
                assert!(text.contains(&part), "{order:?}: {part:?} is not in {last:#}");
            }
        }
        let pictures = text.matches("iVBORw0KGgo").count();
        assert!(pictures >= 3, "{order:?}: {pictures} pictures in {last:#}");
    }
}
