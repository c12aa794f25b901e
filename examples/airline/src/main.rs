//! Run `cargo xtask example airline`, or `cargo xtask example airline "Cancel C0001."`. With
//! `--yes`, all calls are approved.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use haft_core::{
    call::{Decision, PendingCall},
    text::ErrorChain,
};
use haft_local::LocalModel;

const REQUEST: &str = "Book a flight from SFO to JFK on 2026-09-01 for Ada.";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (flags, words): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|argument| argument == "--yes");
    let request = words.first().map_or(REQUEST, String::as_str);
    // The MCP server is the second program of this package.
    let tools = airline::tools(&env::current_exe()?.with_file_name("airline-server")).await?;
    let model = LocalModel::builder().progress_bar().open_default().await?;
    println!("Customer: {request}");
    let decide = if flags.is_empty() { ask } else { approve };
    let answer = airline::serve(model, tools, request, decide).await?;
    for step in &answer.steps {
        println!("{} {}\n  {}", step.tool_name, step.tool_args, step.result.model_text());
    }
    println!("Agent: {}", answer.text);
    Ok(())
}

/// Shows a pending call in the terminal and reads the user's decision.
fn ask(pending: &PendingCall) -> Decision {
    print!("{}\nApprove? y, or a reason to deny: ", airline::prompt(pending));
    let mut line = String::new();
    let read = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut line));
    match (read, line.trim()) {
        (Ok(1..), "y" | "yes") => Decision::approved(),
        (Ok(1..), reason) if !reason.is_empty() => Decision::denied(reason),
        (Ok(1..), _) => Decision::denied("the customer denied it"),
        _ => Decision::denied("there is no terminal for the approval"),
    }
}

fn approve(pending: &PendingCall) -> Decision {
    println!("{}\nApproved by --yes.", airline::prompt(pending));
    Decision::approved()
}
