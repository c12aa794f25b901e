//! Tests the program and the agents of the comparison with a scripted model server on the loopback
//! interface.

use std::{error::Error, io, process::Command};

use haft_testing::model_server::{ModelServer, Reply};
use langchain::agents::{haft_agent, haft_model, haft_only, langchain_only};

#[test]
fn both_agents_use_the_tools_of_both_libraries() -> io::Result<()> {
    let run = || {
        [
            Reply::calls([("call_1", "price", r#"{"item":"pen"}"#)]),
            Reply::calls([("call_2", "calculator", r#"{"input":"12 * 1.5"}"#)]),
            Reply::text("12 pens cost 18 euros."),
        ]
    };
    let server = ModelServer::start(run().into_iter().chain(run()))?;
    let output = Command::new(env!("CARGO_BIN_EXE_langchain"))
        .env("OPENAI_BASE_URL", server.base_url())
        .env_remove("OPENAI_API_KEY")
        .output()?;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "haft: 12 pens cost 18 euros.\nLangChain: 12 pens cost 18 euros.\n"
    );
    assert_eq!(tool_results(&server, 2), ["1.5", "18"]);
    assert_eq!(tool_results(&server, 5), ["1.5", "18"]);
    Ok(())
}

#[tokio::test]
async fn compared_agents_give_the_same_answer() -> Result<(), Box<dyn Error>> {
    const QUESTION: &str = "What is twice the sum of 17 and 25?";
    let run = || {
        [
            Reply::calls([("call_1", "add", r#"{"x":17,"y":25}"#)]),
            Reply::calls([("call_2", "multiply", r#"{"x":42,"y":2}"#)]),
            Reply::text("It is 84."),
        ]
    };
    let server = ModelServer::start([run(), run(), run(), run()].into_iter().flatten())?;
    let base_url = server.base_url();
    let answers = [
        langchain_only::answer(&langchain_only::build(&base_url)?, QUESTION).await?,
        haft_only::answer(&haft_only::build(&base_url)?, QUESTION).await?,
        haft_only::answer(&haft_agent::build(&base_url)?, QUESTION).await?,
        langchain_only::answer(&haft_model::build(&base_url)?, QUESTION).await?,
    ];
    assert_eq!(answers, ["It is 84."; 4]);
    for last_request in [2, 5, 8, 11] {
        assert_eq!(tool_results(&server, last_request), ["42", "84"]);
    }
    Ok(())
}

/// The book's doctests then compile the same programs that are compared.
#[test]
fn chapter_contains_the_compared_agents() {
    let chapter = include_str!("../../../docs/src/langchain.md");
    for source in
        [include_str!("../src/agents/langchain_only.rs"), include_str!("../src/agents/haft_only.rs")]
    {
        let code = source.split_once("\n\n").map_or(source, |(_, code)| code);
        assert!(chapter.contains(code), "docs/src/langchain.md does not contain this program:\n{code}");
    }
}

/// Returns the results of tools in a request that the server received.
fn tool_results(server: &ModelServer, request: usize) -> Vec<serde_json::Value> {
    let messages = server.requests()[request]["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.into_iter().filter(|message| message["role"] == "tool");
    results.map(|result| result["content"].clone()).collect()
}
