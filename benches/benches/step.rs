//! One step of a run, a request and a call: of our agent with everything on, and of two loops written by hand.

use std::{error::Error, hint::black_box, process::ExitCode, sync::Arc};

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
        ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage, ChatCompletionTool,
        ChatCompletionTools, CreateChatCompletionRequest, FunctionObject,
    },
};
use futures::StreamExt as _;
use haft_benches::{Case, ModelServer, STEPS, Work, asynchronous, run};
use haft_core::{
    Agent as _, DynamicTool, Message, RunEvent, RunInput, Tool, ToolName, Toolset, Transcript, Value,
    from_arguments, json, tool,
};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;
use serde::{Deserialize, Serialize};

const QUESTION: &str = "What is the sum?";

type Failure = Box<dyn Error + Send + Sync>;

/// Adds two integers.
#[tool]
async fn add(x: i64, y: i64) -> i64 {
    x + y
}

#[derive(Deserialize)]
struct Integers {
    x: i64,
    y: i64,
}

/// What comes beside the question.
#[derive(Clone, Copy, Default)]
struct Load {
    /// How many messages there are from before.
    earlier: usize,
    /// How many tools there are beside the one that is called.
    tools: usize,
}

fn main() -> ExitCode {
    let plain = Load::default();
    let (long, wide) = (Load { earlier: 1_000, ..plain }, Load { tools: 1_000, ..plain });
    let step = |name, work: fn(Load) -> Work, load| {
        Case::new(name, move || work(load)).in_parts(STEPS).with_rounds(10)
    };
    run(
        "step",
        &[
            step("reqwest by hand", reqwest_loop, plain).by_hand(),
            step("async-openai by hand", async_openai_loop, plain).by_hand().above("reqwest by hand"),
            step("haft", agent, plain).above("reqwest by hand"),
            step("haft, streamed", streaming_agent, plain).above("haft"),
            step("1,000 messages, reqwest by hand", reqwest_loop, long).by_hand(),
            step("1,000 messages, async-openai by hand", async_openai_loop, long)
                .by_hand()
                .above("1,000 messages, reqwest by hand"),
            step("1,000 messages, haft", agent, long).above("1,000 messages, reqwest by hand"),
            step("1,000 tools, reqwest by hand", reqwest_loop, wide).by_hand(),
            step("1,000 tools, async-openai by hand", async_openai_loop, wide)
                .by_hand()
                .above("1,000 tools, reqwest by hand"),
            step("1,000 tools, haft", agent, wide).above("1,000 tools, reqwest by hand"),
        ],
    )
}

/// Makes work of a loop: a round is a run of [`STEPS`] steps.
#[allow(clippy::expect_used, reason = "a loop that fails is nothing to measure")]
fn rounds_of<F: Future<Output = Result<String, Failure>>>(mut once: impl FnMut() -> F + 'static) -> Work {
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            let answer = once().await.expect("the run goes well");
            assert_eq!(black_box(answer), "It is 45.");
        }
    })
}

#[allow(clippy::expect_used, reason = "without a port there is nothing to measure")]
fn base_url() -> String {
    ModelServer::start().expect("a port to listen on").base_url()
}

/// The earlier conversation: who said what.
fn earlier(load: Load) -> impl Iterator<Item = (&'static str, String)> {
    (0..load.earlier).map(|number| match number % 2 {
        0 => ("user", format!("What about number {number}, which came before?")),
        _ => ("assistant", format!("There is nothing \"special\" about number {number}.\nAsk on.")),
    })
}

/// The names of the tools that are not called.
fn others(load: Load) -> impl Iterator<Item = String> {
    (0..load.tools).map(|number| format!("tool_{number}"))
}

/// Our agent, with validation and everything else that is on by itself.
fn agent(load: Load) -> Work {
    let agent = agent_of(load);
    let transcript = transcript(load);
    rounds_of(move || {
        let (agent, input) = (agent.clone(), RunInput::following(transcript.clone(), QUESTION));
        async move { Ok(agent.run(input).await?.text().to_owned()) }
    })
}

/// The same while somebody watches.
fn streaming_agent(load: Load) -> Work {
    let agent = agent_of(load);
    let transcript = transcript(load);
    rounds_of(move || {
        let mut events = agent.stream(RunInput::following(transcript.clone(), QUESTION));
        async move {
            while let Some(event) = events.next().await {
                if let RunEvent::Done { output } = event? {
                    return Ok(output.text().to_owned());
                }
            }
            Err("no answer".into())
        }
    })
}

#[allow(clippy::expect_used, reason = "without an agent there is nothing to measure")]
fn agent_of(load: Load) -> ReactAgent {
    let others = others(load).filter_map(|name| {
        let definition = Add.definition().clone().with_name(ToolName::new(name).ok()?);
        Some(DynamicTool::new(definition, |arguments, _| async move {
            from_arguments(arguments).map(|Integers { x, y }| x + y)
        }))
    });
    let model = ChatCompletions::builder("mock").base_url(base_url()).build().expect("a model");
    ReactAgent::new(model, Toolset::new().with(Add).with_all(others)).expect("an agent")
}

fn transcript(load: Load) -> Transcript {
    let messages = earlier(load).map(|(role, text)| match role {
        "user" => Message::user(text),
        _ => Message::assistant(text.as_str()),
    });
    messages.collect()
}

/// What a program does that knows its server and its one tool.
fn reqwest_loop(load: Load) -> Work {
    let url = format!("{}/chat/completions", base_url());
    let client = reqwest::Client::new();
    let tool = |name: String| {
        json!({"type": "function", "function": {
            "name": name, "description": "Adds two integers.", "parameters": parameters(),
        }})
    };
    let tools: Arc<[_]> = ["add".to_owned()].into_iter().chain(others(load)).map(tool).collect();
    let earlier: Vec<_> = earlier(load).map(|(role, text)| Said::new(role, text)).collect();
    rounds_of(move || {
        let (client, url, tools, mut messages) =
            (client.clone(), url.clone(), Arc::clone(&tools), earlier.clone());
        messages.push(Said::new("user", QUESTION));
        async move {
            loop {
                let body = serde_json::to_vec(&Asked { model: "mock", messages: &messages, tools: &tools })?;
                let request = client.post(&url).header("content-type", "application/json").body(body);
                let reply = request.send().await?.error_for_status()?.bytes().await?;
                let reply: Replied = serde_json::from_slice(&reply)?;
                let message = reply.choices.into_iter().next().ok_or("no choice")?.message;
                let calls = message.tool_calls.clone();
                if calls.is_empty() {
                    return Ok(message.content.unwrap_or_default());
                }
                messages.push(message);
                for call in calls {
                    let Integers { x, y } = serde_json::from_str(&call.function.arguments)?;
                    let result = Said::new("tool", add(x, y).await.to_string());
                    messages.push(Said { tool_call_id: Some(call.id), ..result });
                }
            }
        }
    })
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    messages: &'a [Said],
    tools: &'a [Value],
}

#[derive(Deserialize)]
struct Replied {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
}

#[derive(Clone, Deserialize, Serialize)]
struct Said {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Clone, Deserialize, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl Said {
    fn new(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: Some(text.into()), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// The same with the types of async-openai.
fn async_openai_loop(load: Load) -> Work {
    let config = OpenAIConfig::new().with_api_base(base_url()).with_api_key("none");
    let client = Client::with_config(config);
    let tool = |name: String| {
        let (description, parameters) = (Some("Adds two integers.".to_owned()), Some(parameters()));
        let function = FunctionObject { name, description, parameters, strict: None };
        ChatCompletionTools::Function(ChatCompletionTool { function })
    };
    let tools: Vec<_> = ["add".to_owned()].into_iter().chain(others(load)).map(tool).collect();
    let earlier: Vec<ChatCompletionRequestMessage> = earlier(load)
        .map(|(role, text)| match role {
            "user" => ChatCompletionRequestUserMessage::from(text).into(),
            _ => ChatCompletionRequestAssistantMessage::from(text).into(),
        })
        .collect();
    rounds_of(move || {
        let (client, tools, mut messages) = (client.clone(), tools.clone(), earlier.clone());
        messages.push(ChatCompletionRequestUserMessage::from(QUESTION).into());
        async move {
            loop {
                let request = CreateChatCompletionRequest {
                    model: "mock".to_owned(),
                    messages: messages.clone(),
                    tools: Some(tools.clone()),
                    ..CreateChatCompletionRequest::default()
                };
                let reply = client.chat().create(request).await?;
                let message = reply.choices.into_iter().next().ok_or("no choice")?.message;
                let Some(calls) = message.tool_calls else {
                    return Ok(message.content.unwrap_or_default());
                };
                messages.push(
                    ChatCompletionRequestAssistantMessage {
                        tool_calls: Some(calls.clone()),
                        ..ChatCompletionRequestAssistantMessage::default()
                    }
                    .into(),
                );
                for call in calls {
                    let ChatCompletionMessageToolCalls::Function(call) = call else { continue };
                    let Integers { x, y } = serde_json::from_str(&call.function.arguments)?;
                    let content = add(x, y).await.to_string().into();
                    messages.push(ChatCompletionRequestToolMessage { content, tool_call_id: call.id }.into());
                }
            }
        }
    })
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
        "additionalProperties": false,
    })
}
