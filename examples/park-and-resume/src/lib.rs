//! A run that waits for a person, in one process, and goes on in another.
//!
//! The first process asks. Where the model wants to order something, the run is parked: it becomes a file, and the process ends. The
//! second process reads the file, says yes or no, and the run goes on to its answer. `main.rs` gives both a model in the process,
//! and the test one with a script.

use std::{error::Error, fs, path::Path};

use haft_core::{ChatModel, RunOutput, Toolset, agent::Parked, call::Decision, tool};
use haft_react::ReactAgent;

/// Says how many boxes of paper are left.
#[tool]
fn stock() -> u32 {
    2
}

/// Orders boxes of paper. It costs money: a person must agree.
#[tool(requires_approval)]
fn order(
    /// How many boxes.
    boxes: u32,
) -> String {
    format!("{boxes} boxes are ordered")
}

fn agent(model: impl ChatModel + 'static) -> Result<ReactAgent, Box<dyn Error>> {
    let tools = Toolset::new().with(Stock).with(Order);
    let agent = ReactAgent::builder(model).tools(tools).instructions("You look after the office.");
    Ok(agent.build()?)
}

/// The first process: asks, and leaves a file where the run must wait.
pub async fn ask(
    model: impl ChatModel + 'static,
    question: &str,
    file: &Path,
) -> Result<String, Box<dyn Error>> {
    let output = agent(model)?.run(question).await?;
    told(output, file)
}

/// The second process, which knows nothing but the file: says yes or no, and goes on.
pub async fn answer(
    model: impl ChatModel + 'static,
    decision: Decision,
    file: &Path,
) -> Result<String, Box<dyn Error>> {
    let parked: Parked = serde_json::from_str(&fs::read_to_string(file)?)?;
    // The file is removed first: a run is resumed once.
    fs::remove_file(file)?;
    // One decision for all requests. They can also be decided one by one.
    let output = agent(model)?.run(parked.decide(|_| Some(decision.clone()))).await?;
    told(output, file)
}

/// The answer, or what the run waits for now.
fn told(output: RunOutput, file: &Path) -> Result<String, Box<dyn Error>> {
    match output {
        RunOutput::Answer(answer) => Ok(answer.text),
        RunOutput::Parked(parked) => {
            fs::write(file, serde_json::to_string_pretty(&parked)?)?;
            let calls =
                parked.pending.iter().map(|waits| format!("{} {}", waits.call.name, waits.call.arguments));
            let calls = calls.collect::<Vec<_>>().join("\n");
            Ok(format!("The run waits, in {}:\n{calls}\nSay yes, or no with a reason.", file.display()))
        }
    }
}
