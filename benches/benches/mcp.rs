//! Measures the client of `haft-mcp`: ten thousand calls in flight on one connection, and the
//! processor time of a call beside a bare `rmcp` client. The server runs in a separate process.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a benchmark program")]

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::BoxFuture, stream};
use haft_benches::peak_memory;
use haft_core::{Toolset, tool};
use haft_mcp::{HttpServer, HttpServiceConfig, McpService, McpSource, ServerConfig, StdioServer, serve_http};
use rmcp::{
    ClientServiceExt as _, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitationCapability,
        FormElicitationCapability, Implementation, JsonObject, ProtocolVersion, TASKS_EXTENSION_ID,
        UrlElicitationCapability,
    },
    service::{ClientLifecycleMode, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use rustix::time::Timespec;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
    time::sleep,
};

/// The number of calls in flight.
const CALLS_IN_FLIGHT: usize = 10_000;
/// The maximum peak memory of this process with the calls in flight, in MiB.
const MAX_MEMORY_MIB: f64 = 150.0;
/// The number of calls in a measurement of the processor time. Short measurements that alternate
/// between the clients have about the same disturbances.
const CALLS: usize = 500;
/// The number of calls at a time in a measurement of the processor time.
const CONCURRENCY: usize = 32;
/// The number of measurements of each client. The median of their ratios is reported.
const ROUNDS: usize = 61;
/// The maximum ratio of the processor time of a call to that of bare `rmcp`.
const MAX_RATIO: f64 = 1.1;

/// The command line arguments that make this program serve the tools.
const SERVE_STDIO: &str = "--serve-stdio";
const SERVE_HTTP: &str = "--serve-http";

type Failure = Box<dyn Error + Send + Sync>;

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Returns its argument after a second.
#[tool]
async fn wait(n: i64) -> i64 {
    sleep(Duration::from_secs(1)).await;
    n
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let tools = Toolset::new().with_tool(Add).with_tool(Wait);
    let done = match words[..] {
        [SERVE_STDIO] => haft_mcp::serve_stdio(tools).await.map_err(Failure::from),
        [SERVE_HTTP] => serve(tools).await,
        // The time varies between executions, so nothing is checked in CI.
        _ if words.contains(&"--check") => Ok(()),
        _ => measure().await,
    };
    done.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

async fn serve(tools: Toolset) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let service = McpService::new(tools, HttpServiceConfig::default());
    Ok(serve_http(service, listener, std::future::pending()).await?)
}

async fn measure() -> Result<(), Failure> {
    // The client of `rmcp` uses the TLS provider of the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let program = env::current_exe()?.to_string_lossy().into_owned();
    let memory = measure_calls_in_flight(&program).await?;
    let (_server, url) = start_http_server(&program).await?;
    let mut is_exceeded = memory > MAX_MEMORY_MIB;
    for name in ["stdio", "HTTP"] {
        let (haft, bare) = match name {
            "stdio" => (ServerConfig::from(stdio_server(&program)), bare_stdio_client(&program).await?),
            _ => (ServerConfig::from(HttpServer::new(&url)), bare_http_client(&url).await?),
        };
        let tools = Toolset::new().with_source(McpSource::connect("bench", haft).await?);
        let haft = || -> BoxFuture<'_, Result<i64, Failure>> {
            Box::pin(async { Ok(tools.call("add", json!({"x": 17, "y": 25})).await.model_text().parse()?) })
        };
        let bare = || -> BoxFuture<'_, Result<i64, Failure>> { Box::pin(call_bare(&bare)) };
        let mut ratios = Vec::new();
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (haft, bare) = (time_per_call(&haft).await?, time_per_call(&bare).await?);
            ratios.push(haft / bare);
            times.0.push(haft);
            times.1.push(bare);
        }
        let ratio = median(ratios);
        is_exceeded |= ratio > MAX_RATIO;
        println!(
            "{name}: {:.0} µs of processor time per call, bare rmcp {:.0} µs; ratio {ratio:.2}, the goal is {MAX_RATIO}",
            median(times.0) * 1e6,
            median(times.1) * 1e6
        );
    }
    if is_exceeded { Err("a goal is not reached".into()) } else { Ok(()) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn stdio_server(program: &str) -> StdioServer {
    StdioServer::new(program).with_args([SERVE_STDIO])
}

/// Sends all calls over one connection, and checks their results. Returns the peak memory in MiB.
async fn measure_calls_in_flight(program: &str) -> Result<f64, Failure> {
    let tools = Toolset::new().with_source(McpSource::connect("bench", stdio_server(program)).await?);
    let begun = Instant::now();
    let calls = (0..CALLS_IN_FLIGHT).map(|n| {
        let tools = tools.clone();
        tokio::spawn(async move { tools.call("wait", json!({"n": n})).await.model_text() == n.to_string() })
    });
    let calls: Vec<_> = calls.collect();
    let mut right = 0;
    for call in calls {
        right += usize::from(call.await?);
    }
    let (took, memory) = (begun.elapsed(), peak_memory().unwrap_or_default());
    println!("{CALLS_IN_FLIGHT} calls in flight on one connection over stdio, each of 1 s");
    println!("  results   {right} are right");
    println!("  time      {:.2} s", took.as_secs_f64());
    println!("  memory    {memory:.0} MiB at most; the goal is {MAX_MEMORY_MIB:.0} MiB");
    if right < CALLS_IN_FLIGHT { Err("results are missing".into()) } else { Ok(memory) }
}

/// Returns the processor time of this process per call, in seconds.
async fn time_per_call<'a>(
    call: &(impl Fn() -> BoxFuture<'a, Result<i64, Failure>> + 'a),
) -> Result<f64, Failure> {
    let begun = processor_time();
    let results: Vec<_> =
        stream::iter(0..CALLS).map(|_| call()).buffer_unordered(CONCURRENCY).collect().await;
    let took = processor_time() - begun;
    for result in results {
        if result? != 42 {
            return Err("a result is wrong".into());
        }
    }
    Ok(took / CALLS as f64)
}

type BareClient = RunningService<RoleClient, ClientConfig>;

async fn call_bare(client: &BareClient) -> Result<i64, Failure> {
    let arguments = json!({"x": 17, "y": 25}).as_object().cloned().unwrap_or_default();
    let result = client.peer().call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await?;
    let result = serde_json::to_value(result)?;
    Ok(result["content"][0]["text"].as_str().unwrap_or_default().parse()?)
}

/// Returns a configuration with the capabilities of `haft-mcp`, which are in the `_meta` of each
/// request. Both clients then send the same requests.
fn bare_config() -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(
        ElicitationCapability::new()
            .with_form(FormElicitationCapability::new())
            .with_url(UrlElicitationCapability::new()),
    );
    let extension = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
    capabilities.extensions = Some(BTreeMap::from_iter([extension]));
    ClientConfig::new(capabilities, Implementation::new("rmcp", "3.11.0"))
}

fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

async fn bare_stdio_client(program: &str) -> Result<BareClient, Failure> {
    let mut command = Command::new(program);
    let mut server = command.arg(SERVE_STDIO).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let streams = server.stdout.take().zip(server.stdin.take()).ok_or("no standard streams")?;
    Ok(bare_config().serve_with_lifecycle(streams, lifecycle()).await?)
}

async fn bare_http_client(url: &str) -> Result<BareClient, Failure> {
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
    Ok(bare_config().serve_with_lifecycle(transport, lifecycle()).await?)
}

async fn start_http_server(program: &str) -> Result<(Child, String), Failure> {
    let mut command = Command::new(program);
    let mut server = command.arg(SERVE_HTTP).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = server.stdout.take().ok_or("no standard output")?;
    let mut url = String::new();
    BufReader::new(stdout).read_line(&mut url).await?;
    Ok((server, url.trim().to_owned()))
}

/// Returns the processor time of this process, in seconds.
fn processor_time() -> f64 {
    let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}
