//! Tests the program with a scripted model server on the loopback interface.

use std::{io, process::Command};

use haft_tests::{ModelServer, Reply};

#[test]
fn both_agents_use_the_tools_of_both_libraries() -> io::Result<()> {
    let run = || {
        [
            Reply::Calls(vec![("call_1", "price", r#"{"item":"pen"}"#)]),
            Reply::Calls(vec![("call_2", "calculator", r#"{"input":"12 * 1.5"}"#)]),
            Reply::Text("12 pens cost 18 euros."),
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
    let requests = server.requests();
    let results = |request: usize| {
        let messages = requests[request]["messages"].as_array().cloned().unwrap_or_default();
        let results = messages.into_iter().filter(|message| message["role"] == "tool");
        results.map(|result| result["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(results(2), ["1.5", "18"]);
    assert_eq!(results(5), ["1.5", "18"]);
    Ok(())
}
