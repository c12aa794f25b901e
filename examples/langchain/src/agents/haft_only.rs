//! The agent with haft.

use std::error::Error;

use haft_core::{Toolset, tool};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> Result<i64, &'static str> {
    x.checked_add(y).ok_or("the sum is too large")
}

/// Multiplies two integers.
#[tool]
fn multiply(x: i64, y: i64) -> Result<i64, &'static str> {
    x.checked_mul(y).ok_or("the product is too large")
}

pub fn build(base_url: &str) -> Result<ReactAgent, Box<dyn Error>> {
    let model = ChatCompletions::builder("my-model").base_url(base_url).build()?;
    Ok(ReactAgent::new(model, Toolset::new().with_tool(Add).with_tool(Multiply))?)
}

pub async fn answer(agent: &ReactAgent, question: &str) -> Result<String, Box<dyn Error>> {
    Ok(agent.run(question).await?.text()?.to_owned())
}
