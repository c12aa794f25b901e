//! The agent with langchain-rust.

use std::sync::Arc;

use haft_langchain::langchain_rust::{
    agent::{AgentError, AgentExecutor, OpenAiToolAgent, OpenAiToolAgentBuilder},
    chain::{Chain, ChainError},
    language_models::llm::LLM,
    llm::openai::{OpenAI, OpenAIConfig},
    prompt_args,
    tools::{FunctionTool, Tool},
};
use serde::Deserialize;
use serde_json::{Value, json};

pub type Agent = AgentExecutor<OpenAiToolAgent>;

#[derive(Deserialize)]
struct Operands {
    x: i64,
    y: i64,
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    })
}

pub fn tools() -> Vec<Arc<dyn Tool>> {
    let add = |it: Operands| async move { it.x.checked_add(it.y).ok_or("the sum is too large") };
    let multiply = |it: Operands| async move { it.x.checked_mul(it.y).ok_or("the product is too large") };
    vec![
        Arc::new(FunctionTool::new("add", "Adds two integers.", parameters(), add)),
        Arc::new(FunctionTool::new("multiply", "Multiplies two integers.", parameters(), multiply)),
    ]
}

pub fn model(base_url: &str) -> impl LLM + 'static {
    let config = OpenAIConfig::new().with_api_base(base_url).with_api_key("none");
    OpenAI::new(config).with_model("my-model")
}

pub fn build(base_url: &str) -> Result<Agent, AgentError> {
    let agent = OpenAiToolAgentBuilder::new().tools(&tools()).build(model(base_url))?;
    Ok(AgentExecutor::from_agent(agent))
}

pub async fn answer(agent: &Agent, question: &str) -> Result<String, ChainError> {
    agent.invoke(prompt_args! {"input" => question}).await
}
