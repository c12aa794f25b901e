//! The agent of langchain-rust, with the model of haft.

use std::error::Error;

use haft_langchain::{
    HaftLlm,
    langchain_rust::agent::{AgentExecutor, OpenAiToolAgentBuilder},
};
use haft_openai::ChatCompletions;

use super::langchain_only::{Agent, tools};

pub fn build(base_url: &str) -> Result<Agent, Box<dyn Error>> {
    let model = ChatCompletions::builder("my-model").base_url(base_url).build()?;
    let agent = OpenAiToolAgentBuilder::new().tools(&tools()).build(HaftLlm::new(model))?;
    Ok(AgentExecutor::from_agent(agent))
}
