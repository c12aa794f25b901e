//! Tests of non-streamed Chat Completions replies.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel as _, ToolCall,
    model::{ChatResponse, FinishReason, ModelError},
    usage::Usage,
};
use serde_json::{Value, json};

use crate::server::{Server, hello, ok_reply, reply, stream_reply};

async fn receive(body: &Value) -> Result<ChatResponse, ModelError> {
    let server = Server::with_replies([ok_reply(body)]).await;
    server.builder().max_retries(0).build().unwrap().chat(&hello()).await
}

fn completion(message: Value, finish_reason: Value) -> Value {
    json!({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})
}

fn call_completion(arguments: Value) -> Value {
    let call =
        json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}});
    completion(json!({"role": "assistant", "content": null, "tool_calls": [call]}), json!("tool_calls"))
}

#[tokio::test]
async fn reply_has_text_usage_id_and_model() {
    let reply = receive(&json!({
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
    let usage = Usage { cached_input_tokens: 8, reasoning_tokens: 2, ..Usage::one_request(9, 4) };
    assert_eq!(reply.usage, usage);
}

/// A reply with an unknown or empty finish reason is returned, with the reason unchanged.
#[tokio::test]
async fn unknown_finish_reason_is_kept() {
    for reason in ["tired", ""] {
        let reply = receive(&completion(json!({"content": "Hi"}), json!(reason))).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::Other(reason.to_owned()));
        assert_eq!(reply.message.text(), "Hi");
    }
}

/// A reply with the finish reason `error` is returned as an error.
#[tokio::test]
async fn finish_reason_error_is_a_failure() {
    let error = receive(&completion(json!({"content": "half an ans"}), json!("error"))).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Server { status: None, body, .. } if body.contains("half an ans")),
        "{error:?}"
    );
}

#[tokio::test]
async fn calls_with_the_reason_stop_are_accepted() {
    let mut body = call_completion(json!("{}"));
    body["choices"][0]["finish_reason"] = json!("stop");
    assert_eq!(receive(&body).await.unwrap().finish_reason, FinishReason::ToolCalls);
}

/// Arguments are accepted as JSON text, as an object, as null or as `""`.
#[tokio::test]
async fn arguments_become_json_text() {
    let cases = [
        (json!({"y": 1, "x": [2.5, "ü"]}), r#"{"y":1,"x":[2.5,"ü"]}"#),
        (json!(null), "{}"),
        (json!(""), "{}"),
        (json!(r#"{"x": 1}"#), r#"{"x": 1}"#),
        // Malformed arguments from the model are returned unchanged, so that validation can report
        // them to the model.
        (json!("{\"x\":"), "{\"x\":"),
        (json!([1]), "[1]"),
    ];
    for (sent, expected) in cases {
        let calls = receive(&call_completion(sent)).await.unwrap().message.tool_calls;
        assert_eq!(calls, [ToolCall::new("call_1", "add", expected)]);
    }
}

/// Missing, empty and duplicate call ids are replaced by unique ids.
#[tokio::test]
async fn missing_and_duplicate_ids_are_replaced() {
    let call = |id: Value| json!({"id": id, "function": {"name": "add", "arguments": "{}"}});
    let nameless = json!({"function": {"name": "add", "arguments": "{}"}});
    let calls = json!([call(json!("a")), call(json!("a")), call(json!(null)), call(json!("")), nameless]);
    let calls = receive(&completion(json!({"tool_calls": calls}), json!("tool_calls")))
        .await
        .unwrap()
        .message
        .tool_calls;
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[0].id, "a");
    let unique: std::collections::HashSet<_> = calls.iter().map(|call| &call.id).collect();
    assert_eq!(unique.len(), 5);
    assert!(unique.iter().all(|id| !id.is_empty()));
}

/// Content that is a list of parts is decoded as text and reasoning.
#[tokio::test]
async fn content_parts_are_text_and_reasoning() {
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hel"},
        {"type": "text", "text": "lo"},
    ]);
    let reply = receive(&completion(json!({"content": parts}), json!("stop"))).await.unwrap();
    assert_eq!(reply.message.text(), "Hello");
    assert_eq!(reply.message.reasoning.as_deref(), Some("hm"));
}

#[tokio::test]
async fn reasoning_is_read_from_both_fields() {
    for name in ["reasoning_content", "reasoning"] {
        let reply =
            receive(&completion(json!({"content": "42", name: "6 * 7"}), json!("stop"))).await.unwrap();
        assert_eq!(reply.message.reasoning.as_deref(), Some("6 * 7"));
    }
}

/// `function_call`, the predecessor of `tool_calls`, is accepted, with and without streaming.
#[tokio::test]
async fn legacy_function_call_is_a_call() {
    let whole = completion(
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
    for sent in [ok_reply(&whole), stream_reply(&pieces)] {
        let server = Server::with_replies([sent]).await;
        let reply = server.model().chat(&hello()).await.unwrap();
        let [call] = reply.message.tool_calls.as_slice() else { panic!("{reply:?}") };
        assert_eq!((&*call.name, &*call.arguments, call.id.is_empty()), ("add", r#"{"x":1}"#, false));
        assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    }
    let both = json!({"function_call": {"name": "add", "arguments": "{}"},
        "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{}"}}]});
    assert_eq!(
        receive(&completion(both, json!("tool_calls"))).await.unwrap().message.tool_calls,
        [ToolCall::new("a", "add", "{}")]
    );
}

#[tokio::test]
async fn transcript_of_audio_is_text() {
    let whole = completion(
        json!({"content": null, "audio": {"id": "a", "data": "UklGRg==", "transcript": "Hello there."}}),
        json!("stop"),
    );
    let delta = |text: &str| json!({"choices": [{"delta": {"audio": {"id": "a", "transcript": text}}}]});
    let end = json!({"choices": [{"delta": {"audio": null}, "finish_reason": "stop"}]});
    for sent in [ok_reply(&whole), stream_reply(&[delta("Hello"), delta(" there."), end])] {
        let server = Server::with_replies([sent]).await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hello there.");
    }
}

/// Gateways to Anthropic send the text and each call of a reply as separate choices. These choices
/// are merged into one reply.
#[tokio::test]
async fn calls_in_separate_choices_are_merged() {
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
        // The choice with index 0 already has a call, so the other choice is an alternative reply
        // and is ignored.
        (json!([numbered(1, b), numbered(0, a)]), "Another.", vec!["a"]),
    ] {
        let message = receive(&json!({"choices": choices})).await.unwrap().message;
        assert_eq!(message.text(), text);
        assert_eq!(message.tool_calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ids, "{choices}");
    }
}

/// A call truncated by a token limit is not returned, so it never runs.
#[tokio::test]
async fn call_at_the_token_limit_is_truncated() {
    let mut body = call_completion(json!("{\"x\": 1, \"y"));
    body["choices"][0]["finish_reason"] = json!("length");
    let error = receive(&body).await.unwrap_err();
    let ModelError::Truncated { reason, partial } = &error else { panic!("{error:?}") };
    assert_eq!(reason, "a limit of tokens stopped it inside the call of \"add\"");
    assert_eq!(partial.tool_calls[0].arguments, "{\"x\": 1, \"y");
}

/// Text truncated by a token limit is returned, with the finish reason `Length`.
#[tokio::test]
async fn text_at_the_token_limit_is_a_reply() {
    let reply = receive(&completion(json!({"content": "Once upon"}), json!("length"))).await.unwrap();
    assert_eq!((reply.finish_reason, reply.message.text().as_str()), (FinishReason::Length, "Once upon"));
}

/// A filtered reply is returned with the finish reason `ContentFilter`, even without text.
#[tokio::test]
async fn filtered_text_is_a_reply() {
    for content in [json!("I "), json!(null)] {
        let reply = receive(&completion(json!({"content": content}), json!("content_filter"))).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::ContentFilter);
    }
}

/// A refusal is returned in the field `refusal`, and the text stays empty.
#[tokio::test]
async fn refusal_is_a_separate_field() {
    let reply =
        receive(&completion(json!({"content": null, "refusal": "I can't."}), json!("stop"))).await.unwrap();
    assert_eq!(reply.message.refusal.as_deref(), Some("I can't."));
    assert_eq!((reply.finish_reason, reply.message.text().as_str()), (FinishReason::Stop, ""));
}

/// An empty reply is retried. After the last retry, the error `EmptyResponse` is returned.
#[tokio::test]
async fn empty_reply_is_retried_and_then_an_error() {
    for empty in [json!({"choices": []}), completion(json!({"content": null}), json!("stop"))] {
        let server = Server::with_replies([ok_reply(&empty), ok_reply(&empty), ok_reply(&empty)]).await;
        let model = server.builder().max_retries(2).build().unwrap();
        assert!(matches!(model.chat(&hello()).await, Err(ModelError::EmptyResponse)));
        assert_eq!(server.take_requests().len(), 3);
    }
}

#[tokio::test]
async fn error_with_status_200_is_returned() {
    let error = receive(&json!({"error": {"message": "overloaded", "code": 503}})).await.unwrap_err();
    assert!(matches!(error, ModelError::Server { status: Some(503), .. }), "{error:?}");
    let error = receive(&json!({"error": "boom"})).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { status: None, body, .. } if body == "boom"), "{error:?}");
}

#[tokio::test]
async fn other_body_is_an_invalid_response() {
    for body in
        ["<html>Welcome</html>", "Try later", "identify yourself", r#"{"object": "list", "data": []}"#]
    {
        let server = Server::with_replies([reply("200 OK", "", body)]).await;
        let error = server.model().chat(&hello()).await.unwrap_err();
        assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
        assert_eq!(server.take_requests().len(), 1);
    }
}

/// The error for a compressed body names the compression. Some proxies compress a body although the
/// request excludes it.
#[tokio::test]
async fn error_names_the_compression_of_a_body() {
    let packed = "\u{1f}\u{8b}\u{8}";
    let sent = |status| reply(status, "content-encoding: gzip\r\n", packed);
    let server = Server::with_replies([sent("200 OK"), sent("404 Not Found")]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    for _ in 0..2 {
        let error = model.chat(&hello()).await.unwrap_err().to_string();
        assert!(error.contains("compressed") && error.contains("gzip") && !error.contains(packed), "{error}");
    }
    let plain = reply(
        "200 OK",
        "content-encoding: identity\r\n",
        &completion(json!({"content": "Hi"}), json!("stop")).to_string(),
    );
    let server = Server::with_replies([plain]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// An error body with HTTP status 200 is recognized as an error. Each test case has the format of a
/// different server.
#[tokio::test]
async fn error_in_place_of_a_reply_is_parsed() {
    for body in [
        json!({"object": "error", "message": "slow down", "code": 500}),
        json!({"detail": "slow down"}),
        json!({"base_resp": {"status_code": 1002, "status_msg": "slow down"}, "choices": null}),
        json!({"success": false, "errors": [{"message": "slow down", "code": 7}], "result": null}),
        json!({"error": {"message": "slow down"}}),
    ] {
        let server = Server::with_replies([ok_reply(&body), ok_reply(&body)]).await;
        let chat = server.builder().max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err();
        let responses = server.responses().max_retries(0).build().unwrap().chat(&hello()).await.unwrap_err();
        for error in [chat, responses, haft_openai::decode_response(&body).unwrap_err()] {
            assert!(matches!(&error, ModelError::Server { body, .. } if body == "slow down"), "{error:?}");
        }
    }
    let error = receive(&json!({"object": "list", "data": ["x"]})).await.unwrap_err().to_string();
    assert!(error.ends_with(r#"it has no choices: {"object":"list","data":["x"]}"#), "{error}");
}

/// A reply with `choices: null` is treated as an empty reply and retried.
#[tokio::test]
async fn null_choices_are_an_empty_reply() {
    let nothing = json!({"id": "c", "choices": null, "usage": {"prompt_tokens": 1}});
    let server = Server::with_replies([ok_reply(&nothing), ok_reply(&nothing)]).await;
    let error = server.builder().max_retries(1).build().unwrap().chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::EmptyResponse), "{error:?}");
    assert_eq!(server.take_requests().len(), 2);
}

/// A stream is distinguished from a JSON body by the first bytes of the body, because some servers
/// send the wrong content type.
#[tokio::test]
async fn content_type_is_ignored() {
    let whole = completion(json!({"content": "Hi"}), json!("stop")).to_string();
    let chunk = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]});
    for body in [whole.clone(), format!(" \r\n\u{feff}{whole}"), format!(": hello\n\ndata: {chunk}\n\n")] {
        for kind in ["application/json", "text/event-stream", "text/plain; charset=utf-8"] {
            let sent = reply("200 OK", &format!("content-type: {kind}\r\n"), &body);
            let server = Server::with_replies([sent.clone(), sent]).await;
            assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "{kind}: {body}");
            let events: Vec<_> = server.model().stream(&hello()).try_collect().await.unwrap();
            assert_eq!(events.len(), 2, "{kind}: {body}");
        }
    }
}

#[tokio::test]
async fn malformed_fields_beside_the_text_are_ignored() {
    let mut malformed = completion(json!({"content": "Hi", "tool_calls": ""}), json!("stop"));
    malformed["choices"][0]["index"] = json!("0");
    let numbers = [
        (json!({"prompt_tokens": 12.0, "completion_tokens": "3"}), Usage::one_request(12, 3)),
        (json!({"prompt_tokens": -1, "completion_tokens": 3}), Usage::one_request(0, 0)),
        (json!({"prompt_tokens": 12, "prompt_tokens_details": "none"}), Usage::one_request(12, 0)),
        (json!({"prompt_tokens": 12, "prompt_tokens_details": [1]}), Usage::one_request(12, 0)),
        (json!(7), Usage::one_request(0, 0)),
        (json!([12, 3]), Usage::one_request(0, 0)),
    ];
    for (usage, expected) in numbers {
        malformed["usage"] = usage;
        for no_error in [json!(null), json!(""), json!({}), json!([]), json!(0), json!(false)] {
            malformed["error"] = no_error;
            let reply = receive(&malformed).await.unwrap();
            assert_eq!((reply.message.text().as_str(), reply.usage), ("Hi", expected), "{malformed}");
        }
    }
}

#[tokio::test]
async fn last_duplicate_field_wins() {
    let body = r#"{"choices": [{"message": {"content": null, "content": "Hi"}, "finish_reason": "stop"}]}"#;
    let server = Server::with_replies([reply("200 OK", "", body)]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

#[tokio::test]
async fn index_may_be_a_string() {
    let piece =
        |index: &str, arguments| json!({"index": index, "function": {"name": "add", "arguments": arguments}});
    let chunks = [
        json!({"choices": [{"delta": {"tool_calls": [piece("0", "{\"x\""), piece("1", "{\"x\"")]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [piece("1", ":2}"), piece("0", ":1}")]}, "finish_reason": "stop"}]}),
    ];
    let server = Server::with_replies([stream_reply(&chunks)]).await;
    let calls = server.model().chat(&hello()).await.unwrap().message.tool_calls;
    let arguments: Vec<_> = calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#]);
}

#[tokio::test]
async fn truncated_body_is_retried() {
    let whole = ok_reply(&completion(json!({"content": "Hello"}), json!("stop")));
    let cut = whole[..whole.len() - 20].to_vec();
    let server = Server::with_replies([cut, whole]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hello");
}

#[tokio::test]
async fn unrequested_stream_is_accepted() {
    let chunk = json!({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]});
    let server = Server::with_replies([stream_reply([&chunk])]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// Misused headers are ignored: `content-encoding: utf-8` is not a compression, and a `location`
/// header in a 400 response is not a redirect.
#[tokio::test]
async fn misused_headers_are_ignored() {
    let body = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).to_string();
    for encoding in ["none", "utf-8", "identity", ""] {
        let sent = reply("200 OK", &format!("content-encoding: {encoding}\r\n"), &body);
        let server = Server::with_replies([sent]).await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "{encoding}");
    }
    let error = json!({"error": {"message": "bad tools"}}).to_string();
    let server = Server::with_replies([reply("400 Bad Request", "location: /v1/chat\r\n", &error)]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Rejected { body, .. } if body == "bad tools"), "{error:?}");
}
