use std::process::{Command, Stdio};

use haft_tests::{ModelServer, Reply};

use crate::{Ended, haft};

#[test]
fn an_interrupt_cancels_the_run_and_says_so() {
    let server = ModelServer::start([Reply::Silence]).unwrap();
    let base_url = server.base_url();
    let mut command = haft(["run", "--json", "--model", "openai:scripted", "--base-url", &base_url, "Hello"]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.wait_for_request();
    let signalled = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());

    let ended = Ended::from(running.wait_with_output().unwrap());
    ended.assert_failed(1, "cancelled");
    assert_eq!(ended.json_lines().pop().unwrap()["type"], "error");
}
