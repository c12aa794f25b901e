//! Any division of a stream into chunks gives the same reply.

use std::sync::OnceLock;

use futures::TryStreamExt as _;
use haft_core::{ChatModel, model::ChatEvent};
use haft_gemini::Api;
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    both_apis, interactions,
    server::{Server, Step, hello},
};

const APIS: [Api; 2] = [Api::GenerateContent, Api::Interactions];

/// Returns a stream with each kind of line end, comments and characters of two to four bytes.
fn recorded(api: Api) -> String {
    let ends = ["\r\n\r\n", "\n\n", "\r\r"];
    let mut events = both_apis::sample_events(api);
    if api == Api::Interactions {
        events = interactions::sample_events();
    }
    let events = events.iter().zip(ends.iter().cycle());
    events.map(|(event, end)| format!(": ping{end}event: message\ndata: {event}{end}")).collect()
}

/// The expected events of each recorded stream, computed from the undivided stream.
static WHOLE: [OnceLock<Vec<ChatEvent>>; 2] = [OnceLock::new(), OnceLock::new()];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rechunking_gives_the_same_reply(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (api, whole) in APIS.into_iter().zip(&WHOLE) {
            let recorded = recorded(api);
            let whole = whole.get_or_init(|| runtime.block_on(events(api, recorded.as_bytes(), Vec::new())));
            let cuts = cuts.iter().map(|cut| cut.index(recorded.len())).collect();
            prop_assert_eq!(&runtime.block_on(events(api, recorded.as_bytes(), cuts)), whole);
        }
    }
}

#[tokio::test]
async fn single_bytes_give_the_recorded_reply() {
    for api in APIS {
        let recorded = recorded(api);
        let events = events(api, recorded.as_bytes(), (0..recorded.len()).collect()).await;
        let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
        assert!(reply.message.text().starts_with("Grüße"));
    }
}

/// Returns the events of a recorded stream that is split at the offsets `cuts`.
async fn events(api: Api, recorded: &[u8], mut cuts: Vec<usize>) -> Vec<ChatEvent> {
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
    let (model, request) = (server.builder(api).build().unwrap(), hello());
    let mut events: Vec<_> = model.stream(&request).try_collect().await.unwrap();
    if let Some(ChatEvent::Finished(reply)) = events.pop() {
        events.push(ChatEvent::Finished(without_origin(*reply).into()));
    }
    events
}

/// Replaces the address of the server, which differs between tests.
fn without_origin(mut reply: haft_core::model::ChatResponse) -> haft_core::model::ChatResponse {
    if let Some(Value::Object(mut data)) = reply.message.provider_data.get("gemini").cloned() {
        data.insert("from".to_owned(), Value::Null);
        reply.message.provider_data.insert("gemini", data.into());
    }
    reply
}

/// The head of a stream with chunked transfer encoding. HTTP chunks preserve the boundaries of the
/// pieces, whereas plain TCP may join the pieces.
const STREAM_CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n";
