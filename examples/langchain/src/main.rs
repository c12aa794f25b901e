//! langchain-rust and haft in one program: a haft agent with a tool of LangChain, and a LangChain
//! agent with a tool and the model of haft.
//!
//! The model is the one at `OPENAI_BASE_URL`, or the one of OpenAI with the key in
//! `OPENAI_API_KEY`. `MODEL` is its name (default: `gpt-5-mini`). Without these variables, a model
//! runs in the process.

use std::{env, error::Error, sync::Arc};

use haft_core::{ChatModel, Toolset, tool};
use haft_langchain::{
    HaftLlm, LangChainTool, ToolsetExt,
    langchain_rust::{
        agent::{AgentExecutor, OpenAiToolAgentBuilder},
        chain::Chain,
        prompt_args,
        tools::Calculator,
    },
};
use haft_local::LocalModel;
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;

/// Returns the price of an item in euros.
#[tool]
fn price(
    /// The name of the item, in the singular.
    item: String,
) -> Result<f64, String> {
    match item.to_lowercase().as_str() {
        "pen" => Ok(1.5),
        "notebook" => Ok(4.25),
        _ => Err(format!("no item {item:?}; available: pen, notebook")),
    }
}

const QUESTION: &str = "What do 12 pens cost?";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = open_model().await?;

    // LangChain's calculator in a haft agent.
    let calculator = LangChainTool::new(Arc::new(Calculator::new()));
    let tools = Toolset::new().with_tool(Price).with_tool(calculator);
    let agent = ReactAgent::new(Arc::clone(&model), tools.clone())?;
    println!("haft: {}", agent.run(QUESTION).await?.text()?);

    // The same tools and the same model in an agent of LangChain.
    let exported = tools.langchain_tools(["price", "calculator"]).await?;
    let agent = OpenAiToolAgentBuilder::new().tools(&exported).build(HaftLlm::new(model))?;
    let executor = AgentExecutor::from_agent(agent);
    println!("LangChain: {}", executor.invoke(prompt_args! {"input" => QUESTION}).await?);
    Ok(())
}

/// Returns the model that the environment selects, or else a local model.
async fn open_model() -> Result<Arc<dyn ChatModel>, Box<dyn Error>> {
    if env::var_os("OPENAI_BASE_URL").is_none() && env::var_os("OPENAI_API_KEY").is_none() {
        return Ok(Arc::new(LocalModel::builder().progress_bar().open_default().await?));
    }
    let name = env::var("MODEL").unwrap_or_else(|_| "gpt-5-mini".to_owned());
    Ok(Arc::new(ChatCompletions::from_env(&name)?))
}
