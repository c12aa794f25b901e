//! Start a run with `cargo xtask example suspend-and-resume`. Then approve its pending call with
//! the argument `yes`, or deny it with the arguments `no "too many"`.

use std::{env, error::Error, path::Path, process::ExitCode};

use haft_core::{call::Decision, text::ErrorChain};
use haft_local::LocalModel;

const QUESTION: &str = "Order 3 boxes of paper.";

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
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let file = Path::new("suspended-run.json");
    let answer = match arguments.as_slice() {
        ["yes"] => Some(Decision::approved()),
        ["no"] => Some(Decision::denied("no reason given")),
        ["no", reason] => Some(Decision::denied(*reason)),
        _ => None,
    };
    if answer.is_some() && !file.exists() {
        return Err(format!("no suspended run: there is no file {}", file.display()).into());
    }
    let model = LocalModel::builder().progress_bar().open_default().await?;
    let report = match answer {
        Some(answer) => suspend_and_resume::answer(model, answer, file).await?,
        None => suspend_and_resume::ask(model, arguments.first().unwrap_or(&QUESTION), file).await?,
    };
    println!("{report}");
    Ok(())
}
