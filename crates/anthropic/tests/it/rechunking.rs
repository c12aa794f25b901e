//! Any division of a stream into chunks gives the same reply.

use std::sync::OnceLock;

use futures::TryStreamExt as _;
use haft_core::{ChatModel as _, model::ChatEvent};
use proptest::prelude::*;
use serde_json::json;

use crate::server::{STREAM, Server, Step, events_of, hello, message, text};

/// Returns a recorded stream with comments and each kind of line end.
fn recorded() -> Vec<u8> {
    let body = message(
        json!([
            {"type": "thinking", "thinking": "Grüße 🌍", "signature": "s1"},
            {"type": "text", "text": "Ich suche, 世界.", "citations": [{"type": "web_search_result_location", "url": "https://a.example", "title": "é", "encrypted_index": "e", "cited_text": "A"}]},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "🌍"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": "é", "y": [1, 2]}},
        ]),
        "tool_use",
    );
    let ends = ["\n", "\r\n", "\r"];
    let events = events_of(&body).into_iter().zip(ends.iter().cycle());
    let events = events.map(|(event, end)| {
        format!(": ping{end}event: {}{end}data: {event}{end}{end}", text(&event["type"]))
    });
    events.collect::<String>().into_bytes()
}

fn receive(chunks: Vec<Vec<u8>>) -> Vec<ChatEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let head = [STREAM.as_bytes().to_vec()];
        let script = head.into_iter().chain(chunks).map(Step::Send).collect();
        let server = Server::start([script]).await;
        let model = server.builder("claude-opus-5-5").build().unwrap();
        let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
        // The address of the server differs.
        let origin = server.base_url.clone();
        let json = serde_json::to_string(&events).unwrap().replace(&origin, "ORIGIN");
        serde_json::from_str(&json).unwrap()
    })
}

static WHOLE: OnceLock<Vec<ChatEvent>> = OnceLock::new();

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_chunks_give_the_same_reply(mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = recorded();
        cuts.sort_by_key(|cut| cut.index(bytes.len()));
        let ends = cuts.iter().map(|cut| cut.index(bytes.len())).chain([bytes.len()]);
        let mut start = 0;
        let chunks = ends.map(|end| bytes[std::mem::replace(&mut start, end)..end].to_vec()).collect();
        let whole = WHOLE.get_or_init(|| receive(vec![recorded()]));
        prop_assert_eq!(&receive(chunks), whole);
    }
}
