use haft_core::{Toolset, tool};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;

/// Adds two numbers.
#[tool]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ChatCompletions::from_env("gpt-5-mini")?;
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Add))?;
    println!("{}", agent.run("What is 17 plus 25?").await?.text()?);
    Ok(())
}
