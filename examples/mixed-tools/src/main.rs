//! Run `cargo xtask demo`. A local model answers a question that requires a function of this
//! program and a tool of the MCP server.

use std::{env, error::Error, process::ExitCode, time::Instant};

use haft_core::text::ErrorChain;
use haft_local::LocalModel;

const QUESTION: &str = "What is 17 plus 25, and what time is it in Tokyo?";

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
    let question = env::args().nth(1).unwrap_or_else(|| QUESTION.to_owned());
    // The MCP server is the second program of this package.
    let clock_server = env::current_exe()?.with_file_name("clock-server");
    let tools = mixed_tools::tools(&clock_server).await?;
    println!("Loading the model");
    let started = Instant::now();
    let model = LocalModel::builder().progress_bar().open_default().await?;
    println!("  done in {:.1} s", started.elapsed().as_secs_f64());
    mixed_tools::answer(model, tools, &question).await?;
    Ok(())
}
