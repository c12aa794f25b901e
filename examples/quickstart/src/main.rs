// An agent with one tool, on a model in the process.

use haft_core::{Toolset, tool};
use haft_local::LocalModel;
use haft_react::ReactAgent;

/// Adds two numbers.
#[tool]
fn add(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = LocalModel::builder().progress_bar().open_default().await?;
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Add))?;
    let output = agent.run("What is 17 plus 25?").await?;
    println!("{}", output.text()?);
    Ok(())
}
