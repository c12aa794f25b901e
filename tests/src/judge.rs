//! Third-party servers as processes. `cargo xtask setup` installs them in `target/judges`.
#![allow(clippy::unwrap_used, reason = "a test fails if a server cannot be started")]

use std::{
    env,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use haft_local::{KnownModel, ModelStore};
use serde_json::Value;

/// Returns the folder in which the third-party server `name` is installed. If it is not installed,
/// returns `None`, or panics if `HAFT_JUDGES` lists the server. `target_tmpdir` is the value of
/// `env!("CARGO_TARGET_TMPDIR")`, which only integration tests have.
pub fn installed_folder(target_tmpdir: &str, name: &str) -> Option<PathBuf> {
    let target = Path::new(target_tmpdir).parent().unwrap();
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
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts a server on a free port and waits until a request to the path `health` succeeds.
    /// `command` returns the command that starts the server on the given port.
    pub fn start(command: impl FnOnce(u16) -> Command, health: &str) -> Self {
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

    /// Returns the base URL of OpenAI's APIs.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// Returns the scheme, host and port.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn try_get(&self, path: &str) -> Option<(u16, String)> {
        exchange(self.port, "GET", path, "").ok()
    }

    /// Sends a GET request and returns the JSON body of the response.
    pub fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.try_get(path).unwrap().1).unwrap()
    }

    /// Sends a POST request. Panics if the status code of the response is not a success.
    pub fn post(&self, path: &str, body: &Value) {
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

/// A Python program for a model server that handles one request at a time. The context is limited
/// to 2,048 tokens, so a test can exceed it.
const SERVE: &str = "
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port = sys.argv[1], int(sys.argv[2])
p.n_ctx, p.n_parallel, p.use_jinja = 2048, 1, True
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(p)
time.sleep(3600)
";

/// Starts the llama.cpp server with the model of [`llama_cpp_model`]. If either is missing, returns
/// `None`, or panics if `HAFT_JUDGES` lists `xllamacpp`.
pub fn start_llama_cpp(target_tmpdir: &str) -> Option<Server> {
    let place = installed_folder(target_tmpdir, "xllamacpp")?;
    let model = llama_cpp_model()?;
    let serve = |port: u16| {
        let mut command = Command::new(place.join("bin/python"));
        command.args(["-c", SERVE]).arg(&model).arg(port.to_string());
        command
    };
    Some(Server::start(serve, "/health"))
}

/// Returns the path of the model file in `HAFT_MODEL`. If the variable is not set, returns the
/// model that `cargo xtask setup --judges` downloads. If neither is available, returns `None`, or
/// panics if `HAFT_JUDGES` lists `xllamacpp`.
pub fn llama_cpp_model() -> Option<PathBuf> {
    let model = env::var_os("HAFT_MODEL").map(PathBuf::from).or_else(|| {
        let known = KnownModel::all().first()?;
        ModelStore::new().ok()?.verified_path(known)
    });
    assert!(
        model.is_some() || !is_required("xllamacpp"),
        "no model for the server: run `cargo xtask setup --judges`"
    );
    model
}
