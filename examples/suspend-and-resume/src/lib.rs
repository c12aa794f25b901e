//! A run that one process suspends for an approval, and that another process resumes.
//!
//! The first process starts the run. A call to `order` suspends the run, so the process saves the
//! run to a file and exits. The second process loads the run, approves or denies the call, and
//! continues the run until it has an answer. `main.rs` uses a local model, and the test uses a
//! scripted model.

use std::{error::Error, fs, path::Path};

use haft_core::{ChatModel, RunOutput, Toolset, agent::SuspendedRun, call::Decision, tool};
use haft_react::ReactAgent;

/// Returns the number of boxes of paper in stock.
#[tool]
fn stock() -> u32 {
    2
}

/// Orders boxes of paper. It costs money, so it needs an approval.
#[tool(requires_approval)]
fn order(
    /// Number of boxes.
    boxes: u32,
) -> String {
    format!("{boxes} boxes are ordered")
}

fn agent(model: impl ChatModel + 'static) -> Result<ReactAgent, Box<dyn Error>> {
    let tools = Toolset::new().with_tool(Stock).with_tool(Order);
    let agent = ReactAgent::builder(model).tools(tools).instructions("You look after the office.");
    Ok(agent.build()?)
}

/// Starts a run with `question`, in the first process. Returns the answer. If the run is suspended,
/// saves it to `file` and returns a description of its pending calls.
pub async fn ask(
    model: impl ChatModel + 'static,
    question: &str,
    file: &Path,
) -> Result<String, Box<dyn Error>> {
    let output = agent(model)?.run(question).await?;
    report(output, file)
}

/// Resumes the run in `file` with `decision`, in the second process. Returns the answer. If the run
/// is suspended again, saves it to `file` and returns a description of its pending calls.
pub async fn answer(
    model: impl ChatModel + 'static,
    decision: Decision,
    file: &Path,
) -> Result<String, Box<dyn Error>> {
    let suspended: SuspendedRun = serde_json::from_str(&fs::read_to_string(file)?)?;
    // Remove the file before the run continues, so that the run cannot be resumed twice.
    fs::remove_file(file)?;
    // This example gives all pending calls the same decision. A program can also decide each call
    // separately.
    let output = agent(model)?.run(suspended.decide(|_| Some(decision.clone()))).await?;
    report(output, file)
}

/// Returns the answer in `output`. If the run is suspended, saves it to `file` and returns a
/// description of its pending calls.
fn report(output: RunOutput, file: &Path) -> Result<String, Box<dyn Error>> {
    match output {
        RunOutput::Answer(answer) => Ok(answer.text),
        RunOutput::Suspended(suspended) => {
            fs::write(file, serde_json::to_string_pretty(&suspended)?)?;
            let calls = suspended.pending.iter().map(|it| format!("{} {}", it.call.name, it.call.arguments));
            let calls = calls.collect::<Vec<_>>().join("\n");
            Ok(format!("The run waits, in {}:\n{calls}\nSay yes, or no with a reason.", file.display()))
        }
    }
}
