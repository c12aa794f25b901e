//! Tests of the export of spans and metrics by `haft serve`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use haft_testing::model_server::{ModelServer, Reply};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value as OtlpValue},
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::json;

use crate::haft;

/// A request that the collector has received.
struct Export {
    head: String,
    body: Vec<u8>,
}

/// Starts a collector on the loopback interface. Returns its address and the requests.
fn start_collector() -> (String, Receiver<Export>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            thread::spawn(move || {
                let stream = stream.unwrap();
                let mut reader = BufReader::new(&stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let length = head.to_lowercase().split("content-length: ").nth(1).unwrap().to_owned();
                let mut body = vec![0; length.lines().next().unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                sender.send(Export { head, body }).unwrap();
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                (&stream).write_all(response).unwrap();
            });
        }
    });
    (address, received)
}

/// Runs `haft serve` with the variables `environment`, asks a question, and sends SIGTERM.
fn start_and_ask(model: &ModelServer, environment: &[(&str, &str)]) -> (Child, BufReader<ChildStderr>) {
    let base_url = model.base_url();
    let arguments = ["serve", "--addr", "127.0.0.1:0", "--model", "openai:scripted", "--base-url", &base_url];
    let mut command = haft(arguments);
    command.args(["--no-mcp", "--no-store"]).envs(environment.iter().copied()).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit_once("http://").unwrap().1;
    let body = json!({"messages": [{"role": "user", "content": "canary-question"}], "use_tools": true});
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /chat HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains(" 200 "), "{response}");
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    (server, stderr)
}

fn start_model() -> ModelServer {
    let call = ("call_a", "calculator", r#"{"expression":"17 + 25"}"#);
    ModelServer::start([Reply::calls([call]), Reply::text("canary-answer")]).unwrap()
}

fn attribute<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        OtlpValue::StringValue(text) => Some(text),
        _ => None,
    }
}

#[test]
fn spans_and_metrics_are_exported_at_the_end() {
    let (collector, exports) = start_collector();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret-key"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ];
    let model = start_model();
    let (mut server, mut stderr) = start_and_ask(&model, &environment);
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let mut logged = String::new();
    stderr.read_to_string(&mut logged).unwrap();
    assert_eq!(logged, "");

    let (mut spans, mut metrics): (Vec<Span>, Vec<String>) = (Vec::new(), Vec::new());
    for Export { head, body } in exports.try_iter() {
        assert!(head.to_lowercase().contains("x-key: secret-key"), "{head}");
        let resource = if head.starts_with("POST /v1/traces ") {
            let request = ExportTraceServiceRequest::decode(&*body).unwrap();
            let resource = request.resource_spans[0].resource.clone().unwrap();
            let exported = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
            spans.extend(exported.flat_map(|it| it.spans));
            resource
        } else {
            assert!(head.starts_with("POST /v1/metrics "), "{head}");
            let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
            let resource = request.resource_metrics[0].resource.clone().unwrap();
            let exported = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
            metrics.extend(exported.flat_map(|it| it.metrics).map(|metric| metric.name));
            resource
        };
        assert_eq!(attribute(&resource.attributes, "service.name"), Some("haft"));
        assert_eq!(attribute(&resource.attributes, "deployment.environment.name"), Some("test"));
        // Neither the conversation nor the arguments are exported.
        let body = String::from_utf8_lossy(&body);
        assert!(!body.contains("canary") && !body.contains("17 + 25"), "{body}");
    }
    metrics.sort();
    let expected = [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "haft.server.active_runs",
        "http.server.request.duration",
    ];
    assert_eq!(metrics, expected);
    let run = spans.iter().find(|span| span.name == "invoke_agent").unwrap();
    let call = spans.iter().find(|span| span.name == "execute_tool").unwrap();
    assert_eq!((&call.trace_id, &call.parent_span_id), (&run.trace_id, &run.span_id));
    assert_eq!(attribute(&call.attributes, "gen_ai.tool.name"), Some("calculator"));
    let chat = spans.iter().find(|span| span.name == "chat").unwrap();
    assert_eq!(attribute(&chat.attributes, "gen_ai.request.model"), Some("scripted"));
}

/// A collector that cannot be reached, or does not answer, neither fails the server nor blocks it.
#[test]
fn missing_collector_does_not_fail_the_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in ["http://127.0.0.1:9", silent_url.as_str()] {
        let model = start_model();
        let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
        let (mut server, mut stderr) = start_and_ask(&model, &environment);
        let stopped = Instant::now();
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert!(stopped.elapsed() < Duration::from_secs(20), "{endpoint}: {:?}", stopped.elapsed());
        let mut logged = String::new();
        stderr.read_to_string(&mut logged).unwrap();
        assert_eq!(logged, "warning: the last spans and metrics could not be exported\n", "{endpoint}");
    }
}

#[test]
fn invalid_endpoint_is_an_error() {
    let mut command = haft(["serve", "--no-store", "--no-mcp"]);
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[");
    crate::CommandOutput::run(command).assert_failed(2, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
}
