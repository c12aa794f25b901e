//! Run `cargo xtask example diagrams "Draw the architecture of a shop: web, API and database."`.
//! With `--url http://127.0.0.1:8002/mcp`, the tools are those of `diagrams-server 127.0.0.1:8002`.

use std::{env, error::Error, process::ExitCode, sync::Arc};

use haft_core::{Toolset, agent::StopReason, text::ErrorChain};
use haft_local::LocalModel;
use haft_mcp::{HttpServer, McpSource};

const REQUEST: &str =
    "Draw the architecture of a web shop: a browser, a web server, a payment service and a database.";

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
    let arguments: Vec<_> = env::args().skip(1).collect();
    let (tools, request) = match &arguments[..] {
        [flag, url, rest @ ..] if flag == "--url" => {
            let drawing = McpSource::connect("diagrams", HttpServer::new(url)).await?;
            (Toolset::new().with_source(drawing), rest.first())
        }
        rest => (diagrams::tools("."), rest.first()),
    };
    let request = request.map_or(REQUEST, String::as_str);
    // Both agents share one model.
    let model = Arc::new(LocalModel::builder().progress_bar().open_default().await?);
    let router = diagrams::router(Arc::clone(&model), model, &tools)?;
    let output = router.run(request).await?;
    let answer = output.into_answer()?;
    println!("{}", answer.text);
    if answer.stop_reason == StopReason::Clarification {
        println!("(Repeat the request and name the kind of diagram.)");
    }
    Ok(())
}
