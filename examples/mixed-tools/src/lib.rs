//! An agent with tools from two sources: functions of this program, and an MCP server that runs as
//! a child process.
//!
//! `main.rs` runs the agent with a local model, and the test runs it with a scripted model.

use std::{error::Error, path::Path, time::Instant};

use futures::StreamExt;
use haft_core::{ChatModel, RunEvent, RunOutput, Toolset, tool};
use haft_mcp::{McpSource, StdioServer};
use haft_react::ReactAgent;

/// Adds two numbers.
#[tool]
fn add(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a + b
}

/// Multiplies two numbers.
#[tool]
fn multiply(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a * b
}

/// Starts the MCP server at the path `clock_server`. Returns a toolset that contains its tools and
/// the functions of this program.
pub async fn tools(clock_server: &Path) -> Result<Toolset, Box<dyn Error>> {
    let command = clock_server.to_str().ok_or("the path of the clock server is not Unicode")?;
    println!("Starting the MCP server {command}");
    let clock = McpSource::connect("clock", StdioServer::new(command)).await?;
    let tools = Toolset::new().with_tool(Add).with_tool(Multiply).with_source(clock);
    for name in tools.names().await {
        println!("  tool {name}");
    }
    Ok(tools)
}

/// Runs the agent with `question` and prints its events. Returns the answer.
pub async fn answer(
    model: impl ChatModel + 'static,
    tools: Toolset,
    question: &str,
) -> Result<String, Box<dyn Error>> {
    let agent = ReactAgent::new(model, tools)?;
    println!("\nQuestion:    {question}");
    let started = Instant::now();
    let mut events = agent.stream(question);
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::RequestStarted { .. } => println!("Thinking …"),
            RunEvent::CallStarted { call } => println!("Call:        {} {}", call.name, call.arguments),
            RunEvent::CallFinished { result } => println!("Observation: {}", result.model_text()),
            RunEvent::Done { output: RunOutput::Answer(answer) } => {
                println!("Answer:      {}", answer.text);
                let (seconds, tokens) = (started.elapsed().as_secs_f64(), answer.usage.total_tokens());
                println!("\n{seconds:.1} s, {} requests, {tokens} tokens", answer.usage.requests);
                return Ok(answer.text);
            }
            _ => {}
        }
    }
    Err("the run is suspended".into())
}
