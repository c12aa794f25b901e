//! Tests the program with a scripted model server on the loopback interface.

use std::{
    error::Error,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use haft_testing::model_server::{ModelServer, Reply};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The running program.
struct Program {
    process: Child,
    address: String,
}

impl Program {
    fn start(folder: &Path, model: &ModelServer) -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_http-server"))
            .arg("127.0.0.1:0")
            .current_dir(folder)
            .env("OPENAI_BASE_URL", model.base_url())
            .env_remove("OPENAI_API_KEY")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim_end().strip_prefix("serving at http://").ok_or("no address")?.to_owned();
        Ok(Self { process, address })
    }

    /// Sends a request, and returns the body of the response. A request with a `body` is a POST.
    fn send(&self, path: &str, body: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let (method, length) = (if body.is_empty() { "GET" } else { "POST" }, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (_, body) = response.split_once("\r\n\r\n").ok_or("no body")?;
        Ok(body.to_owned())
    }

    fn interrupt(&mut self) -> Result<Option<i32>> {
        Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        Ok(self.process.wait()?.code())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn approval_is_given_to_the_next_process() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = ModelServer::start([
        Reply::calls([("call_1", "order", r#"{"boxes": 3}"#)]),
        Reply::text("Three boxes are on their way."),
    ])?;
    let mut program = Program::start(folder.path(), &model)?;
    assert_eq!(program.send("/stock", "")?, "2 boxes\n");
    let question = r#"{"messages": [{"role": "user", "content": "Order 3 boxes of paper."}]}"#;
    let started: Value = serde_json::from_str(&program.send("/ai/sessions/office/runs", question)?)?;
    let run = started["run_id"].as_str().ok_or("no run")?;
    let events = program.send(&format!("/ai/runs/{run}/events"), "")?;
    assert!(events.contains(r#""type":"suspended""#), "{events}");
    assert_eq!(program.interrupt()?, Some(0));

    let mut program = Program::start(folder.path(), &model)?;
    let decision = r#"{"call_id": "call_1", "decision": {"type": "approved"}}"#;
    program.send(&format!("/ai/runs/{run}/decisions"), decision)?;
    let last = events.rsplit_once("id: ").and_then(|(_, last)| last.lines().next()).ok_or("no number")?;
    let events = program.send(&format!("/ai/runs/{run}/events?after={last}"), "")?;
    assert!(events.contains("Three boxes are on their way."), "{events}");
    assert!(model.requests()[1].to_string().contains("3 boxes are ordered"));
    assert_eq!(program.interrupt()?, Some(0));
    Ok(())
}
