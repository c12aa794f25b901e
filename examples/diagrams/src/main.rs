//! Run `cargo xtask example diagrams "Draw the architecture of a shop: web, API and database."`

use std::{env, error::Error, process::ExitCode, sync::Arc};

use haft_core::{agent::StopReason, text::ErrorChain};
use haft_local::LocalModel;

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
    let request = env::args().nth(1).unwrap_or_else(|| REQUEST.to_owned());
    // Both agents share one model.
    let model = Arc::new(LocalModel::builder().progress_bar().open_default().await?);
    let router = diagrams::router(Arc::clone(&model), model, ".")?;
    let output = router.run(request.as_str()).await?;
    let answer = output.into_answer()?;
    println!("{}", answer.text);
    if answer.stop_reason == StopReason::Clarification {
        println!("(Repeat the request and name the kind of diagram.)");
    }
    Ok(())
}
