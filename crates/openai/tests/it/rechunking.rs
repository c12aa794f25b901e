//! Any division of a stream into chunks gives the same reply.

use std::sync::{LazyLock, OnceLock};

use futures::TryStreamExt as _;
use haft_core::{ChatModel, model::ChatEvent};
use proptest::prelude::*;

use crate::{
    responses::{events_of, sample_response, without_origin},
    server::{Server, Step, hello},
};

/// A recorded stream with many features of server-sent events: a byte order mark, comments, each
/// kind of line end, unused fields, no space after the colon, events without data, a chunk on two
/// lines, and characters of two to four bytes.
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

/// The API from which a recorded stream comes.
#[derive(Clone, Copy, Debug)]
enum Api {
    Chat,
    Responses,
}

impl Api {
    fn recorded(self) -> &'static [u8] {
        static ITEMS: LazyLock<String> = LazyLock::new(items);
        match self {
            Self::Chat => RECORDED.as_bytes(),
            Self::Responses => ITEMS.as_bytes(),
        }
    }

    fn model(self, server: &Server) -> Box<dyn ChatModel> {
        match self {
            Self::Chat => Box::new(server.model()),
            Self::Responses => Box::new(server.responses().build().unwrap()),
        }
    }
}

/// Returns a recorded stream of the Responses API, with each kind of line end.
fn items() -> String {
    let mut response = sample_response();
    response["output"][1]["content"][0]["text"] = "Grüße, 世界 🌍".into();
    response["output"][2]["arguments"] = r#"{"x":"é"}"#.into();
    let ends = ["\n\n", "\r\n\r\n", "\r\r"];
    let events = events_of(&response).into_iter().zip(ends.iter().cycle());
    let events = events.map(|(event, end)| {
        let line = end.split_at(end.len() / 2).0;
        format!(": ping{end}event: {}{line}data: {event}{end}", event["type"].as_str().unwrap())
    });
    events.collect()
}

/// The expected events of each recorded stream, computed from the undivided stream.
static WHOLE: [OnceLock<Vec<ChatEvent>>; 2] = [OnceLock::new(), OnceLock::new()];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rechunking_gives_the_same_reply(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (api, whole) in [Api::Chat, Api::Responses].into_iter().zip(&WHOLE) {
            let whole = whole.get_or_init(|| runtime.block_on(events(api, Vec::new())));
            let cuts = cuts.iter().map(|cut| cut.index(api.recorded().len())).collect();
            prop_assert_eq!(&runtime.block_on(events(api, cuts)), whole);
        }
    }
}

#[tokio::test]
async fn single_bytes_give_the_recorded_reply() {
    for api in [Api::Chat, Api::Responses] {
        let events = events(api, (0..api.recorded().len()).collect()).await;
        let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
        assert_eq!(reply.message.text(), "Grüße, 世界 🌍");
        assert_eq!(reply.message.tool_calls[0].arguments, r#"{"x":"é"}"#);
    }
}

/// Returns the events of a recorded stream that is split at the offsets `cuts`.
async fn events(api: Api, mut cuts: Vec<usize>) -> Vec<ChatEvent> {
    let recorded = api.recorded();
    cuts.push(recorded.len());
    cuts.sort_unstable();
    let mut start = 0;
    let mut steps = vec![Step::Send(format!("{STREAM_CHUNKED}\r\n").into())];
    for end in cuts {
        // An empty HTTP chunk would end the body.
        if start < end {
            let piece = &recorded[start..end];
            steps.push(Step::Send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()));
        }
        start = end;
    }
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    let server = Server::start([steps]).await;
    let (model, request) = (api.model(&server), hello());
    let mut events: Vec<_> = model.stream(&request).try_collect().await.unwrap();
    if let Some(ChatEvent::Finished(reply)) = events.pop() {
        events.push(ChatEvent::Finished(without_origin(*reply).into()));
    }
    events
}

/// The head of a stream with chunked transfer encoding. HTTP chunks preserve the boundaries of the
/// pieces, whereas plain TCP may join the pieces.
const STREAM_CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n";
