//! The agent of haft, with the model and the tools of langchain-rust.

use std::error::Error;

use haft_core::Toolset;
use haft_langchain::{LangChainModel, LangChainTool};
use haft_react::ReactAgent;

use super::langchain_only::{model, tools};

pub fn build(base_url: &str) -> Result<ReactAgent, Box<dyn Error>> {
    let tools: Vec<_> = tools().into_iter().map(LangChainTool::new).collect();
    let model = LangChainModel::new("my-model", model(base_url));
    Ok(ReactAgent::new(model, Toolset::new().with_tools(tools))?)
}
