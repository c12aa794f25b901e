//! Run `cargo xtask example airline`, or `cargo xtask example airline "Cancel C0001."`. With
//! `--yes`, all calls are approved. With `--url http://127.0.0.1:8001/mcp`, the tools are those of
//! `airline-server --http 127.0.0.1:8001`. The default is a child process.

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
use haft_mcp::{HttpServer, ServerConfig, StdioServer};

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
    let mut arguments = env::args().skip(1);
    let (mut request, mut url, mut decide) = (REQUEST.to_owned(), None, ask as fn(&PendingCall) -> Decision);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--yes" => decide = approve,
            "--url" => url = Some(arguments.next().ok_or("--url needs a URL")?),
            _ => request = argument,
        }
    }
    let tools = airline::tools(server(url)?).await?;
    let model = LocalModel::builder().progress_bar().open_default().await?;
    println!("Customer: {request}");
    let answer = airline::serve(model, tools, &request, decide).await?;
    for step in &answer.steps {
        println!("{} {}\n  {}", step.tool_name, step.tool_args, step.result.model_text());
    }
    println!("Agent: {}", answer.text);
    Ok(())
}

/// Returns the server at `url`, or the second program of this package.
fn server(url: Option<String>) -> Result<ServerConfig, Box<dyn Error>> {
    if let Some(url) = url {
        return Ok(HttpServer::new(url).into());
    }
    let program = env::current_exe()?.with_file_name("airline-server");
    let program = program.to_str().ok_or("the path of the server is not Unicode")?;
    Ok(StdioServer::new(program).into())
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
