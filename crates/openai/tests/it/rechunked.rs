//! FAULTS M14: how the bytes of a stream are cut changes nothing.

use std::sync::OnceLock;

use futures::TryStreamExt as _;
use haft_core::{ChatEvent, ChatModel as _};
use proptest::prelude::*;

use crate::server::{Server, Step, hello};

/// A recorded stream, with everything that the format of events allows: comments, line ends of each kind, fields that
/// mean nothing here, no space after the colon, events without data, one chunk on two lines, characters of two to four
/// bytes.
const RECORDED: &str = concat!(
    "\u{feff}: ping\n\n",
    "event: message\nid: 1\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data:{\"choices\":[{\"delta\":{\"content\":\"Grüße\"}}]}\r\n\r\n",
    ": ping\r\n\r\n",
    "data:\n\ndata: \r\n\r\ndata\n\n",
    "data: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\", 世界 🌍\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\r\r",
    "retry: 10\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":\\\"é\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// What comes of the recorded stream in one piece.
static WHOLE: OnceLock<Vec<ChatEvent>> = OnceLock::new();

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rechunking_gives_the_same_reply(cuts in prop::collection::vec(0..RECORDED.len(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let whole = WHOLE.get_or_init(|| runtime.block_on(events(Vec::new())));
        prop_assert_eq!(&runtime.block_on(events(cuts)), whole);
    }
}

#[tokio::test]
async fn byte_by_byte_gives_the_recorded_reply() {
    let events = events((0..RECORDED.len()).collect()).await;
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert_eq!(reply.message.text(), "Grüße, 世界 🌍");
    assert_eq!(reply.message.tool_calls[0].arguments, r#"{"x":"é"}"#);
}

/// The events of the recorded stream, sent in pieces that end at `cuts`.
async fn events(mut cuts: Vec<usize>) -> Vec<ChatEvent> {
    cuts.push(RECORDED.len());
    cuts.sort_unstable();
    let mut start = 0;
    let mut steps = vec![Step::Send(format!("{STREAM_CHUNKED}\r\n").into())];
    for end in cuts {
        // An empty piece would end the body.
        if start < end {
            let piece = &RECORDED.as_bytes()[start..end];
            steps.push(Step::Send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()));
        }
        start = end;
    }
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    let server = Server::start([steps]).await;
    let (model, request) = (server.model(), hello());
    model.stream(&request).try_collect().await.unwrap()
}

/// Pieces of a chunked body reach the client as they are sent, whatever the socket makes of them.
const STREAM_CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n";
