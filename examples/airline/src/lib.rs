//! An agent that books flights with the tools of an MCP server. Each call that changes a booking
//! needs an approval.
//!
//! `airline.rs` contains the tools, and `bin/airline-server.rs` is the MCP server, over stdio or
//! HTTP. `main.rs` runs the agent with a local model, and the test runs it with a scripted model.

pub mod airline;

use std::error::Error;

use haft_core::{
    ChatModel, RunInput, RunOutput, Toolset,
    agent::RunAnswer,
    call::{Decision, PendingCall, PendingKind},
    toolset::SourceError,
};
use haft_mcp::{McpSource, ServerConfig};
use haft_react::ReactAgent;

/// The tools that change bookings. Each call to them needs an approval.
const NEEDS_APPROVAL: [&str; 2] = ["book_itinerary", "cancel_itinerary"];

const INSTRUCTIONS: &str = "You serve the customers of an airline. To book, look for flights, pick one, and call book_itinerary: before \
                            that nothing is booked. Say what you did. Where no tool does what is wanted, file a ticket.";

/// Starts the MCP server `server`, or contacts it over HTTP, and returns its tools. This program
/// itself lists the tools that need an approval, because the annotations of a server cannot be
/// trusted.
pub async fn tools(server: impl Into<ServerConfig>) -> Result<Toolset, SourceError> {
    let airline = McpSource::connect("airline", server).await?;
    let guarded = Toolset::from_source(airline)
        .approval_required(|tool| NEEDS_APPROVAL.contains(&tool.name().as_str()));
    Ok(Toolset::new().with_source(guarded))
}

/// Runs the agent with the request of a customer and returns its answer. `decide` is called for
/// each tool call that needs an approval.
pub async fn serve(
    model: impl ChatModel + 'static,
    tools: Toolset,
    request: &str,
    mut decide: impl FnMut(&PendingCall) -> Decision,
) -> Result<RunAnswer, Box<dyn Error>> {
    let agent = ReactAgent::builder(model).tools(tools).instructions(INSTRUCTIONS).build()?;
    let mut input = RunInput::new(request);
    loop {
        match agent.run(input).await? {
            RunOutput::Answer(answer) => return Ok(*answer),
            RunOutput::Suspended(suspended) => input = suspended.decide(|request| Some(decide(request))),
        }
    }
}

/// Formats the prompt for an approval. It contains the tool name and the arguments that the tool
/// will receive.
pub fn prompt(pending: &PendingCall) -> String {
    match &pending.pending.kind {
        PendingKind::Approval { arguments } => format!("{} {arguments}", pending.call.name),
        other => format!("{} is pending: {other:?}", pending.call.name),
    }
}
