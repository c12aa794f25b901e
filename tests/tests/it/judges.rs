//! Tests of HTTP models with third-party servers. `cargo xtask setup` installs the servers.

mod aimock;
mod llama;
mod llmock;

use std::{
    env,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use haft_core::{RunEvent, Toolset};
use haft_openai::{ChatCompletions, ModelBuilder, Responses};
use haft_react::ReactAgent;
use serde_json::Value;

use crate::Add;

/// Returns the folder in which the third-party server `name` is installed. If it is not installed,
/// returns `None`, or panics if `HAFT_JUDGES` lists the server.
fn installed_folder(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let place = target.join("judges").join(name);
    if place.join("version").is_file() {
        return Some(place);
    }
    assert!(!is_required(name), "{name} is not in {}: run `cargo xtask setup --judges`", place.display());
    None
}

/// Returns `true` if the environment variable `HAFT_JUDGES` lists the server `name`.
fn is_required(name: &str) -> bool {
    env::var("HAFT_JUDGES").is_ok_and(|required| required.split(',').any(|it| it == name))
}

/// The process of a third-party server. It is killed on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server on a free port and waits until a request to the path `health` succeeds.
    /// `command` returns the command that starts the server on the given port.
    fn start(command: impl FnOnce(u16) -> Command, health: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = command(port);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port };
        let started = Instant::now();
        while server.try_get(health).is_none_or(|(status, _)| status != 200) {
            assert!(server.child.try_wait().unwrap().is_none(), "{command:?} has ended");
            assert!(started.elapsed() < Duration::from_secs(120), "no reply from {command:?}");
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    fn try_get(&self, path: &str) -> Option<(u16, String)> {
        exchange(self.port, "GET", path, "").ok()
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.try_get(path).unwrap().1).unwrap()
    }

    fn post(&self, path: &str, body: &Value) {
        let (status, answer) = exchange(self.port, "POST", path, &body.to_string()).unwrap();
        assert!(status < 300, "{status} {answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request to the control API of a server. Returns the status code and the body of the
/// response. The request uses HTTP/1.0, so the body ends when the server closes the connection.
fn exchange(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    let length = body.len();
    write!(
        socket,
        "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, body.to_owned()))
}

/// Creates two agents with the tool `add`. The first uses OpenAI's Chat Completions API, and the
/// second uses its Responses API.
fn agents(server: &Server) -> [ReactAgent; 2] {
    let tools = || Toolset::new().with_tool(Add);
    let (chat, responses) = (ChatCompletions::builder("gpt-4o"), Responses::builder("gpt-4o"));
    [
        ReactAgent::new(connected_to(chat, server).build().unwrap(), tools()).unwrap(),
        ReactAgent::new(connected_to(responses, server).build().unwrap(), tools()).unwrap(),
    ]
}

fn connected_to<M>(builder: ModelBuilder<M>, server: &Server) -> ModelBuilder<M> {
    builder.base_url(server.base_url()).api_key("sk-test").first_retry_wait(Duration::from_millis(100))
}

/// Runs an agent with `question` and returns its answer. If `is_streamed` is `true`, asserts that
/// the concatenated deltas end with the answer.
async fn ask(agent: &ReactAgent, question: &str, is_streamed: bool) -> String {
    use futures::TryStreamExt as _;
    if !is_streamed {
        return agent.run(question).await.unwrap().text().unwrap().to_owned();
    }
    let events: Vec<_> = agent.stream(question).try_collect().await.unwrap();
    let deltas = events.iter().filter_map(|event| match event {
        RunEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    let streamed: String = deltas.collect();
    let Some(RunEvent::Done { output }) = events.last() else { panic!("{events:?}") };
    assert!(streamed.ends_with(output.text().unwrap()), "{streamed:?}");
    output.text().unwrap().to_owned()
}
