use std::sync::Arc;

use langchain_rust::{chain::Chain, prompt::PromptArgs};
use serde_json::{Map, Value, json};

use haft_core::{ToolContext, ToolError, ToolOutput, text::ErrorChain, tool::DynamicTool};

use super::{INPUT, check_iterations};
use crate::{
    llm::usage,
    tool::{definition, failed},
};

/// Creates a tool from a chain, for example an `LLMMathChain` or an `AgentExecutor`.
///
/// The arguments of the tool are the [input keys](Chain::get_input_keys) of the chain, each a
/// required string. A chain without input keys has one argument, `input`. Replace the schema with
/// [`with_definition`](haft_core::ToolExt::with_definition) if the chain reads other types or has
/// other input keys: `SQLDatabaseChain` reads `query`, but returns the variables of its prompt as
/// keys. The output is the text of the result. The tokens count toward the limits of the run.
///
/// The result `Max iterations reached` of an `AgentExecutor` fails the call.
///
/// # Examples
///
/// ```
/// use haft_core::{ToolExt, export::async_trait};
/// use haft_langchain::{
///     chain_tool,
///     langchain_rust::{chain::{Chain, ChainError}, language_models::GenerateResult, prompt::PromptArgs},
/// };
/// use serde_json::json;
///
/// struct Greeting;
///
/// #[async_trait]
/// impl Chain for Greeting {
///     async fn call(&self, inputs: PromptArgs) -> Result<GenerateResult, ChainError> {
///         let generation = format!("Hello, {}.", inputs["name"].as_str().unwrap_or("you"));
///         Ok(GenerateResult { generation, ..GenerateResult::default() })
///     }
///
///     fn get_input_keys(&self) -> Vec<String> {
///         vec!["name".to_owned()]
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let greet = chain_tool("greet", "Greets a person.", Greeting);
/// assert_eq!(greet.invoke(json!({"name": "Ann"})).await.model_text(), "Hello, Ann.");
/// # });
/// ```
pub fn chain_tool(name: &str, description: &str, chain: impl Into<Box<dyn Chain>>) -> DynamicTool {
    let chain: Arc<dyn Chain> = Arc::from(chain.into());
    let definition = definition(name, description).with_input_schema(input_schema(chain.get_input_keys()));
    DynamicTool::new(definition, move |arguments, cx| {
        let chain = Arc::clone(&chain);
        async move { call(&*chain, arguments, &cx).await }
    })
}

fn input_schema(mut keys: Vec<String>) -> Value {
    if keys.is_empty() {
        keys.push(INPUT.to_owned());
    }
    let properties: Map<_, _> = keys.iter().map(|key| (key.clone(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": keys, "additionalProperties": false})
}

async fn call(chain: &dyn Chain, arguments: Value, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let Value::Object(arguments) = arguments else {
        return Err(ToolError::InvalidArguments("expected an object".into()));
    };
    let result = chain.call(arguments.into_iter().collect::<PromptArgs>()).await;
    let result = result.map_err(|error| failed(ErrorChain(&error).to_string()))?;
    if result.tokens.is_some() {
        cx.report_usage(usage(result.tokens.as_ref()));
    }
    check_iterations(&result).map_err(failed)?;
    Ok(result.generation.into())
}
