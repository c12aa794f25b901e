//! Benches of a step of a run: a model request and a tool call. The agent with its default settings
//! is compared with two hand-written loops.
//!
//! Maximum instruction counts, checked by `--check`:
//!
//! - a plain step of Chat Completions: 2 x a step of the reqwest loop; of another API: 3 x
//! - a streamed step: 2 x a plain step
//! - a step with 1,000 messages: the same step of the reqwest loop; of another API: 1.1 x
//! - a step with 1,000 tools: the same step of the reqwest loop

// The loops are a module of this program, so they are compiled with it, as in a program without
// haft.
#[path = "../src/by_hand/anthropic.rs"]
mod anthropic;
#[path = "../src/by_hand.rs"]
mod by_hand;
#[path = "../src/by_hand/gemini.rs"]
mod gemini;
#[path = "../src/by_hand/responses.rs"]
mod responses;

use std::{hint::black_box, process::ExitCode, sync::Arc};

use futures::StreamExt as _;
use haft_anthropic::Messages;
use haft_benches::{Case, ModelServer, REPLIES_PER_RUN, Work, asynchronous, run};
use haft_core::{
    ChatModel, Message, RunEvent, RunInput, Tool, ToolName, Toolset, Transcript, tool,
    tool::{DynamicTool, parse_arguments},
};
use haft_gemini::Gemini;
use haft_openai::{ChatCompletions, Responses};
use haft_react::ReactAgent;
use serde::Deserialize;

use anthropic::{AnthropicLoop, AnthropicMessage};
use by_hand::{AsyncOpenAiLoop, ChatMessage, Failure, ReqwestLoop};
use gemini::{GeminiContent, GeminiLoop};
use responses::{InputItem, ResponsesLoop};

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

/// The names of the cases of an API: of the loop by hand and of the agent, for a plain step, 1,000
/// messages and 1,000 tools.
macro_rules! names {
    ($api:literal) => {
        [
            (concat!($api, ", by hand"), concat!($api, ", haft")),
            (concat!("1,000 messages, ", $api, ", by hand"), concat!("1,000 messages, ", $api, ", haft")),
            (concat!("1,000 tools, ", $api, ", by hand"), concat!("1,000 tools, ", $api, ", haft")),
        ]
    };
}

type ApiWorks = ([(&'static str, &'static str); 3], fn(RequestSize) -> Work, fn(RequestSize) -> Work);

/// The loop by hand and the agent for each API except Chat Completions.
const API_WORKS: [ApiWorks; 3] = [
    (
        names!("Responses"),
        |size| {
            let by_hand = ResponsesLoop::new(&server().base_url(), all_tool_names(size));
            hand_work(size, by_hand, InputItem::new, async |by_hand, input| by_hand.run(input).await)
        },
        |size| work_of(size, Responses::builder("mock").base_url(server().base_url()).build()),
    ),
    (
        names!("Anthropic"),
        |size| {
            let by_hand = AnthropicLoop::new(&server().origin(), all_tool_names(size));
            hand_work(size, by_hand, AnthropicMessage::new, async |by_hand, messages| {
                by_hand.run(messages).await
            })
        },
        |size| work_of(size, Messages::builder("mock").base_url(server().origin()).build()),
    ),
    (
        names!("Gemini"),
        |size| {
            let by_hand = GeminiLoop::new(&server().origin(), all_tool_names(size));
            hand_work(size, by_hand, GeminiContent::new, async |by_hand, contents| {
                by_hand.run(contents).await
            })
        },
        |size| work_of(size, Gemini::builder("mock").base_url(server().origin()).build()),
    ),
];

fn main() -> ExitCode {
    let plain = RequestSize::default();
    let (long, wide) =
        (RequestSize { earlier_messages: 1_000, ..plain }, RequestSize { other_tools: 1_000, ..plain });
    let step = |name, work: fn(RequestSize) -> Work, size| {
        Case::new(name, move || work(size)).with_parts_per_round(REPLIES_PER_RUN).with_rounds(10)
    };
    let mut cases = vec![
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
    ];
    for (names, by_hand, haft) in API_WORKS {
        for ((baseline, name), (size, max_ratio)) in
            names.into_iter().zip([(plain, 3.0), (long, 1.1), (wide, 1.0)])
        {
            cases.push(step(baseline, by_hand, size));
            cases.push(step(name, haft, size).with_baseline(baseline).with_max_ratio(max_ratio));
        }
    }
    run("step", &cases)
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
fn server() -> ModelServer {
    ModelServer::start().expect("a port to listen on")
}

fn base_url() -> String {
    server().base_url()
}

/// Creates the [`Work`] of `by_hand`, a loop for one API.
fn hand_work<L: Clone + 'static, M: Clone + 'static>(
    size: RequestSize,
    by_hand: L,
    message: fn(&'static str, String) -> M,
    run: impl AsyncFn(L, Vec<M>) -> Result<String, Failure> + Copy + 'static,
) -> Work {
    let earlier: Vec<_> = earlier_messages(size).map(|(role, text)| message(role, text)).collect();
    rounds_of(move || {
        let (by_hand, mut messages) = (by_hand.clone(), earlier.clone());
        messages.push(message("user", QUESTION.to_owned()));
        async move { run(by_hand, messages).await }
    })
}

/// Creates the [`Work`] of the agent with its default settings on `model`.
#[allow(clippy::expect_used, reason = "the model is valid")]
fn work_of<M: ChatModel + 'static, E: std::fmt::Debug>(size: RequestSize, model: Result<M, E>) -> Work {
    agent_work_on(size, Arc::new(model.expect("a model")))
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
    agent_work_on(size, chat_completions())
}

fn agent_work_on(size: RequestSize, model: Arc<dyn ChatModel>) -> Work {
    let agent = build_agent(size, model);
    let transcript = transcript(size);
    rounds_of(move || {
        let (agent, input) = (agent.clone(), RunInput::new(QUESTION).with_history(transcript.clone()));
        async move { Ok(agent.run(input).await?.text()?.to_owned()) }
    })
}

/// Creates the [`Work`] of the agent with streamed replies and events.
fn streaming_work(size: RequestSize) -> Work {
    let agent = build_agent(size, chat_completions());
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
fn chat_completions() -> Arc<dyn ChatModel> {
    Arc::new(ChatCompletions::builder("mock").base_url(base_url()).build().expect("a model"))
}

#[allow(clippy::expect_used, reason = "the agent is valid")]
fn build_agent(size: RequestSize, model: Arc<dyn ChatModel>) -> ReactAgent {
    let others = other_tool_names(size).filter_map(|name| {
        let definition = Add.definition().clone().with_name(ToolName::new(name).ok()?);
        Some(DynamicTool::new(definition, |arguments, _| async move {
            parse_arguments(arguments).map(|Integers { x, y }| x + y)
        }))
    });
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
