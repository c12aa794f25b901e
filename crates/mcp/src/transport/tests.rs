use std::{sync::Arc, time::Duration};

use haft_core::limits;
use rmcp::{
    RoleClient, RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, DiscoverRequest, DiscoverRequestParams, JsonRpcMessage,
        ListToolsRequest, RequestId, ServerJsonRpcMessage, SubscriptionFilter, SubscriptionsListenRequest,
        SubscriptionsListenRequestParams,
    },
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf,
    WriteHalf, duplex, split,
};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    ClientTransport, ServerEvents, ServerTransport, TransportLimits,
    envelope::{salvage_id, salvage_last_id},
    lines::{Line, Lines},
};

async fn lines_of(bytes: &'static [u8], limit: usize) -> Vec<String> {
    let mut lines = Lines::new(bytes, limit);
    let mut read = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        read.push(match line {
            Line::Complete(line) => String::from_utf8(line).unwrap(),
            Line::TooLong { head, tail, length } => {
                format!("{length}: {}…{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
            }
        });
    }
    read
}

#[tokio::test]
async fn line_over_the_limit_keeps_its_ends() {
    assert_eq!(lines_of(b"a\n\nbc\n", 2).await, ["a", "", "bc"]);
    assert_eq!(lines_of(b"a\nlast", 9).await, ["a", "last"]);
    assert_eq!(lines_of(b"abc\nd\n", 2).await, ["3: abc…abc", "d"]);
}

/// A byte order mark at the beginning of the output is no content.
#[tokio::test]
async fn byte_order_mark_is_removed() {
    assert_eq!(lines_of(b"\xef\xbb\xbf{}\r\n{}\n", 99).await, ["{}\r", "{}"]);
}

#[test]
fn id_is_salvaged_from_a_broken_message() {
    let seven = Some(RequestId::Number(7));
    assert_eq!(salvage_id(br#"{"jsonrpc":"2.0","id":7,"result":{"con"#), seven);
    assert_eq!(salvage_id(b"{\"result\":\"\xff\",\"id\":7,\"jsonrpc\":\"2.0\"}"), seven);
    assert_eq!(salvage_id(b"{\"level\":\"\xff\",\"id\":7}"), None);
    assert_eq!(salvage_id(br#"{"result":{"con"#), None);
    assert_eq!(salvage_id(b"[1]"), None);
    assert_eq!(salvage_last_id(br#"xxx"},"jsonrpc":"2.0","id":7}"#), seven);
    assert_eq!(salvage_last_id(br#"xxx","id":7,"x":"#), None);
}

struct Server {
    _input: ReadHalf<DuplexStream>,
    output: WriteHalf<DuplexStream>,
}

type Client = ClientTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

fn connect() -> (Client, Server) {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(ours);
    let (_input, output) = split(theirs);
    let limits =
        TransportLimits { line_bytes: limits::SERVER_MESSAGE_BYTES, probe_timeout: Duration::from_secs(3) };
    let client = ClientTransport::new(reader, writer, Arc::new(ServerEvents::default()), limits);
    (client, Server { _input, output })
}

async fn send_list_request(client: &mut Client, id: i64) {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    client.send(ClientJsonRpcMessage::request(request, RequestId::Number(id))).await.unwrap();
}

async fn receive(client: &mut Client) -> Value {
    let message: ServerJsonRpcMessage = Transport::<RoleClient>::receive(client).await.unwrap();
    serde_json::to_value(message).unwrap()
}

/// Lines that are not messages, and responses without an open request, are dropped.
#[tokio::test]
async fn stray_output_and_unmatched_responses_are_dropped() {
    let (mut client, mut server) = connect();
    send_list_request(&mut client, 1).await;
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"x": 1.0, "a": null}});
    let output =
        format!("hello\n\n{{oops\n{{\"id\":9,\"result\":{{}}}}\n{response}\n{response}\n{{\"x\":1}}\n");
    server.output.write_all(output.as_bytes()).await.unwrap();
    assert_eq!(receive(&mut client).await.to_string(), response.to_string());
    drop(server);
    assert!(
        Transport::<RoleClient>::receive(&mut client).await.is_none(),
        "the duplicate response is dropped"
    );
}

/// A log line on standard output is not treated as the response to the only open request.
#[tokio::test]
async fn log_lines_on_standard_output_fail_no_call() {
    let (mut client, mut server) = connect();
    send_list_request(&mut client, 1).await;
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
    let mut long = vec![b'='; limits::SERVER_MESSAGE_BYTES + 1];
    long.push(b'\n');
    let logs: [&[u8]; 10] = [
        b"{\"level\":30,\"id\":1,\"method\":{}}\n",
        b"{\"level\":30,\"id\":1,\"msg\":\"D\xe9marr\xe9\"}\n",
        b"{\"level\":30,\"msg\":\"handling add\"}\n",
        b"{\"level\":50,\"error\":{\"code\":5,\"message\":\"no paper\"}}\n",
        b"{\"level\":30,\"id\":1,\"error\":\"no paper\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"error\":\"no paper\"}\n",
        b"{\"level\":30,\"msg\":\"D\xe9marr\xe9\"}\n",
        b"D\xe9marr\xe9, id 1\n",
        b"  {curly\n",
        &long,
    ];
    let writing = async {
        for log in logs {
            server.output.write_all(log).await.unwrap();
        }
        server.output.write_all(response.as_bytes()).await.unwrap();
        server.output.write_all(b"\n").await.unwrap();
    };
    let both = async { tokio::join!(receive(&mut client), writing) };
    let (received, ()) = timeout(Duration::from_secs(10), both).await.unwrap();
    assert_eq!(received.to_string(), response);
}

/// An error without an id is assigned to the only open request. A subscription must not count as an
/// open request, because it has no response until it ends.
#[tokio::test]
async fn error_without_an_id_does_not_end_a_subscription() {
    let (mut client, mut server) = connect();
    let params = SubscriptionsListenRequestParams::new(SubscriptionFilter::default());
    let listen = ClientRequest::SubscriptionsListenRequest(SubscriptionsListenRequest::new(params));
    client.send(ClientJsonRpcMessage::request(listen, RequestId::Number(1))).await.unwrap();
    let error = b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"no\"}}\n";
    server.output.write_all(error).await.unwrap();
    let notification = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    server.output.write_all(notification).await.unwrap();
    assert_eq!(receive(&mut client).await["method"], json!("notifications/tools/list_changed"));
    send_list_request(&mut client, 3).await;
    server.output.write_all(error).await.unwrap();
    assert_eq!(receive(&mut client).await["id"], json!(3));
}

#[tokio::test]
async fn error_without_an_id_fails_the_only_open_request() {
    let (mut client, mut server) = connect();
    send_list_request(&mut client, 1).await;
    server
        .output
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\"}}\n")
        .await
        .unwrap();
    let error = receive(&mut client).await;
    assert_eq!((&error["id"], &error["error"]["message"]), (&json!(1), &json!("no")));
}

/// A server that starts slowly reads the `server/discover` request after its timeout. If it rejects
/// this request without an id, the next request must not fail.
#[tokio::test(start_paused = true)]
async fn error_without_an_id_after_the_probe_timeout_fails_no_request() {
    let (mut client, mut server) = connect();
    let discover = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
    client.send(ClientJsonRpcMessage::request(discover, RequestId::Number(1))).await.unwrap();
    assert_eq!(receive(&mut client).await["error"]["message"], json!("no response within 3s"));
    send_list_request(&mut client, 2).await;
    let late = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}});
    let response = json!({"jsonrpc": "2.0", "id": 2, "result": {}});
    server.output.write_all(format!("{late}\n{response}\n").as_bytes()).await.unwrap();
    assert_eq!(receive(&mut client).await, response);
}

#[tokio::test]
async fn id_may_be_returned_as_a_string() {
    let (mut client, mut server) = connect();
    send_list_request(&mut client, 1).await;
    server.output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n").await.unwrap();
    assert_eq!(receive(&mut client).await["id"], json!(1));
}

/// The server must respond to an invalid message with an error, and then continue to read.
#[tokio::test]
async fn server_rejects_unreadable_messages() {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(theirs);
    let mut transport = ServerTransport::new(reader, writer, CancellationToken::new());
    let (mut input, mut output) = split(ours);
    let sent = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\nnonsense\n\
        {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":3}\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n";
    output.write_all(sent).await.unwrap();
    let message = Transport::<RoleServer>::receive(&mut transport).await.unwrap();
    assert!(matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(6)));
    drop(transport);
    let mut responses = String::new();
    input.read_to_string(&mut responses).await.unwrap();
    let responses: Vec<Value> = responses.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<_> =
        responses.iter().map(|response| (&response["id"], &response["error"]["code"])).collect();
    assert_eq!(errors, [(&Value::Null, &json!(-32700)), (&json!(5), &json!(-32700))]);
}

/// The error response must be written completely even if rmcp drops the `receive` future, which it
/// may do at any time.
#[tokio::test]
async fn error_response_is_complete_if_receive_is_dropped() {
    let (ours, theirs) = duplex(8);
    let (reader, writer) = split(theirs);
    let mut transport = ServerTransport::new(reader, writer, CancellationToken::new());
    let (input, mut output) = split(ours);
    let writing = tokio::spawn(async move {
        output.write_all(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n").await.unwrap();
        output
    });
    let reading = tokio::spawn(async move {
        let mut responses = String::new();
        BufReader::new(input).read_line(&mut responses).await.unwrap();
        responses
    });
    let receiving = async {
        loop {
            tokio::select! {
                biased;
                message = Transport::<RoleServer>::receive(&mut transport) => break message,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let message = timeout(Duration::from_secs(10), receiving).await.unwrap();
    assert!(matches!(message, Some(JsonRpcMessage::Request(request)) if request.id == RequestId::Number(6)));
    let response: Value =
        serde_json::from_str(&timeout(Duration::from_secs(10), reading).await.unwrap().unwrap()).unwrap();
    assert_eq!(response["error"]["code"], json!(-32700));
    drop(writing.await);
}

/// The request of a server fails if the response has a number that cannot be held exactly. A
/// rounded number would be another input than the one of the user.
#[tokio::test]
async fn inexact_response_of_a_client_is_an_error() {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(theirs);
    let mut transport = ServerTransport::new(reader, writer, CancellationToken::new());
    let (_input, mut output) = split(ours);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let response = |number: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":5,"result":{{"action":"accept","content":{{"x":{number}}}}}}}"#)
    };
    let sent = format!("{ping}\n{}\n{}\n", response("123456789012345678901"), response("7"));
    output.write_all(sent.as_bytes()).await.unwrap();
    let mut next = async || Transport::<RoleServer>::receive(&mut transport).await.unwrap();
    next().await;
    let JsonRpcMessage::Error(error) = next().await else { panic!("the number is rounded") };
    assert_eq!(error.id, Some(RequestId::Number(5)));
    assert!(error.error.message.contains("123456789012345678901"), "{}", error.error.message);
    assert!(matches!(next().await, JsonRpcMessage::Response(_)));
}
