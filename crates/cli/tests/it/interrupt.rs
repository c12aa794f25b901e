use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use haft_tests::{ModelServer, Reply};

use crate::{Ended, child, haft};

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(running: &Child) {
    let signalled = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
}

/// What an interrupted program says.
fn assert_cancelled(running: Child) {
    let ended = Ended::from(running.wait_with_output().unwrap());
    ended.assert_failed(1, "cancelled");
    assert_eq!(ended.json_lines().pop().unwrap()["type"], "error");
}

#[test]
fn an_interrupt_cancels_the_run_and_says_so() {
    let server = ModelServer::start([Reply::Silence]).unwrap();
    let base_url = server.base_url();
    let running =
        start(haft(["run", "--json", "--model", "openai:scripted", "--base-url", &base_url, "Hello"]));
    server.wait_for_request();
    interrupt(&running);
    assert_cancelled(running);
}

#[cfg(feature = "local")]
#[test]
fn an_interrupt_cancels_what_comes_before_the_run() {
    let (hub, cache) = (crate::hub::Hub::start(None), tempfile::tempdir().unwrap());
    let mut command = haft(["run", "--json", "Hello"]);
    command.env("HF_ENDPOINT", &hub.address).env("HAFT_CACHE", cache.path());
    let running = start(command);
    hub.wait_for_request();
    interrupt(&running);
    assert_cancelled(running);
}

/// Here the program waits for somebody to read the second half of its output.
#[test]
fn a_second_interrupt_ends_the_program_whatever_it_waits_for() {
    let (_folder, path) = child::mcp_json();
    let city = format!(r#"{{"city":"{}"}}"#, "x".repeat(100_000));
    let mut running = start(haft(["call", "weather", &city, "--mcp", path.to_str().unwrap()]));
    let mut begin = [0; 1];
    running.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    let status = loop {
        interrupt(&running);
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(130));
}
