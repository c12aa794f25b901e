//! Runs a llama.cpp server as a child process, for the baseline. The server uses the same weights
//! as haft.

use std::{
    error::Error,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A Python program that serves a model file on a free port and prints the address of the server.
/// It exits when its standard input is closed.
const PROGRAM: &str = r#"
import os, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 4096
params.n_parallel = 1
params.use_jinja = True
params.port = 0
threads = len(os.sched_getaffinity(0))
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"#;

/// The process of the llama.cpp server, which is killed on drop.
pub(crate) struct Server {
    process: Child,
    pub(crate) base_url: String,
}

impl Server {
    /// Starts a server for the model file `model`. `python` is the path of a Python interpreter
    /// that has the package `xllamacpp`.
    pub(crate) fn start(python: &Path, model: &Path) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).arg(model);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = process.stdout.take().ok_or("the server has no standard output")?;
        let mut server = Self { process, base_url: String::new() };
        let mut lines = BufReader::new(stdout).lines();
        let address = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("http"));
        server.base_url = address.ok_or("the llama.cpp server does not start")?;
        Ok(server)
    }

    /// Returns the process id of the server.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
