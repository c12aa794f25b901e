mod agent_chain;
mod chain_agent;
mod chain_tool;
mod inputs;

pub use agent_chain::HaftChain;
pub use chain_agent::LangChainAgent;
pub use chain_tool::chain_tool;

pub(crate) use inputs::{history, message};
use langchain_rust::language_models::GenerateResult;

/// The default variable for the input of a chain, as in LangChain.
pub(crate) const INPUT: &str = "input";
/// The variable for the earlier messages, as in LangChain's agents.
pub(crate) const HISTORY: &str = "chat_history";
/// The variable for the images of the input, as in LangChain.
const IMAGES: &str = "images";

/// The result of an `AgentExecutor` at its limit.
const MAX_ITERATIONS: &str = "Max iterations reached";

/// Fails if `result` is the answer of an `AgentExecutor` after its last iteration.
fn check_iterations(result: &GenerateResult) -> Result<(), String> {
    if result.generation == MAX_ITERATIONS {
        return Err("the agent executor reached its maximum number of iterations without an answer: \
                    raise `with_max_iterations`"
            .to_owned());
    }
    Ok(())
}
