//! What chunks have in common is not read again, and means the same.

use std::{collections::VecDeque, fmt::Debug};

use haft_core::model::{ChatEvent, ChatResponse};
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::{CHAT, ChatFold, Streamed, bytes, change, changed};
use crate::wire::{Chunk, Completion};

/// What is told, whether it is over and answered after each chunk, and the reply or an error.
type Outcome = (VecDeque<ChatEvent>, Vec<(bool, bool)>, Result<ChatResponse, String>);

/// What a whole stream of chunks gives.
fn outcome(
    sent: &[Vec<u8>],
    read: impl Fn(&mut ChatFold, &mut [u8]) -> serde_json::Result<Chunk>,
) -> Outcome {
    let (mut fold, mut events) = (ChatFold::default(), VecDeque::new());
    let mut is_over = Vec::new();
    let heard = sent.iter().try_for_each(|chunk| {
        let chunk = read(&mut fold, &mut chunk.clone()).map_err(|error| error.to_string())?;
        Streamed::add(&mut fold, chunk, &mut events).map_err(|error| error.to_string())?;
        is_over.push((fold.is_finished(), fold.is_answered()));
        Ok(())
    });
    let reply = heard.and_then(|()| Streamed::finish(fold, &mut events).map_err(|error| error.to_string()));
    (events, is_over, reply)
}

/// The same as text, without the digits of ids that were made up.
fn masked(outcome: impl Debug) -> String {
    let outcome = format!("{outcome:?}");
    let parts = outcome.split("call_").map(|part| part.trim_start_matches(|it: char| it.is_ascii_hexdigit()));
    parts.collect::<Vec<_>>().join("call_")
}

/// A chunk with what nearly all servers say first in each, with or without blanks, and with a text in place of another.
fn headed(chunk: &Value, head: &str, text: &str, is_spaced: bool) -> Vec<u8> {
    let text = json!(text).to_string();
    let chunk = String::from_utf8_lossy(&bytes(chunk)).replace(r#""Hi""#, &text).replace(r#"":1}""#, &text);
    let chunk = if is_spaced { chunk.replace(r#""choices":"#, r#" "choices": "#) } else { chunk };
    chunk.strip_prefix('{').map_or(chunk.clone(), |rest| format!("{head}{rest}")).into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// What a chunk has in common with the one before it is not read again, and means the same.
    #[test]
    fn what_is_said_again_means_what_it_meant(
        changes in prop::collection::vec((any::<Index>(), change()), 1..4),
        cut in 0_usize..4,
        sent in prop::collection::vec((any::<Index>(), prop::sample::select(HEADS), any::<bool>(), TEXTS), 1..12),
    ) {
        let chunks: Vec<_> = changes.iter().map(|(event, change)| changed(&CHAT, *event, change)).collect();
        let said = |text: Value| json!({"choices": [{"index": 0, "delta": text, "logprobs": null}], "usage": null});
        let chunks: Vec<_> = chunks
            .into_iter()
            .chain(["content", "reasoning", "reasoning_content"].map(|part| said(json!({part: "Hi"}))))
            .chain([CHAT[9].clone()])
            .collect();
        let mut sent: Vec<_> = sent.iter().map(|(chunk, head, is_spaced, text)| headed(chunk.get(&chunks), head, text, *is_spaced)).collect();
        sent.iter_mut().last().into_iter().for_each(|last| last.truncate(last.len() - cut.min(last.len())));
        let again = outcome(&sent, Streamed::read);
        let anew = outcome(&sent, |_, chunk| Completion::read(chunk).map(Chunk::Other));
        prop_assert_eq!(masked(again), masked(anew));
    }
}

/// What stands before the choices; the longest hides others in an object of its own.
const HEADS: &[&str] = &[
    "{",
    r#"{"id":"c","model":"m","#,
    r#"{"id":"c","model":"m","#,
    r#"{"id": "d", "model": "m", "#,
    r#"{"x":{"id":"x","choices":[{"delta":{"content":"No"}}]},"#,
];

/// Texts with what may be taken for the end of them.
const TEXTS: &str = r#"(Hi|\PC|"|\\|"\}|"content":|\{"x":1\}){0,3}"#;

/// Chunks in a row that are alike, and say more or something else than the text in which they differ.
#[test]
fn what_looks_like_one_more_text_may_be_more() {
    let delta = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{{delta}}}}}]}}"#);
    let deltas = |deltas: [&str; 2]| deltas.map(delta).to_vec();
    let chunks = |chunks: [&str; 2]| chunks.map(str::to_owned).to_vec();
    let ends = |piece: &str| {
        let call = json!({"index": 0, "function": {"arguments": piece}});
        json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}).to_string()
    };
    let begins = delta(r#""tool_calls":[{"index":0,"id":"a","function":{"name":"add"}}]"#);
    let called = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let blank = |text: &str| delta(&format!(r#""content":{text:?}"#));
    let streams = [
        vec![begins, ends("{"), ends("x")],
        // What is too long to be remembered.
        vec![
            delta(r#""content":"a""#),
            delta(&format!(r#""refusal":{:?}"#, "x".repeat(70_000))),
            delta(r#""content":"b""#),
        ],
        // What is blank goes on with nothing.
        vec![called.to_owned(), blank(" "), blank("  ")],
        deltas([r#""content":"a""#, r#""content":"\"}}]}""#]),
        deltas([r#""content":"a","refusal":"x""#, r#""content":"b","refusal":"x""#]),
        deltas([r#""content":"a","reasoning":"x""#, r#""content":"b","reasoning":"x""#]),
        deltas([r#""content":"\ud83c""#, r#""content":"\udf0d""#]),
        deltas([
            r#""content":"a","extra_content":{"google":{"thought":true}}"#,
            r#""content":"b","extra_content":{"google":{"thought":true}}"#,
        ]),
        deltas([r#""x":{"content":"a"},"content":"a""#, r#""x":{"content":"b"},"content":"a""#]),
        deltas([r#""\u0063ontent":"a","x\"content":"a""#, r#""\u0063ontent":"a","x\"content":"b""#]),
        deltas([r#""\u0063ontent":"a","x":{"content":"c"}"#, r#""\u0063ontent":"a","x":{"content":"d"}"#]),
        deltas([r#""\u0063ontent":"a","x":{"content":"a"}"#, r#""\u0063ontent":"a","x":{"content":"b"}"#]),
        deltas([r#""content":7"#, r#""content":8"#]),
        deltas([
            r#""tool_calls":[{"index":0,"function":{"name":"add","arguments":"{}"}}]"#,
            r#""tool_calls":[{"index":0,"function":{"name":"add","arguments":"{ }"}}]"#,
        ]),
        chunks([
            r#"{"usage":{"prompt_tokens":1},"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"usage":{"prompt_tokens":2},"choices":[{"delta":{"content":"b"}}]}"#,
        ]),
        // What is cut within an object that stands before the choices is no reply.
        chunks([
            r#"{"x":{"id":"x","choices":[]},"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"x":{"id":"x","choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
        ]),
        chunks([
            r#"{"type":"rate_limit_error","code":429,"choices":[]}"#,
            r#"{"type":"rate_limit_error","code":429,"choices":[],"error":"slow"}"#,
        ]),
        chunks([r#"{"detail":"x","choices":[]}"#, r#"{"detail":"x","choices":null}"#]),
        chunks([r#"{"error":"boom","choices":[],"error":null}"#, r#"{"error":"boom","choices":[]}"#]),
        chunks([
            r#"{"usage":{"prompt_tokens":1},"choices":[]}"#,
            r#"{"usage":{"prompt_tokens":1},"choices":[{"usage":{"prompt_tokens":9}}]}"#,
        ]),
        chunks([
            r#"{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"}},{"index":1,"delta":{}}]}"#,
        ]),
        chunks([
            r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#,
        ]),
        chunks([
            r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#,
        ]),
        chunks([
            r#"{"x":{"y":1,"choices":[{"delta":{"content":"a"}}]},"choices":[]}"#,
            r#"{"x":{"y":1,"choices":[{"delta":{"content":"b"}}]},"choices":[]}"#,
        ]),
    ];
    for stream in streams {
        let sent: Vec<_> = stream.into_iter().map(String::into_bytes).collect();
        let again = outcome(&sent, Streamed::read);
        let anew = outcome(&sent, |_, chunk| Completion::read(chunk).map(Chunk::Other));
        assert_eq!(masked(again), masked(anew), "{}", String::from_utf8_lossy(&sent.concat()));
    }
}
