use std::{sync::Arc, time::Duration};

use haft_core::limits;
use rmcp::{
    RoleClient, RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ListToolsRequest, RequestId,
        ServerJsonRpcMessage, SubscriptionFilter, SubscriptionsListenRequest,
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
    ClientWire, Notices, Patience, ServerWire,
    envelope::{salvage_id, salvage_last_id},
    lines::{Line, Lines},
};

async fn lines_of(bytes: &'static [u8], limit: usize) -> Vec<String> {
    let mut lines = Lines::new(bytes, limit);
    let mut read = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        read.push(match line {
            Line::Whole(line) => String::from_utf8(line).unwrap(),
            Line::TooLong { head, tail, length } => {
                format!("{length}: {}…{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
            }
        });
    }
    read
}

#[tokio::test]
async fn lines_are_whole_or_too_long() {
    assert_eq!(lines_of(b"a\n\nbc\n", 2).await, ["a", "", "bc"]);
    assert_eq!(lines_of(b"a\nlast", 9).await, ["a", "last"]);
    assert_eq!(lines_of(b"abc\nd\n", 2).await, ["3: abc…abc", "d"]);
}

#[test]
fn an_id_is_found_in_what_is_broken() {
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

type Client = ClientWire<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

fn connected() -> (Client, Server) {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(ours);
    let (_input, output) = split(theirs);
    let patience = Patience { line_bytes: limits::LINE_BYTES, probe: Duration::from_secs(3) };
    (ClientWire::new(reader, writer, Arc::new(Notices::default()), patience), Server { _input, output })
}

async fn ask(client: &mut Client, id: i64) {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    client.send(ClientJsonRpcMessage::request(request, RequestId::Number(id))).await.unwrap();
}

async fn hear(client: &mut Client) -> Value {
    let message: ServerJsonRpcMessage = Transport::<RoleClient>::receive(client).await.unwrap();
    serde_json::to_value(message).unwrap()
}

/// Behaviour P4, P5: what answers nothing is dropped, what answers something does so exactly.
#[tokio::test]
async fn noise_and_stray_answers_are_dropped() {
    let (mut client, mut server) = connected();
    ask(&mut client, 1).await;
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"x": 1.0, "a": null}});
    let written = format!("hello\n\n{{oops\n{{\"id\":9,\"result\":{{}}}}\n{answer}\n{answer}\n{{\"x\":1}}\n");
    server.output.write_all(written.as_bytes()).await.unwrap();
    assert_eq!(hear(&mut client).await.to_string(), answer.to_string());
    drop(server);
    assert!(Transport::<RoleClient>::receive(&mut client).await.is_none(), "the second answer is nobody's");
}

/// Behaviour P4: what a server logs is not the answer to the one request that is open, whatever it looks like.
#[tokio::test]
async fn a_log_on_standard_output_fails_no_call() {
    let (mut client, mut server) = connected();
    ask(&mut client, 1).await;
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
    let mut long = vec![b'='; limits::LINE_BYTES + 1];
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
        server.output.write_all(answer.as_bytes()).await.unwrap();
        server.output.write_all(b"\n").await.unwrap();
    };
    let both = async { tokio::join!(hear(&mut client), writing) };
    let (heard, ()) = timeout(Duration::from_secs(10), both).await.unwrap();
    assert_eq!(heard.to_string(), answer);
}

/// A subscription is always open, and is not what an error is about.
#[tokio::test]
async fn an_error_without_an_id_is_not_of_a_subscription() {
    let (mut client, mut server) = connected();
    let params = SubscriptionsListenRequestParams::new(SubscriptionFilter::default());
    let listen = ClientRequest::SubscriptionsListenRequest(SubscriptionsListenRequest::new(params));
    client.send(ClientJsonRpcMessage::request(listen, RequestId::Number(1))).await.unwrap();
    let error = b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"no\"}}\n";
    server.output.write_all(error).await.unwrap();
    let notice = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    server.output.write_all(notice).await.unwrap();
    assert_eq!(hear(&mut client).await["method"], json!("notifications/tools/list_changed"));
    ask(&mut client, 3).await;
    server.output.write_all(error).await.unwrap();
    assert_eq!(hear(&mut client).await["id"], json!(3));
}

#[tokio::test]
async fn an_error_without_an_id_belongs_to_the_only_request() {
    let (mut client, mut server) = connected();
    ask(&mut client, 1).await;
    server
        .output
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\"}}\n")
        .await
        .unwrap();
    let error = hear(&mut client).await;
    assert_eq!((&error["id"], &error["error"]["message"]), (&json!(1), &json!("no")));
}

#[tokio::test]
async fn a_number_may_come_back_as_text() {
    let (mut client, mut server) = connected();
    ask(&mut client, 1).await;
    server.output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n").await.unwrap();
    assert_eq!(hear(&mut client).await["id"], json!(1));
}

/// Our server tells its client what it could not read, and goes on.
#[tokio::test]
async fn a_server_answers_what_it_cannot_read() {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(theirs);
    let mut wire = ServerWire::new(reader, writer, CancellationToken::new());
    let (mut input, mut output) = split(ours);
    let sent = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\nnonsense\n\
        {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":3}\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n";
    output.write_all(sent).await.unwrap();
    let message = Transport::<RoleServer>::receive(&mut wire).await.unwrap();
    assert!(matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(6)));
    drop(wire);
    let mut answers = String::new();
    input.read_to_string(&mut answers).await.unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = answers.iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
    assert_eq!(seen, [(&Value::Null, &json!(-32700)), (&json!(5), &json!(-32700))]);
}

/// rmcp stops waiting for a message whenever something else happens: the client is told all the same, and whole.
#[tokio::test]
async fn an_objection_is_sent_whole() {
    let (ours, theirs) = duplex(8);
    let (reader, writer) = split(theirs);
    let mut wire = ServerWire::new(reader, writer, CancellationToken::new());
    let (input, mut output) = split(ours);
    let writing = tokio::spawn(async move {
        output.write_all(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n").await.unwrap();
        output
    });
    let reading = tokio::spawn(async move {
        let mut answers = String::new();
        BufReader::new(input).read_line(&mut answers).await.unwrap();
        answers
    });
    let receiving = async {
        loop {
            tokio::select! {
                biased;
                message = Transport::<RoleServer>::receive(&mut wire) => break message,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let message = timeout(Duration::from_secs(10), receiving).await.unwrap();
    assert!(matches!(message, Some(JsonRpcMessage::Request(request)) if request.id == RequestId::Number(6)));
    let answer: Value =
        serde_json::from_str(&timeout(Duration::from_secs(10), reading).await.unwrap().unwrap()).unwrap();
    assert_eq!(answer["error"]["code"], json!(-32700));
    drop(writing.await);
}
