//! Tests with real models: the client of langchain-rust with the llama.cpp server, and the executor
//! of langchain-rust with the local model. `cargo xtask setup --judges` installs the server and the
//! model.

use std::{error::Error, sync::Arc};

use haft_core::{Toolset, model::ChatSettings, tool};
use haft_langchain::{
    HaftLlm, LangChainModel, ToolsetExt,
    langchain_rust::{
        agent::{AgentExecutor, OpenAiToolAgentBuilder},
        chain::Chain,
        llm::openai::{OpenAI, OpenAIConfig},
        memory::SimpleMemory,
        prompt_args,
        schemas::MessageType,
    },
};
use haft_local::LocalModel;
use haft_react::{ReactAgent, dialect::AutoDialect};
use haft_tests::judge;

const QUESTION: &str = "What is 17 times 25?";

/// Multiplies two numbers.
#[tool]
fn multiply(x: i64, y: i64) -> i64 {
    x * y
}

/// The small model of the server writes its calls as JSON in the text of a reply, so the agent has
/// [`AutoDialect`].
#[tokio::test(flavor = "multi_thread")]
async fn client_of_langchain_drives_a_haft_agent() -> Result<(), Box<dyn Error>> {
    let Some(server) = judge::start_llama_cpp(env!("CARGO_TARGET_TMPDIR")) else { return skipped() };
    let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("none");
    let model = LangChainModel::new("qwen", OpenAI::new(config).with_model("qwen"));
    let settings = ChatSettings { temperature: Some(0.0), max_tokens: Some(200), ..ChatSettings::default() };
    let agent = ReactAgent::builder(Arc::new(model))
        .tools(Toolset::new().with_tool(Multiply))
        .settings(settings)
        .dialect(AutoDialect::new())
        .build()?;
    let output = agent.run(QUESTION).await?;
    let transcript = output.transcript()?;
    let results: Vec<_> = transcript.results_of("multiply").map(|result| result.model_text()).collect();
    assert_eq!(results, ["425"], "{transcript:?}");
    assert!(output.text()?.contains("425"), "{output:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn local_model_drives_an_executor_of_langchain() -> Result<(), Box<dyn Error>> {
    let Some(path) = judge::llama_cpp_model() else { return skipped() };
    let llm = HaftLlm::new(LocalModel::open(path).await?);
    let tools = Toolset::new().with_tool(Multiply).langchain_tools(["multiply"]).await?;
    let agent = OpenAiToolAgentBuilder::new().prefix("Use the tools.").tools(&tools).build(llm)?;
    let memory: Arc<_> = SimpleMemory::new().into();
    let executor = AgentExecutor::from_agent(agent).with_max_iterations(4).with_memory(Arc::clone(&memory));
    let answer = executor.invoke(prompt_args! {"input" => QUESTION}).await?;
    let messages = memory.lock().await.messages().await?;
    let results = messages.iter().filter(|message| message.message_type == MessageType::ToolMessage);
    let results: Vec<_> = results.map(|message| message.content.as_str()).collect();
    assert_eq!(results, ["425"], "{messages:?}");
    assert!(answer.contains("425"), "{answer}");
    Ok(())
}

fn skipped() -> Result<(), Box<dyn Error>> {
    eprintln!("skipped: run `cargo xtask setup --judges`");
    Ok(())
}
