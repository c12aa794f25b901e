//! Replies that were not streamed.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel as _, ToolCall,
    model::{ChatResponse, FinishReason, ModelError},
    usage::Usage,
};
use serde_json::{Value, json};

use crate::server::{Server, hello, ok, reply, stream};

async fn ask(body: &Value) -> Result<ChatResponse, ModelError> {
    let server = Server::replying([ok(body)]).await;
    server.builder().max_retries(0).build().unwrap().chat(&hello()).await
}

fn said(message: Value, finish_reason: Value) -> Value {
    json!({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})
}

fn calling(arguments: Value) -> Value {
    let call =
        json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}});
    said(json!({"role": "assistant", "content": null, "tool_calls": [call]}), json!("tool_calls"))
}

#[tokio::test]
async fn a_reply_has_text_usage_and_names() {
    let reply = ask(&json!({
        "id": "chatcmpl-1",
        "model": "test-model-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }))
    .await
    .unwrap();
    assert_eq!(reply.message.text(), "Hi");
    assert_eq!(reply.finish_reason, FinishReason::Stop);
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("chatcmpl-1"), Some("test-model-2026")));
    let usage = Usage { cached_input_tokens: 8, reasoning_tokens: 2, ..Usage::of_request(9, 4) };
    assert_eq!(reply.usage, usage);
}

/// Behaviour M6: an unknown or empty reason is kept, with the text.
#[tokio::test]
async fn an_unknown_finish_reason_is_kept() {
    for reason in ["tired", ""] {
        let reply = ask(&said(json!({"content": "Hi"}), json!(reason))).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::Other(reason.to_owned()));
        assert_eq!(reply.message.text(), "Hi");
    }
}

/// Behaviour M6: `error` is a failure.
#[tokio::test]
async fn the_finish_reason_error_is_a_failure() {
    let error = ask(&said(json!({"content": "half an ans"}), json!("error"))).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Server { status: None, body, .. } if body.contains("half an ans")),
        "{error:?}"
    );
}

#[tokio::test]
async fn calls_beside_the_reason_stop_are_calls() {
    let mut body = calling(json!("{}"));
    body["choices"][0]["finish_reason"] = json!("stop");
    assert_eq!(ask(&body).await.unwrap().finish_reason, FinishReason::ToolCalls);
}

/// Behaviour M7: arguments as an object, as null, as `""`.
#[tokio::test]
async fn arguments_are_made_text() {
    let cases = [
        (json!({"y": 1, "x": [2.5, "ü"]}), r#"{"y":1,"x":[2.5,"ü"]}"#),
        (json!(null), "{}"),
        (json!(""), "{}"),
        (json!(r#"{"x": 1}"#), r#"{"x": 1}"#),
        // What the model got wrong is the model's to read about.
        (json!("{\"x\":"), "{\"x\":"),
        (json!([1]), "[1]"),
    ];
    for (sent, expected) in cases {
        let calls = ask(&calling(sent)).await.unwrap().message.tool_calls;
        assert_eq!(calls, [ToolCall::new("call_1", "add", expected)]);
    }
}

/// Behaviour M7, Behaviour C29: no id, no type, ids used twice.
#[tokio::test]
async fn missing_and_repeated_ids_are_replaced_by_unique_ones() {
    let call = |id: Value| json!({"id": id, "function": {"name": "add", "arguments": "{}"}});
    let nameless = json!({"function": {"name": "add", "arguments": "{}"}});
    let calls = json!([call(json!("a")), call(json!("a")), call(json!(null)), call(json!("")), nameless]);
    let calls =
        ask(&said(json!({"tool_calls": calls}), json!("tool_calls"))).await.unwrap().message.tool_calls;
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[0].id, "a");
    let unique: std::collections::HashSet<_> = calls.iter().map(|call| &call.id).collect();
    assert_eq!(unique.len(), 5);
    assert!(unique.iter().all(|id| !id.is_empty()));
}

/// Behaviour M7: content as a list of parts.
#[tokio::test]
async fn a_list_of_parts_is_text_and_reasoning() {
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hel"},
        {"type": "text", "text": "lo"},
    ]);
    let reply = ask(&said(json!({"content": parts}), json!("stop"))).await.unwrap();
    assert_eq!(reply.message.text(), "Hello");
    assert_eq!(reply.message.reasoning.as_deref(), Some("hm"));
}

#[tokio::test]
async fn reasoning_is_found_under_both_names() {
    for name in ["reasoning_content", "reasoning"] {
        let reply = ask(&said(json!({"content": "42", name: "6 * 7"}), json!("stop"))).await.unwrap();
        assert_eq!(reply.message.reasoning.as_deref(), Some("6 * 7"));
    }
}

/// Behaviour M7: the call of before there were many of them, whole and in pieces.
#[tokio::test]
async fn a_function_call_of_old_is_a_call() {
    let whole = said(
        json!({"content": "Adding.", "function_call": {"name": "add", "arguments": "{\"x\":1}"}}),
        json!("function_call"),
    );
    let delta = |function: Value| json!({"choices": [{"delta": {"function_call": function}}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "function_call"}]});
    let pieces = [
        delta(json!({"name": "add", "arguments": ""})),
        delta(json!({"arguments": "{\"x\""})),
        delta(json!({"arguments": ":1}"})),
        end,
    ];
    for sent in [ok(&whole), stream(&pieces)] {
        let server = Server::replying([sent]).await;
        let reply = server.model().chat(&hello()).await.unwrap();
        let [call] = reply.message.tool_calls.as_slice() else { panic!("{reply:?}") };
        assert_eq!((&*call.name, &*call.arguments, call.id.is_empty()), ("add", r#"{"x":1}"#, false));
        assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    }
    let both = json!({"function_call": {"name": "add", "arguments": "{}"},
        "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{}"}}]});
    assert_eq!(
        ask(&said(both, json!("tool_calls"))).await.unwrap().message.tool_calls,
        [ToolCall::new("a", "add", "{}")]
    );
}

/// What a model says aloud is said, as far as there are words for it.
#[tokio::test]
async fn what_is_said_aloud_is_text() {
    let whole = said(
        json!({"content": null, "audio": {"id": "a", "data": "UklGRg==", "transcript": "Hello there."}}),
        json!("stop"),
    );
    let delta = |text: &str| json!({"choices": [{"delta": {"audio": {"id": "a", "transcript": text}}}]});
    let end = json!({"choices": [{"delta": {"audio": null}, "finish_reason": "stop"}]});
    for sent in [ok(&whole), stream(&[delta("Hello"), delta(" there."), end])] {
        let server = Server::replying([sent]).await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hello there.");
    }
}

/// Gateways to Anthropic put the text and each call into choices of their own.
#[tokio::test]
async fn calls_may_be_in_other_choices() {
    let call =
        |id: &str| json!([{"id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}}]);
    let choice = |message: Value| json!({"finish_reason": "tool_calls", "message": message});
    let numbered = |index: u8, mut choice: Value| {
        choice["index"] = json!(index);
        choice
    };
    let (text, a, b) = (
        choice(json!({"content": "Let me look."})),
        choice(json!({"content": "Another.", "tool_calls": call("a")})),
        choice(json!({"tool_calls": call("b")})),
    );
    for (choices, text, ids) in [
        (json!([text, a, b]), "Let me look.", vec!["a", "b"]),
        (
            json!([numbered(0, text.clone()), numbered(1, a.clone()), numbered(2, b.clone())]),
            "Let me look.",
            vec!["a", "b"],
        ),
        (json!([numbered(1, text.clone())]), "Let me look.", vec![]),
        // Other replies than the one that was asked for.
        (json!([numbered(1, b), numbered(0, a)]), "Another.", vec!["a"]),
    ] {
        let message = ask(&json!({"choices": choices})).await.unwrap().message;
        assert_eq!(message.text(), text);
        assert_eq!(message.tool_calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ids, "{choices}");
    }
}

/// Behaviour M8: a call that a limit of tokens cut never runs.
#[tokio::test]
async fn a_call_cut_by_length_is_no_call() {
    let mut body = calling(json!("{\"x\": 1, \"y"));
    body["choices"][0]["finish_reason"] = json!("length");
    let error = ask(&body).await.unwrap_err();
    let ModelError::Truncated { reason, partial } = &error else { panic!("{error:?}") };
    assert_eq!(reason, "a limit of tokens stopped it inside the call of \"add\"");
    assert_eq!(partial.tool_calls[0].arguments, "{\"x\": 1, \"y");
}

/// Behaviour M8: text that a limit of tokens cut is a reply that says so.
#[tokio::test]
async fn text_cut_by_length_says_so() {
    let reply = ask(&said(json!({"content": "Once upon"}), json!("length"))).await.unwrap();
    assert_eq!((reply.finish_reason, reply.message.text().as_str()), (FinishReason::Length, "Once upon"));
}

/// Behaviour M8: what a filter stopped is a reply that says so, even if it is empty.
#[tokio::test]
async fn a_content_filter_is_told() {
    for content in [json!("I "), json!(null)] {
        let reply = ask(&said(json!({"content": content}), json!("content_filter"))).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::ContentFilter);
    }
}

/// Behaviour M8: a refusal is no answer.
#[tokio::test]
async fn a_refusal_is_told() {
    let reply = ask(&said(json!({"content": null, "refusal": "I can't."}), json!("stop"))).await.unwrap();
    assert_eq!(reply.message.refusal.as_deref(), Some("I can't."));
    assert_eq!((reply.finish_reason, reply.message.text().as_str()), (FinishReason::Stop, ""));
}

/// Behaviour M10.
#[tokio::test]
async fn an_empty_reply_is_asked_for_again_and_then_an_error() {
    for empty in [json!({"choices": []}), said(json!({"content": null}), json!("stop"))] {
        let server = Server::replying([ok(&empty), ok(&empty), ok(&empty)]).await;
        let model = server.builder().max_retries(2).build().unwrap();
        assert!(matches!(model.chat(&hello()).await, Err(ModelError::EmptyResponse)));
        assert_eq!(server.take_requests().len(), 3);
    }
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error() {
    let error = ask(&json!({"error": {"message": "overloaded", "code": 503}})).await.unwrap_err();
    assert!(matches!(error, ModelError::Server { status: Some(503), .. }), "{error:?}");
    let error = ask(&json!({"error": "boom"})).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { status: None, body, .. } if body == "boom"), "{error:?}");
}

#[tokio::test]
async fn what_is_no_reply_cannot_be_read() {
    for body in
        ["<html>Welcome</html>", "Try later", "identify yourself", r#"{"object": "list", "data": []}"#]
    {
        let server = Server::replying([reply("200 OK", "", body)]).await;
        let error = server.model().chat(&hello()).await.unwrap_err();
        assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
        assert_eq!(server.take_requests().len(), 1);
    }
}

/// A proxy that compresses unasked is named, in place of what nobody can read.
#[tokio::test]
async fn a_compressed_body_is_named() {
    let packed = "\u{1f}\u{8b}\u{8}";
    let sent = |status| reply(status, "content-encoding: gzip\r\n", packed);
    let server = Server::replying([sent("200 OK"), sent("404 Not Found")]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    for _ in 0..2 {
        let error = model.chat(&hello()).await.unwrap_err().to_string();
        assert!(error.contains("compressed") && error.contains("gzip") && !error.contains(packed), "{error}");
    }
    let plain = reply(
        "200 OK",
        "content-encoding: identity\r\n",
        &said(json!({"content": "Hi"}), json!("stop")).to_string(),
    );
    let server = Server::replying([plain]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// What a server says in place of a reply, with status 200, is told.
#[tokio::test]
async fn what_a_server_says_in_place_of_a_reply_is_told() {
    for body in [
        json!({"object": "error", "message": "slow down", "code": 500}),
        json!({"detail": "slow down"}),
        json!({"base_resp": {"status_code": 1002, "status_msg": "slow down"}, "choices": null}),
        json!({"success": false, "errors": [{"message": "slow down", "code": 7}], "result": null}),
        json!({"error": {"message": "slow down"}}),
    ] {
        let server = Server::replying([ok(&body), ok(&body)]).await;
        let chat = server.builder().max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err();
        let responses = server.responses().max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err();
        for error in [chat, responses, haft_openai::response(&body).unwrap_err()] {
            assert!(matches!(&error, ModelError::Server { body, .. } if body == "slow down"), "{error:?}");
        }
    }
    let error = ask(&json!({"object": "list", "data": ["x"]})).await.unwrap_err().to_string();
    assert!(error.ends_with(r#"it has no choices: {"object":"list","data":["x"]}"#), "{error}");
}

/// Behaviour M10: nothing in the place of the reply is an empty one.
#[tokio::test]
async fn no_list_of_choices_is_an_empty_reply() {
    let nothing = json!({"id": "c", "choices": null, "usage": {"prompt_tokens": 1}});
    let server = Server::replying([ok(&nothing), ok(&nothing)]).await;
    let error = server.builder().max_retries(1).build().unwrap().chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::EmptyResponse), "{error:?}");
    assert_eq!(server.take_requests().len(), 2);
}

/// What a reply is made of is told by its first byte: some servers name the wrong kind.
#[tokio::test]
async fn the_named_kind_of_the_body_does_not_matter() {
    let whole = said(json!({"content": "Hi"}), json!("stop")).to_string();
    let chunk = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]});
    for body in [whole.clone(), format!(" \r\n\u{feff}{whole}"), format!(": hello\n\ndata: {chunk}\n\n")] {
        for kind in ["application/json", "text/event-stream", "text/plain; charset=utf-8"] {
            let sent = reply("200 OK", &format!("content-type: {kind}\r\n"), &body);
            let server = Server::replying([sent.clone(), sent]).await;
            assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "{kind}: {body}");
            let events: Vec<_> = server.model().stream(&hello()).try_collect().await.unwrap();
            assert_eq!(events.len(), 2, "{kind}: {body}");
        }
    }
}

/// A field beside the reply costs itself, not the reply.
#[tokio::test]
async fn odd_fields_cost_nothing_else() {
    let mut odd = said(json!({"content": "Hi", "tool_calls": ""}), json!("stop"));
    odd["choices"][0]["index"] = json!("0");
    let numbers = [
        (json!({"prompt_tokens": 12.0, "completion_tokens": "3"}), Usage::of_request(12, 3)),
        (json!({"prompt_tokens": -1, "completion_tokens": 3}), Usage::of_request(0, 0)),
        (json!({"prompt_tokens": 12, "prompt_tokens_details": "none"}), Usage::of_request(12, 0)),
        (json!({"prompt_tokens": 12, "prompt_tokens_details": [1]}), Usage::of_request(12, 0)),
        (json!(7), Usage::of_request(0, 0)),
        (json!([12, 3]), Usage::of_request(0, 0)),
    ];
    for (usage, expected) in numbers {
        odd["usage"] = usage;
        for no_error in [json!(null), json!(""), json!({}), json!([]), json!(0), json!(false)] {
            odd["error"] = no_error;
            let reply = ask(&odd).await.unwrap();
            assert_eq!((reply.message.text().as_str(), reply.usage), ("Hi", expected), "{odd}");
        }
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_means_what_it_says_last() {
    let body = r#"{"choices": [{"message": {"content": null, "content": "Hi"}, "finish_reason": "stop"}]}"#;
    let server = Server::replying([reply("200 OK", "", body)]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

#[tokio::test]
async fn calls_may_be_numbered_by_text() {
    let piece =
        |index: &str, arguments| json!({"index": index, "function": {"name": "add", "arguments": arguments}});
    let chunks = [
        json!({"choices": [{"delta": {"tool_calls": [piece("0", "{\"x\""), piece("1", "{\"x\"")]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [piece("1", ":2}"), piece("0", ":1}")]}, "finish_reason": "stop"}]}),
    ];
    let server = Server::replying([stream(&chunks)]).await;
    let calls = server.model().chat(&hello()).await.unwrap().message.tool_calls;
    let arguments: Vec<_> = calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#]);
}

#[tokio::test]
async fn a_body_that_is_cut_is_asked_for_again() {
    let whole = ok(&said(json!({"content": "Hello"}), json!("stop")));
    let cut = whole[..whole.len() - 20].to_vec();
    let server = Server::replying([cut, whole]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hello");
}

#[tokio::test]
async fn a_server_that_streams_unasked_is_understood() {
    let chunk = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]});
    let server = Server::replying([stream([&chunk])]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// A header that says nothing of how to read the body is no compression, and one that stands beside an error is no move.
#[tokio::test]
async fn headers_that_mean_nothing_cost_nothing() {
    let body = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).to_string();
    for encoding in ["none", "utf-8", "identity", ""] {
        let sent = reply("200 OK", &format!("content-encoding: {encoding}\r\n"), &body);
        let server = Server::replying([sent]).await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "{encoding}");
    }
    let error = json!({"error": {"message": "bad tools"}}).to_string();
    let server = Server::replying([reply("400 Bad Request", "location: /v1/chat\r\n", &error)]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Rejected { body, .. } if body == "bad tools"), "{error:?}");
}
