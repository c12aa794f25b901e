//! The PostgreSQL server of the tests.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _, any::install_default_drivers};

/// The password of the user `haft`, with characters that have an escape in the URL.
pub(crate) const PASSWORD: &str = "p@ss/word";
const ESCAPED_PASSWORD: &str = "p%40ss%2Fword";

/// Runs the server until its standard input closes: when this process has ended, in any way.
const SCRIPT: &str = include_str!("server.sh");

/// A running server.
struct Server {
    port: u16,
    /// The script, with the pipe that keeps it running.
    _script: Child,
}

/// Creates a database, and returns its URL. Starts the server on the first call. If PostgreSQL is
/// not installed, returns `None`, or panics if `HAFT_JUDGES` lists `postgres`.
pub(crate) async fn create_database() -> Option<String> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let port = SERVER.get_or_init(|| Some(Server::start(&find_programs()?))).as_ref()?.port;
    let url = |database: &str| format!("postgres://haft:{ESCAPED_PASSWORD}@127.0.0.1:{port}/{database}");
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    install_default_drivers();
    let mut connection = AnyConnection::connect(&url("postgres")).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    connection.close().await.unwrap();
    Some(url(&name))
}

/// Returns a port that no server listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    fn start(programs: &Path) -> Self {
        // Another process can take the port before the server does.
        (0..3).find_map(|_| Self::try_start(programs, free_port())).unwrap()
    }

    fn try_start(programs: &Path, port: u16) -> Option<Self> {
        let mut command = unprivileged("sh");
        command.args(["-c", SCRIPT, "server.sh"]).arg(programs).args([&port.to_string(), PASSWORD]);
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = script.stdout.as_mut().map(|output| BufReader::new(output).read_line(&mut line));
        if output.is_some_and(|read| read.is_ok()) && line.trim() == "ready" {
            return Some(Self { port, _script: script });
        }
        script.wait().unwrap();
        None
    }
}

/// Returns a command that runs `program` as the user `postgres` if this process is run by root:
/// PostgreSQL rejects root.
fn unprivileged(program: &str) -> Command {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout.trim_ascii() != b"0" {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--", program]);
    command
}

/// Returns the folder with the programs of PostgreSQL: in `PATH`, or the newest in the folder of
/// the Debian packages. If there is none, returns `None`, or panics if `HAFT_JUDGES` lists
/// `postgres`.
fn find_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    debian.sort_by_key(|folder| version(folder));
    let mut folders = env::split_paths(&path).chain(debian.into_iter().rev());
    let found = folders.find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file()));
    let is_required = env::var("HAFT_JUDGES").is_ok_and(|names| names.split(',').any(|it| it == "postgres"));
    assert!(found.is_some() || !is_required, "PostgreSQL is not installed: run `cargo xtask setup --judges`");
    if found.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    found
}

/// Returns the version of PostgreSQL in a path such as `/usr/lib/postgresql/17/bin`.
fn version(folder: &Path) -> Option<u32> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}
