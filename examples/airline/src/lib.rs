//! An agent that books flights, with the tools of an airline's MCP server, and a person who is asked before it does.
//!
//! `airline.rs` is what the server serves; `bin/airline-server.rs` serves it. `main.rs` gives the agent a model in the process, and the
//! test one with a script.

pub mod airline;

use std::{error::Error, path::Path};

use haft_core::{
    ChatModel, RunInput, RunOutput, Toolset,
    agent::RunAnswer,
    call::{Decision, PendingCall, PendingKind},
    toolset::ToolSourceExt as _,
};
use haft_mcp::{McpSource, StdioServer};
use haft_react::ReactAgent;

/// What changes something for a customer: a person must agree to it.
const NEEDS_APPROVAL: [&str; 2] = ["book_itinerary", "cancel_itinerary"];

const INSTRUCTIONS: &str = "You serve the customers of an airline. To book, look for flights, pick one, and call book_itinerary: before \
                            that nothing is booked. Say what you did. Where no tool does what is wanted, file a ticket.";

/// Starts the server and takes its tools. Which of them need an approval is said here: what a server says about its own
/// tools is not trusted.
pub async fn tools(server: &Path) -> Result<Toolset, Box<dyn Error>> {
    let command = server.to_str().ok_or("the path of the server is not Unicode")?;
    let airline = McpSource::connect("airline", StdioServer::new(command)).await?;
    let guarded = airline.approval_required(|tool| NEEDS_APPROVAL.contains(&tool.name().as_str()));
    Ok(Toolset::new().with_source(guarded))
}

/// Serves a customer. Whenever the run waits for an approval, `decide` is asked.
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
            RunOutput::Parked(parked) => input = parked.decide(|request| Some(decide(request))),
        }
    }
}

/// What a person is shown: the call, with exactly the arguments that will run.
pub fn shown(pending: &PendingCall) -> String {
    match &pending.pending.kind {
        PendingKind::Approval { arguments } => format!("{} {arguments}", pending.call.name),
        other => format!("{} waits: {other:?}", pending.call.name),
    }
}
