//! One agent on the models of all providers, selected by a flag:
//!
//! ```console
//! $ cargo xtask example providers --model openai:gpt-5-mini "What is 17 plus 25?"
//! $ cargo xtask example providers --model responses:gpt-5-mini "What is 17 plus 25?"
//! $ cargo xtask example providers --model anthropic:claude-haiku-5-5 "What is 17 plus 25?"
//! $ cargo xtask example providers --model gemini:gemini-flash-latest "What is 17 plus 25?"
//! ```
//!
//! The keys are in `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` and `GEMINI_API_KEY`. `OPENAI_BASE_URL`,
//! `ANTHROPIC_BASE_URL` and `GOOGLE_GEMINI_BASE_URL` select another server.

use std::{env, error::Error, sync::Arc};

use haft_anthropic::Messages;
use haft_core::{ChatModel, Toolset, tool};
use haft_gemini::Gemini;
use haft_openai::{ChatCompletions, Responses};
use haft_react::ReactAgent;

const USAGE: &str = "usage: providers --model openai|responses|anthropic|gemini:NAME QUESTION";

/// Adds two numbers.
#[tool]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

fn model(provider: &str, name: &str) -> Result<Arc<dyn ChatModel>, Box<dyn Error>> {
    Ok(match provider {
        "openai" => Arc::new(ChatCompletions::from_env(name)?),
        "responses" => Arc::new(Responses::from_env(name)?),
        "anthropic" => Arc::new(Messages::from_env(name)?),
        "gemini" => Arc::new(Gemini::from_env(name)?),
        _ => return Err(USAGE.into()),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [flag, selected, question] = arguments.as_slice() else { return Err(USAGE.into()) };
    let (provider, name) = selected.split_once(':').filter(|_| flag == "--model").ok_or(USAGE)?;
    let agent = ReactAgent::new(model(provider, name)?, Toolset::new().with_tool(Add))?;
    println!("{}", agent.run(question.as_str()).await?.text()?);
    Ok(())
}
