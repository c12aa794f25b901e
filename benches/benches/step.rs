//! Benches of a step of a run: a model request and a tool call. The agent with its default settings
//! is compared with two hand-written loops.
//!
//! Maximum instruction counts, checked by `--check`:
//!
//! - a plain step: 2 x a step of the reqwest loop
//! - a streamed step: 2 x a plain step
//! - a step with 1,000 messages, or with 1,000 tools: the same step of the reqwest loop

// The loops are a module of this program, so they are compiled with it, as in a program without
// haft.
#[path = "../src/by_hand.rs"]
mod by_hand;

use std::{hint::black_box, process::ExitCode};

use futures::StreamExt as _;
use haft_benches::{Case, ModelServer, REPLIES_PER_RUN, Work, asynchronous, run};
use haft_core::{
    Message, RunEvent, RunInput, Tool, ToolName, Toolset, Transcript, tool,
    tool::{DynamicTool, parse_arguments},
};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;
use serde::Deserialize;

use by_hand::{AsyncOpenAiLoop, ChatMessage, Failure, ReqwestLoop};

const QUESTION: &str = "What is the sum?";

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

/// The size of the model requests in a case.
#[derive(Clone, Copy, Default)]
struct RequestSize {
    /// The number of messages that precede the question.
    earlier_messages: usize,
    /// The number of tools besides `add`. The model never calls them.
    other_tools: usize,
}

fn main() -> ExitCode {
    let plain = RequestSize::default();
    let (long, wide) =
        (RequestSize { earlier_messages: 1_000, ..plain }, RequestSize { other_tools: 1_000, ..plain });
    let step = |name, work: fn(RequestSize) -> Work, size| {
        Case::new(name, move || work(size)).with_parts_per_round(REPLIES_PER_RUN).with_rounds(10)
    };
    run(
        "step",
        &[
            step("reqwest by hand", reqwest_loop, plain),
            step("async-openai by hand", async_openai_loop, plain).with_baseline("reqwest by hand"),
            step("haft", agent_work, plain).with_baseline("reqwest by hand").with_max_ratio(2.0),
            step("haft, streamed", streaming_work, plain).with_baseline("haft").with_max_ratio(2.0),
            step("1,000 messages, reqwest by hand", reqwest_loop, long),
            step("1,000 messages, async-openai by hand", async_openai_loop, long)
                .with_baseline("1,000 messages, reqwest by hand"),
            step("1,000 messages, haft", agent_work, long)
                .with_baseline("1,000 messages, reqwest by hand")
                .with_max_ratio(1.0),
            step("1,000 tools, reqwest by hand", reqwest_loop, wide),
            step("1,000 tools, async-openai by hand", async_openai_loop, wide)
                .with_baseline("1,000 tools, reqwest by hand"),
            step("1,000 tools, haft", agent_work, wide)
                .with_baseline("1,000 tools, reqwest by hand")
                .with_max_ratio(1.0),
        ],
    )
}

/// Creates the [`Work`] of complete runs. Each round calls `once`, which executes a run of
/// [`REPLIES_PER_RUN`] steps.
#[allow(clippy::expect_used, reason = "a failed loop cannot be measured")]
fn rounds_of<F: Future<Output = Result<String, Failure>>>(mut once: impl FnMut() -> F + 'static) -> Work {
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            let answer = once().await.expect("the run goes well");
            assert_eq!(black_box(answer), "It is 45.");
        }
    })
}

#[allow(clippy::expect_used, reason = "the server needs a port")]
fn base_url() -> String {
    ModelServer::start().expect("a port to listen on").base_url()
}

/// Returns the role and the text of each message that precedes the question.
fn earlier_messages(size: RequestSize) -> impl Iterator<Item = (&'static str, String)> {
    (0..size.earlier_messages).map(|number| match number % 2 {
        0 => ("user", format!("What about number {number}, which came before?")),
        _ => ("assistant", format!("There is nothing \"special\" about number {number}.\nAsk on.")),
    })
}

/// Returns the names of the tools besides `add`. The model never calls these tools.
fn other_tool_names(size: RequestSize) -> impl Iterator<Item = String> {
    (0..size.other_tools).map(|number| format!("tool_{number}"))
}

/// Creates the [`Work`] of the agent with its default settings, including validation.
fn agent_work(size: RequestSize) -> Work {
    let agent = build_agent(size);
    let transcript = transcript(size);
    rounds_of(move || {
        let (agent, input) = (agent.clone(), RunInput::new(QUESTION).with_history(transcript.clone()));
        async move { Ok(agent.run(input).await?.text()?.to_owned()) }
    })
}

/// Creates the [`Work`] of the agent with streamed replies and events.
fn streaming_work(size: RequestSize) -> Work {
    let agent = build_agent(size);
    let transcript = transcript(size);
    rounds_of(move || {
        let mut events = agent.stream(RunInput::new(QUESTION).with_history(transcript.clone()));
        async move {
            while let Some(event) = events.next().await {
                if let RunEvent::Done { output } = event? {
                    return Ok(output.text()?.to_owned());
                }
            }
            Err("no answer".into())
        }
    })
}

#[allow(clippy::expect_used, reason = "the model and the agent are valid")]
fn build_agent(size: RequestSize) -> ReactAgent {
    let others = other_tool_names(size).filter_map(|name| {
        let definition = Add.definition().clone().with_name(ToolName::new(name).ok()?);
        Some(DynamicTool::new(definition, |arguments, _| async move {
            parse_arguments(arguments).map(|Integers { x, y }| x + y)
        }))
    });
    let model = ChatCompletions::builder("mock").base_url(base_url()).build().expect("a model");
    ReactAgent::new(model, Toolset::new().with_tool(Add).with_tools(others.collect::<Vec<_>>()))
        .expect("an agent")
}

fn transcript(size: RequestSize) -> Transcript {
    let messages = earlier_messages(size).map(|(role, text)| match role {
        "user" => Message::user(text),
        _ => Message::assistant(text.as_str()),
    });
    messages.collect()
}

/// Creates the [`Work`] of the loop that uses reqwest.
fn reqwest_loop(size: RequestSize) -> Work {
    let by_hand = ReqwestLoop::new(&base_url(), all_tool_names(size));
    let earlier: Vec<_> = earlier_messages(size).map(|(role, text)| ChatMessage::new(role, text)).collect();
    rounds_of(move || {
        let (by_hand, mut messages) = (by_hand.clone(), earlier.clone());
        messages.push(ChatMessage::new("user", QUESTION));
        async move { by_hand.run(messages).await }
    })
}

/// Creates the [`Work`] of the loop that uses async-openai.
fn async_openai_loop(size: RequestSize) -> Work {
    let by_hand = AsyncOpenAiLoop::new(&base_url(), all_tool_names(size));
    let earlier: Vec<_> =
        earlier_messages(size).map(|(role, text)| AsyncOpenAiLoop::message(role, text)).collect();
    rounds_of(move || {
        let (by_hand, mut messages) = (by_hand.clone(), earlier.clone());
        messages.push(AsyncOpenAiLoop::message("user", QUESTION.to_owned()));
        async move { by_hand.run(messages).await }
    })
}

/// Returns the names of all tools, including `add`.
fn all_tool_names(size: RequestSize) -> impl Iterator<Item = String> {
    ["add".to_owned()].into_iter().chain(other_tool_names(size))
}
