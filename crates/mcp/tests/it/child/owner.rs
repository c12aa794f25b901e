use std::{future, io::Write as _, process};

use haft_mcp::{McpSource, StdioServer};

/// Runs a program that starts an MCP server and then waits, exits, panics or returns. `how` is
/// `waits`, `exits`, `panics` or `returns`, followed by a comma and the marker of the processes,
/// for example `waits,haft-1-0`.
pub(super) fn run(how: &str) {
    let (how, marker) = how.split_once(',').unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _source = McpSource::connect("owned", launcher_server(marker)).await.unwrap();
        std::io::stdout().write_all(b"owner is ready\n").unwrap();
        match how {
            "waits" => future::pending().await,
            "exits" => process::exit(0),
            "panics" => panic!("the owner panics"),
            _returns => {}
        }
    });
}

/// Returns a configuration that runs a shell. The shell starts an MCP server and a background
/// process that ignores `SIGTERM`. The command line of each process contains `marker`.
pub(crate) fn launcher_server(marker: &str) -> StdioServer {
    let program = std::env::current_exe().unwrap();
    let arguments = super::arguments("legacy").join(" ");
    let stubborn = format!("trap '' TERM HUP; while :; do sleep 1; done; : {marker}");
    let script = format!("sh -c \"{stubborn}\" & {} {arguments} {marker}; wait", program.display());
    StdioServer::new("sh").with_args(["-c", &script]).with_env("PATH", "/usr/bin:/bin")
}
