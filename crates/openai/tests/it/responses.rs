//! Tests of requests to and replies from the Responses API.

use std::sync::Arc;

use expect_test::{Expect, expect};
use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolCall, ToolDefinition, ToolName, ToolOutput, ToolResult,
    content::Content,
    limits::REPLY_CALLS,
    message::{AssistantMessage, MessageBody},
    model::{
        ChatEvent, ChatRequest, ChatResponse, ChatSettings, FinishReason, ModelError, ModelProfile,
        ResponseFormat, ToolChoice,
    },
    tool::DynamicTool,
    toolset::ToolList,
    usage::Usage,
};
use haft_openai::{ChatCompletions, Responses};
use serde_json::{Value, json};

use crate::server::{Server, chunks_reply, hello, ok_reply, reply};

/// Returns a response with reasoning, text and a tool call, in OpenAI's format.
pub(crate) fn sample_response() -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5-2026", "error": null,
        "incomplete_details": null,
        "output": [
            {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA", "status": null, "summary": [
                {"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."},
            ]},
            {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "Let me add.", "annotations": []},
            ]},
            {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "add",
             "arguments": "{\"x\":1}"},
        ],
        "usage": {
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 13,
        },
    })
}

/// Returns the stream events for `response`, in OpenAI's format.
pub(crate) fn events_of(response: &Value) -> Vec<Value> {
    let mut head = response.clone();
    (head["status"], head["output"], head["usage"]) = (json!("in_progress"), json!([]), Value::Null);
    let mut events = vec![
        json!({"type": "response.created", "sequence_number": 0, "response": head}),
        json!({"type": "response.in_progress", "response": head}),
    ];
    for (index, item) in response["output"].as_array().unwrap().iter().enumerate() {
        let id = &item["id"];
        let event = |kind: &str, key: &str, value: Value| {
            let mut event = json!({"type": kind, "output_index": index, "item_id": id});
            event[key] = value;
            event
        };
        let mut begun = item.clone();
        match item["type"].as_str().unwrap() {
            "reasoning" => (begun["summary"], begun["encrypted_content"]) = (json!([]), json!("gA")),
            "message" => begun["content"] = json!([]),
            "function_call" => begun["arguments"] = json!(""),
            _ => {}
        }
        events.push(event("response.output_item.added", "item", begun));
        for (part, summary) in item["summary"].as_array().into_iter().flatten().enumerate() {
            for piece in pieces(&summary["text"]) {
                let mut event = event("response.reasoning_summary_text.delta", "delta", piece);
                event["summary_index"] = json!(part);
                events.push(event);
            }
        }
        for part in item["content"].as_array().into_iter().flatten() {
            events.push(event("response.content_part.added", "part", json!({"type": "output_text"})));
            let deltas = pieces(&part["text"]).into_iter();
            events.extend(deltas.map(|piece| event("response.output_text.delta", "delta", piece)));
            let deltas = pieces(&part["refusal"]).into_iter();
            events.extend(deltas.map(|piece| event("response.refusal.delta", "delta", piece)));
            events.push(event("response.output_text.done", "text", part["text"].clone()));
        }
        let deltas = pieces(&item["arguments"]).into_iter();
        let kind = format!("response.{}_arguments.delta", item["type"].as_str().unwrap());
        events.extend(deltas.map(|piece| event(&kind, "delta", piece)));
        events.push(event("response.output_item.done", "item", item.clone()));
    }
    let end = format!("response.{}", response["status"].as_str().unwrap());
    events.push(json!({"type": end, "response": response}));
    events
}

fn pieces(text: &Value) -> Vec<Value> {
    let text: Vec<_> = text.as_str().unwrap_or_default().chars().collect();
    text.chunks(4).map(|piece| json!(piece.iter().collect::<String>())).collect()
}

/// Removes the server address from the provider data, because the port is random.
pub(crate) fn without_origin(mut reply: ChatResponse) -> ChatResponse {
    if let Some(mut data) = reply.message.provider_data.get("responses").cloned() {
        data.as_object_mut().unwrap().remove("from");
        reply.message.provider_data.insert("responses", data);
    }
    reply
}

async fn whole(body: &Value) -> Result<ChatResponse, ModelError> {
    let server = Server::with_replies([ok_reply(body)]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    model.chat(&hello()).await.map(without_origin)
}

async fn streamed(events: &[Value]) -> Result<Vec<ChatEvent>, ModelError> {
    let server = Server::with_replies([chunks_reply(events)]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    model.stream(&hello()).try_collect().await
}

async fn last(events: &[Value]) -> Result<ChatResponse, ModelError> {
    match streamed(events).await?.pop() {
        Some(ChatEvent::Finished(response)) => Ok(without_origin(*response)),
        other => panic!("the last event is {other:?}"),
    }
}

/// Returns the reply that is decoded from the response `body`. Asserts that the events of this
/// response, and its last event alone, result in the same reply.
async fn both_ways(body: &Value) -> ChatResponse {
    let reply = whole(body).await.unwrap();
    let events = events_of(body);
    assert_eq!(last(&events).await.unwrap(), reply, "streamed");
    assert_eq!(last(&events[events.len() - 1..]).await.unwrap(), reply, "only the end");
    reply
}

#[tokio::test]
async fn reply_has_text_reasoning_calls_and_usage() {
    let reply = both_ways(&sample_response()).await;
    assert_eq!(reply.message.text(), "Let me add.");
    assert_eq!(reply.message.reasoning.as_deref(), Some("First.\n\nThen."));
    assert_eq!(reply.message.tool_calls, [ToolCall::new("call_1", "add", r#"{"x":1}"#)]);
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("resp_1"), Some("gpt-5-2026")));
    let usage = Usage { cached_input_tokens: 8, reasoning_tokens: 2, ..Usage::one_request(9, 4) };
    assert_eq!(reply.usage, usage);
}

#[tokio::test]
async fn deltas_add_up_to_the_reply() {
    let mut events = streamed(&events_of(&sample_response())).await.unwrap();
    let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
    let (mut text, mut thought, mut arguments) = (String::new(), String::new(), String::new());
    for event in events {
        match event {
            ChatEvent::TextDelta { text: more } => text += &more,
            ChatEvent::ReasoningDelta { text: more } => thought += &more,
            ChatEvent::ToolCallStarted { index, id, name } => {
                assert_eq!((index, id.as_str(), name.as_str()), (0, "call_1", "add"));
            }
            ChatEvent::ToolCallDelta { arguments: more, .. } => arguments += &more,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((text, Some(thought)), (reply.message.text(), reply.message.reasoning));
    assert_eq!(reply.message.tool_calls[0].arguments, arguments);
}

/// Stream events may lack item ids or indexes, or all have index 0, and arguments may be an object.
#[tokio::test]
async fn missing_ids_indexes_and_items_are_accepted() {
    let expected = whole(&sample_response()).await.unwrap().message;
    let changed = |change: fn(&mut Value)| {
        let mut events = events_of(&sample_response());
        events.iter_mut().for_each(change);
        events
    };
    let without_index = changed(|event| drop(event.as_object_mut().unwrap().remove("output_index")));
    let without_ids = changed(|event| drop(event.as_object_mut().unwrap().remove("item_id")));
    let all_first = changed(|event| event["output_index"] = json!(0));
    let without_items = changed(|event| {
        if event["type"] == "response.completed" {
            event["response"]["output"] = json!([]);
        }
    });
    // The final item repeats the call without its arguments. The streamed arguments must be kept:
    // a call with other arguments would run.
    let without_arguments = changed(|event| {
        if event["item"]["type"] == "function_call" {
            event["item"]["arguments"] = json!("");
        }
        if event["type"] == "response.completed" {
            event["response"]["output"][2].as_object_mut().unwrap().remove("arguments");
        }
    });
    let unknown = changed(|event| {
        if event["type"] == "response.in_progress" {
            *event = json!({"type": "response.something_new", "delta": {"x": 1}, "output_index": "?"});
        }
    });
    for events in [without_index, without_ids, all_first, without_items, without_arguments, unknown] {
        assert_eq!(last(&events).await.unwrap().message, expected, "{events:?}");
    }
    let mut sloppy = sample_response();
    sloppy["output"][2]["arguments"] = json!({"x": 1});
    sloppy["output"][1]["content"] = json!("Let me add.");
    sloppy["status"] = Value::Null;
    assert_eq!(whole(&sloppy).await.unwrap().message, expected);
    for id in [json!(null), json!("")] {
        sloppy["output"][2]["call_id"] = id.clone();
        sloppy["output"][2]["id"] = id;
        let calls = whole(&sloppy).await.unwrap().message.tool_calls;
        assert!(!calls[0].id.is_empty());
    }
}

fn incomplete(reason: &str, output: Value) -> Value {
    json!({"id": "r", "status": "incomplete", "incomplete_details": {"reason": reason}, "output": output})
}

/// A token limit, a content filter and a refusal are distinguished. An incomplete call is not
/// returned, so it never runs.
#[tokio::test]
async fn length_filter_and_refusal_are_three_outcomes() {
    let items = |part: Value| json!([{"id": "m", "type": "message", "role": "assistant", "content": [part]}]);
    let text = || items(json!({"type": "output_text", "text": "Once upon"}));
    let cut = both_ways(&incomplete("max_output_tokens", text())).await;
    assert_eq!((cut.finish_reason, cut.message.text().as_str()), (FinishReason::Length, "Once upon"));
    let filtered = both_ways(&incomplete("content_filter", text())).await;
    assert_eq!(filtered.finish_reason, FinishReason::ContentFilter);
    let refusal = items(json!({"type": "refusal", "refusal": "I can't."}));
    let refused = both_ways(&json!({"id": "r", "status": "completed", "output": refusal})).await;
    assert_eq!(refused.message.refusal.as_deref(), Some("I can't."));
    let thought = json!([{"id": "rs", "type": "reasoning", "summary": []}]);
    let reasoning_only = both_ways(&incomplete("max_output_tokens", thought)).await;
    assert_eq!(reasoning_only.finish_reason, FinishReason::Length);

    for arguments in ["{\"x\":", ""] {
        let call = json!([{"id": "fc", "type": "function_call", "status": "incomplete", "call_id": "a",
            "name": "add", "arguments": arguments}]);
        let body = incomplete("max_output_tokens", call);
        for error in [whole(&body).await.unwrap_err(), last(&events_of(&body)).await.unwrap_err()] {
            let ModelError::Truncated { reason, .. } = &error else { panic!("{error:?}") };
            assert_eq!(reason, "a limit of tokens stopped it inside the call of \"add\"");
        }
    }
}

/// The type of the last event overrides the status `in_progress` in it, because some servers repeat
/// the initial response in the last event.
#[tokio::test]
async fn type_of_the_last_event_overrides_its_status() {
    let mut events = events_of(&sample_response());
    events.last_mut().unwrap()["response"]["status"] = json!("in_progress");
    assert_eq!(last(&events).await.unwrap(), whole(&sample_response()).await.unwrap());
}

/// The provider data contains the lengths of the original texts. Even if these lengths do not match
/// the text of the message, all of the text must be sent.
#[test]
fn stale_lengths_lose_no_text() {
    let message = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let body = json!({"status": "completed", "output": [message("aé"), message("b")]});
    for lengths in [[2, 2], [7, 7], [u64::MAX, u64::MAX], [3, 1]] {
        let mut message = haft_openai::responses::decode_response(&body).unwrap().message;
        let mut data = message.provider_data.get("responses").unwrap().clone();
        for (place, length) in lengths.iter().enumerate() {
            data["items"][place]["length"] = json!(length);
        }
        message.provider_data.insert("responses", data);
        let sent = haft_openai::responses::encode_input([&Arc::new(Message::assistant(message))]);
        let words: String = sent.iter().filter_map(|item| item["content"].as_str()).collect();
        assert_eq!(words.replace("\n\n", ""), "aéb", "{lengths:?}");
    }
}

#[tokio::test]
async fn incomplete_response_is_truncated() {
    let items = json!([{"id": "m", "type": "message", "content": [{"type": "output_text", "text": "Half"}]}]);
    for details in [json!(null), json!({}), json!({"reason": "tired"}), json!({"reason": "stop"}), json!("x")]
    {
        let body = json!({"id": "r", "status": "incomplete", "incomplete_details": details, "output": items});
        for error in [whole(&body).await.unwrap_err(), last(&events_of(&body)).await.unwrap_err()] {
            let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
            assert_eq!(partial.text(), "Half", "{details}");
        }
    }
}

#[tokio::test]
async fn too_many_items_are_rejected() {
    let many: Value = (0..=REPLY_CALLS).map(|_| json!(1)).collect();
    let error = whole(&json!({"status": "completed", "output": many})).await.unwrap_err();
    assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
    let added =
        |index: usize| json!({"type": "response.output_item.added", "output_index": index, "item": {}});
    let events: Vec<_> = (0..=REPLY_CALLS + 1).map(added).collect();
    let error = last(&events).await.unwrap_err();
    assert!(matches!(&error, ModelError::InvalidResponse(it) if it.contains("items")), "{error:?}");
}

/// A stream that ends at any point before its last event is reported as truncated.
#[tokio::test]
async fn early_end_of_a_stream_is_truncated() {
    let events = events_of(&sample_response());
    for end in 1..events.len() {
        let error = last(&events[..end]).await.unwrap_err();
        assert!(matches!(error, ModelError::Truncated { .. }), "after {end}: {error:?}");
    }
    let error = last(&events[..events.len() - 1]).await.unwrap_err();
    assert!(matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Let me add."));
}

/// A failure that is reported in the status, in an event or in the error field becomes the error
/// that its code implies.
#[tokio::test]
async fn failure_in_a_reply_is_an_error_by_its_code() {
    let failed = |error: Value| json!({"id": "r", "status": "failed", "error": error, "output": []});
    let broken = failed(json!({"code": "server_error", "message": "worker died"}));
    let error = whole(&broken).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { body, .. } if body == "worker died"), "{error:?}");
    let error = whole(&failed(Value::Null)).await.unwrap_err();
    assert!(matches!(error, ModelError::Server { .. }), "{error:?}");

    let busy = json!({"code": "rate_limit_exceeded", "message": "slow down"});
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"});
    let ends = [
        json!({"type": "response.failed", "response": failed(busy.clone())}),
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}),
        json!({"type": "error", "error": busy}),
        json!({"error": {"code": 429, "message": "slow down"}}),
    ];
    for end in ends {
        let error = last(&[text.clone(), end]).await.unwrap_err();
        assert!(
            matches!(&error, ModelError::RateLimited { message, .. } if message == "slow down"),
            "{error:?}"
        );
    }
    for status in ["cancelled", "in_progress", "queued"] {
        let body = json!({"id": "r", "status": status, "output": []});
        assert!(matches!(whole(&body).await, Err(ModelError::Truncated { .. })), "{status}");
    }
    assert!(matches!(whole(&json!({"object": "list"})).await, Err(ModelError::InvalidResponse(_))));
}

fn tools() -> ToolList {
    let definition = ToolDefinition::new(ToolName::new("now").unwrap(), Schema::object());
    ToolList::new("test", [DynamicTool::new(definition, |_, _| async { "noon" })])
}

fn text_response(text: &str) -> Vec<u8> {
    let part = json!({"type": "output_text", "text": text});
    let item = json!({"id": "msg", "type": "message", "role": "assistant", "content": [part]});
    ok_reply(&json!({"id": "resp_2", "status": "completed", "output": [item]}))
}

async fn check(request: ChatRequest, expect: Expect) {
    let server = Server::with_replies([text_response("Hi")]).await;
    let profile =
        ModelProfile { supports_images: true, supports_files: true, ..ModelProfile::new("test-model") };
    server.responses().profile(profile).build().unwrap().chat(&request).await.unwrap();
    let request = server.take_requests().remove(0);
    assert!(request.head.starts_with("POST /v1/responses HTTP/1.1"), "{}", request.head);
    expect.assert_eq(&request.body.to_string());
}

#[tokio::test]
async fn minimal_request_has_model_and_input() {
    check(hello(), expect![[r#"{"model":"test-model","input":[{"role":"user","content":"Hello"}],"store":false,"include":["reasoning.encrypted_content"],"stream":false}"#]]).await;
}

#[tokio::test]
async fn all_settings_are_sent() {
    let schema = Schema::new(json!({"type": "object", "properties": {"x": {"type": "integer"}}})).unwrap();
    let request = ChatRequest {
        instructions: Some(Message::system("Be brief.").into()),
        tool_choice: ToolChoice::Tool(ToolName::new("now").unwrap()),
        response_format: ResponseFormat::JsonSchema { name: ToolName::new("answer").unwrap(), schema },
        settings: ChatSettings {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_tokens: Some(100),
            // The Responses API has no `stop` and no `seed`, so both are omitted.
            stop: vec!["END".into()],
            seed: Some(7),
            parallel_tool_calls: Some(false),
        },
        ..ChatRequest::new([Message::user("Hello")]).with_tools(tools())
    };
    check(request, expect![[r#"{"model":"test-model","instructions":"Be brief.","input":[{"role":"user","content":"Hello"}],"tools":[{"type":"function","name":"now","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":{"type":"function","name":"now"},"parallel_tool_calls":false,"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object","properties":{"x":{"type":"integer"}}}}},"temperature":0.5,"top_p":0.9,"max_output_tokens":100,"store":false,"include":["reasoning.encrypted_content"],"stream":false}"#]]).await;
}

#[tokio::test]
async fn images_and_files_are_sent_and_audio_is_described() {
    let media = || {
        vec![
            Content::text("Look:"),
            Content::from_bytes(*b"cat", "image/png"),
            Content::from_bytes(*b"doc", "application/pdf"),
            Content::from_bytes(*b"la", "audio/wav"),
            Content::from_bytes(*b"<svg/>", "image/svg+xml"),
        ]
    };
    let call = AssistantMessage {
        tool_calls: vec![ToolCall::new("a", "draw", "not json")],
        ..AssistantMessage::default()
    };
    let drawn = ToolOutput { content: media(), ..ToolOutput::default() }.with_warning("cached");
    let request = ChatRequest::new([
        Message::new(MessageBody::User { content: media() }),
        Message::assistant(call),
        Message::tool(ToolResult::done("a", "draw", drawn)),
    ]);
    check(request, expect![[r#"{"model":"test-model","input":[{"role":"user","content":[{"type":"input_text","text":"Look:"},{"type":"input_image","image_url":"data:image/png;base64,Y2F0"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,ZG9j"},{"type":"input_text","text":"[audio/wav, 2 bytes]"},{"type":"input_text","text":"[image/svg+xml, 6 bytes]"}]},{"type":"function_call","call_id":"a","name":"draw","arguments":"{\"malformed_arguments\":\"not json\"}"},{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"Look:"},{"type":"input_image","image_url":"data:image/png;base64,Y2F0"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,ZG9j"},{"type":"input_text","text":"[audio/wav, 2 bytes]"},{"type":"input_text","text":"[image/svg+xml, 6 bytes]"},{"type":"input_text","text":"Warning: cached"}]}],"store":false,"include":["reasoning.encrypted_content"],"stream":false}"#]]).await;
}

/// Returns a conversation with `reply`: a user message, the reply, and the results of its calls.
fn conversation_after(reply: AssistantMessage) -> Vec<Message> {
    let calls = reply.tool_calls.clone();
    let mut messages = vec![Message::user("Hello"), Message::assistant(reply)];
    let results = calls.iter().map(|call| ToolResult::done(&*call.id, &*call.name, "1".into()));
    messages.extend(results.map(Message::tool));
    messages
}

/// Sends the conversation `messages` and returns the body of the request.
async fn request_body(server: &Server, model: &impl ChatModel, messages: Vec<Message>) -> Value {
    // The messages are serialized and parsed again, because provider data must survive saving and
    // loading a conversation.
    let saved = serde_json::to_string(&messages).unwrap();
    let messages: Vec<Message> = serde_json::from_str(&saved).unwrap();
    model.chat(&ChatRequest::new(messages)).await.unwrap();
    server.take_requests().pop().unwrap().body
}

/// Reasoning is sent back directly before the item that followed it in the response. If this item
/// was removed from the message, the reasoning is not sent back, because the API would reject it.
#[tokio::test]
async fn reasoning_is_sent_back_before_its_item() {
    let server = Server::with_replies([
        ok_reply(&sample_response()),
        text_response("1"),
        text_response("1"),
        text_response("1"),
    ])
    .await;
    let model = server.responses().build().unwrap();
    let reply = model.chat(&hello()).await.unwrap().message;
    let body = request_body(&server, &model, conversation_after(reply.clone())).await;
    expect![[r#"[{"role":"user","content":"Hello"},{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"First."},{"type":"summary_text","text":"Then."}]},{"role":"assistant","content":"Let me add."},{"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"x\":1}"},{"type":"function_call_output","call_id":"call_1","output":"1"}]"#]].assert_eq(&body["input"].to_string());

    let without_text = AssistantMessage { content: Vec::new(), ..reply.clone() };
    let body = request_body(&server, &model, conversation_after(without_text)).await;
    expect![[r#"[{"role":"user","content":"Hello"},{"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"x\":1}"},{"type":"function_call_output","call_id":"call_1","output":"1"}]"#]].assert_eq(&body["input"].to_string());
    let changed = AssistantMessage { content: vec!["Adding.".into()], tool_calls: Vec::new(), ..reply };
    let body = request_body(&server, &model, conversation_after(changed)).await;
    assert_eq!(body["input"][2], json!({"role": "assistant", "content": "Adding."}));
    assert_eq!(body["input"].as_array().unwrap().len(), 3, "{body}");
}

/// The items of a response, here several messages and an item of an unknown type, are sent back in
/// their original order.
#[tokio::test]
async fn items_keep_their_order() {
    let text = |text: &str, phase: &str| json!({"id": format!("msg_{phase}"), "type": "message", "role": "assistant", "phase": phase, "content": [{"type": "output_text", "text": text}]});
    let thought = |id: &str| json!({"id": id, "type": "reasoning", "encrypted_content": id, "summary": []});
    let call = |id: &str| json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": "add", "arguments": "{}"});
    let search =
        json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "x"}});
    let output = json!([
        thought("rs_1"),
        text("Wait.", "commentary"),
        thought("rs_2"),
        search,
        thought("rs_3"),
        call("a"),
        call("b"),
        thought("rs_4"),
        text("Done.", "final_answer"),
        thought("rs_5"),
    ]);
    let body = json!({"id": "resp_1", "status": "completed", "output": output});
    let reply = both_ways(&body).await.message;
    assert_eq!(reply.text(), "Wait.\n\nDone.");
    let input = haft_openai::responses::encode_input(&[Arc::new(Message::assistant(reply))]);
    let items = input.iter().map(|item| {
        let word = ["id", "call_id", "content"].iter().find_map(|key| item[*key].as_str()).unwrap();
        format!("{word}{}", item["phase"].as_str().map(|phase| format!(" ({phase})")).unwrap_or_default())
    });
    let items: Vec<_> = items.collect();
    expect!["rs_1, Wait. (commentary), rs_2, ws_1, rs_3, a, b, rs_4, Done. (final_answer)"]
        .assert_eq(&items.join(", "));
}

/// OpenAI rejects `include: ["reasoning.encrypted_content"]` for models without reasoning. Later
/// requests omit this value.
#[tokio::test]
async fn rejected_encrypted_reasoning_is_not_requested_again() {
    let rejection = json!({"error": {"message": "Encrypted content is not supported with this model."}});
    let rejection = reply("400 Bad Request", "", &rejection.to_string());
    let server = Server::with_replies([rejection, text_response("Hi"), text_response("Hi")]).await;
    let model = server.responses().max_retries(0).build().unwrap();
    for _ in 0..2 {
        model.chat(&hello()).await.unwrap();
    }
    let sent: Vec<_> = server.take_requests().iter().map(|it| it.body["include"].clone()).collect();
    assert_eq!(sent, [json!(["reasoning.encrypted_content"]), Value::Null, Value::Null]);
}

#[tokio::test]
async fn reasoning_options_are_sent() {
    let server = Server::with_replies([text_response("Hi")]).await;
    let builder = server.responses().reasoning_effort("low").reasoning_summary("auto").store(true);
    builder.extra_field("service_tier", "flex").build().unwrap().chat(&hello()).await.unwrap();
    let body = server.take_requests().remove(0).body;
    assert_eq!(body["reasoning"], json!({"effort": "low", "summary": "auto"}));
    assert_eq!((&body["store"], &body["include"]), (&json!(true), &Value::Null));
    assert_eq!(body["service_tier"], "flex");
}

/// Only the messages after a stored response are sent. If the conversation differs from the stored
/// conversation, all messages are sent.
#[tokio::test]
async fn only_new_messages_are_sent_after_a_stored_response() {
    let replies = [
        ok_reply(&sample_response()),
        text_response("1"),
        text_response("1"),
        text_response("1"),
        text_response("1"),
    ];
    let server = Server::with_replies(replies).await;
    let model = server.responses().use_previous_response_id(true).build().unwrap();
    let reply = model.chat(&hello()).await.unwrap().message;
    let first = server.take_requests().remove(0).body;
    assert_eq!((&first["store"], &first["previous_response_id"]), (&json!(true), &Value::Null));

    let messages = conversation_after(reply.clone());
    let body = request_body(&server, &model, messages.clone()).await;
    assert_eq!(body["previous_response_id"], "resp_1");
    expect![[r#"[{"type":"function_call_output","call_id":"call_1","output":"1"}]"#]]
        .assert_eq(&body["input"].to_string());

    let mut shortened = messages.clone();
    shortened.remove(0);
    let others = [Message::user("Hello!")].into_iter().chain(messages[1..].to_vec()).collect();
    let without_calls = conversation_after(AssistantMessage { tool_calls: Vec::new(), ..reply });
    let without_calls = without_calls.into_iter().chain([Message::user("Go on")]).collect();
    for changed in [shortened, others, without_calls] {
        let body = request_body(&server, &model, changed).await;
        assert_eq!(body["previous_response_id"], Value::Null, "{body}");
        assert!(body["input"].to_string().contains("Let me add."), "{body}");
    }
}

/// If the server has deleted the stored response, the whole conversation is sent immediately. This
/// does not count as a retry.
#[tokio::test]
async fn expired_response_id_resends_the_conversation() {
    let expired = json!({"error": {"message": "Previous response with id 'resp_1' not found.",
        "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found"}});
    let expired = reply("400 Bad Request", "", &expired.to_string());
    let server =
        Server::with_replies([ok_reply(&sample_response()), expired.clone(), text_response("1"), expired])
            .await;
    let model = server.responses().use_previous_response_id(true).max_retries(0).build().unwrap();
    let reply = model.chat(&hello()).await.unwrap().message;
    let request = ChatRequest::new(conversation_after(reply));
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "1");
    let requests = server.take_requests();
    let lengths = requests.iter().map(|it| it.body["input"].as_array().unwrap().len());
    assert_eq!(
        lengths.collect::<Vec<_>>(),
        [1, 1, 5],
        "reasoning, text, call and result after the user message"
    );
    let rejected = model.chat(&hello()).await.unwrap_err();
    assert!(matches!(rejected, ModelError::Rejected { .. }), "nothing to omit: {rejected:?}");
}

/// Servers report an expired response id with different errors. Each of these errors must be
/// recognized.
#[tokio::test]
async fn errors_of_expired_response_ids_are_recognized() {
    for (status, error) in [
        (
            "404 Not Found",
            json!({"message": "Response with id 'resp_1' not found.", "type": "invalid_request_error", "param": "response_id", "code": 404}),
        ),
        ("400 Bad Request", json!({"message": "no", "param": "previous_response_id"})),
        ("404 Not Found", json!({"message": "Response not found", "type": "not_found_error"})),
    ] {
        let expired = reply(status, "", &json!({"error": error}).to_string());
        let server = Server::with_replies([ok_reply(&sample_response()), expired, text_response("1")]).await;
        let model = server.responses().use_previous_response_id(true).max_retries(0).build().unwrap();
        let first = model.chat(&hello()).await.unwrap().message;
        assert_eq!(
            model.chat(&ChatRequest::new(conversation_after(first))).await.unwrap().message.text(),
            "1",
            "{error}"
        );
    }
}

/// A conversation can continue on another server and with Chat Completions. Encrypted reasoning is
/// sent back only to the server that created it.
#[tokio::test]
async fn conversation_continues_on_another_server_and_api() {
    let server = Server::with_replies([ok_reply(&sample_response()), text_response("1")]).await;
    let chat_reply = json!({"choices": [{"message": {"content": null, "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    let other = Server::with_replies([ok_reply(&chat_reply)]).await;
    let model = server.responses().build().unwrap();
    let reply = model.chat(&hello()).await.unwrap().message;

    let mut messages = conversation_after(reply);
    let chat: ChatCompletions = other.builder().build().unwrap();
    let reply = chat.chat(&ChatRequest::new(messages.clone())).await.unwrap().message;
    let body = other.take_requests().remove(0).body;
    expect![[r#"[{"role":"user","content":"Hello"},{"role":"assistant","content":"Let me add.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"1"}]"#]].assert_eq(&body["messages"].to_string());

    messages.extend(conversation_after(reply).into_iter().skip(1));
    let body = request_body(&server, &model, messages.clone()).await;
    let kinds: Vec<_> = body["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(
        json!(kinds),
        json!([
            null,
            "reasoning",
            null,
            "function_call",
            "function_call_output",
            "function_call",
            "function_call_output"
        ])
    );

    let third = Server::with_replies([text_response("1")]).await;
    let body = request_body(&third, &third.responses().build().unwrap(), messages).await;
    assert!(!body.to_string().contains("gAAA"), "{body}");
}

#[tokio::test]
async fn conversation_continues_a_response_of_another_program() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let minimal_reply = ok_reply(&json!({"id": "resp_2", "status": "completed", "output": [message]}));
    for (use_previous, second) in [(false, ("resp_1", 3)), (true, ("resp_2", 1))] {
        let unknown = json!({"error": {"message": "Previous response with id 'resp_1' not found.", "param": "previous_response_id"}});
        let unknown = reply("400 Bad Request", "", &unknown.to_string());
        let server = Server::with_replies([minimal_reply.clone(), minimal_reply.clone(), unknown]).await;
        let builder =
            server.responses().previous_response_id("resp_1").use_previous_response_id(use_previous);
        let model = builder.build().unwrap();
        let message = model.chat(&hello()).await.unwrap().message;
        let next = [Message::user("Hello"), Message::assistant(message), Message::user("More")];
        model.chat(&ChatRequest::new(next)).await.unwrap();
        let sent: Vec<_> = server.take_requests().into_iter().map(|request| request.body).collect();
        let summary =
            |body: &Value| (body["previous_response_id"].clone(), body["input"].as_array().unwrap().len());
        assert_eq!(summary(&sent[0]), (json!("resp_1"), 1));
        assert_eq!(summary(&sent[1]), (json!(second.0), second.1));
        // A retry without the response id is impossible, because only the server has the content of
        // that response.
        let error = model.chat(&hello()).await.unwrap_err();
        assert!(error.to_string().contains("resp_1"), "{error}");
    }
}

/// vLLM sends a different id in the final item of a call. The first id is kept, because it was
/// already emitted.
#[tokio::test]
async fn call_keeps_its_first_id() {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "add", "arguments": arguments});
    let item = |kind: &str, item: Value| json!({"type": format!("response.output_item.{kind}"), "output_index": 0, "item": item});
    let arguments = r#"{"x":1}"#;
    let delta =
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": arguments});
    let output = json!([call("c", arguments)]);
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    let events = streamed(&[item("added", call("a", "")), delta, item("done", call("b", arguments)), end])
        .await
        .unwrap();
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert_eq!(reply.message.tool_calls, [ToolCall::new("a", "add", arguments)]);
}

/// The events of a call in pieces: a name in two events, drifting indexes and ids, and final
/// arguments without deltas.
#[tokio::test]
async fn call_in_pieces_is_one_call() {
    let added = |name: &str| json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "a", "name": name, "arguments": ""}});
    let delta = |index: u8, id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": id, "delta": delta});
    let end = || json!({"type": "response.completed", "response": {"status": "completed"}});
    let done = json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "name": "find_page", "arguments": "{\"id\":7}"});
    let message =
        json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "Hi"});
    let moved = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "find_page"}});
    for events in [
        vec![added("find_page"), delta(0, "fc_1", "{\"id\""), delta(0, "fc_1", ":7}"), end()],
        vec![added("find_"), added("page"), delta(0, "fc_1", "{\"id\":7}"), end()],
        vec![added("find_page"), added("find_page"), delta(0, "fc_1", "{\"id\":7}"), end()],
        vec![added("find_page"), delta(1, "x1", "{\"id\""), delta(2, "x2", ":7}"), end()],
        vec![added("find_page"), done.clone(), end()],
        vec![added("find_"), delta(0, "fc_1", "{\"id\""), done, end()],
        vec![message.clone(), moved, delta(0, "x1", "{\"id\":7}"), end()],
    ] {
        let calls = last(&events).await.unwrap().message.tool_calls;
        assert_eq!(calls, [ToolCall::new("a", "find_page", r#"{"id":7}"#)], "{events:?}");
    }
    let nameless = [delta(0, "fc_1", "{\"id\":7}"), end()];
    assert!(matches!(last(&nameless).await, Err(ModelError::InvalidResponse(_))));
}

/// A server gets its own ids back, and another model gets shorter ones.
#[tokio::test]
async fn own_call_ids_are_sent_back_unchanged() {
    let id = "x".repeat(300);
    let mut response = sample_response();
    response["output"][2]["call_id"] = json!(id);
    let end = json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]});
    let server = Server::with_replies([ok_reply(&response), ok_reply(&end), ok_reply(&end)]).await;
    let own = server.responses().build().unwrap();
    let reply = own.chat(&hello()).await.unwrap().message;
    let result = ToolResult::done(&*id, "add", "1".into());
    let request =
        ChatRequest::new([Message::user("Hello"), Message::assistant(reply), Message::tool(result)]);
    let ids_of = |body: &Value| {
        let items = body["input"].as_array().unwrap().iter();
        items.filter_map(|item| item["call_id"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    own.chat(&request).await.unwrap();
    let other = Responses::builder("gpt-5").base_url(&server.base_url).build().unwrap();
    other.chat(&request).await.unwrap();
    let sent: Vec<_> = server.take_requests().iter().skip(1).map(|request| ids_of(&request.body)).collect();
    assert_eq!(sent[0], [&*id, &*id]);
    assert_eq!(sent[1][0], sent[1][1]);
    assert!(sent[1][0].len() <= 64);
}

/// llama.cpp parses the arguments of earlier calls, and returns 500 if one of them is malformed. The
/// request contains the text of the model in an object.
#[tokio::test]
async fn malformed_arguments_of_an_earlier_call_are_sent_in_an_object() {
    let arguments = [r#"{"x": 1}"#, "", r#"{"x": 1"#, r#"{"x":"\ud800"}"#, "[1]", "null"];
    let ids = ["a", "b", "c", "d", "e", "f"];
    let tool_calls = ids.iter().zip(arguments).map(|(id, it)| ToolCall::new(*id, "add", it)).collect();
    let reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    let results = ids.map(|id| Message::tool(ToolResult::done(id, "add", "1".into())));
    let request =
        ChatRequest::new([Message::user("Hi"), Message::assistant(reply)].into_iter().chain(results));
    let chat = ok_reply(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}));
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let server = Server::with_replies([ok_reply(&json!({ "output": [message] })), chat]).await;
    server.responses().build().unwrap().chat(&request).await.unwrap();
    server.builder().build().unwrap().chat(&request).await.unwrap();
    let bodies: Vec<_> = server.take_requests().into_iter().map(|it| it.body).collect();
    let items = bodies[0]["input"].as_array().unwrap().iter();
    let responses: Vec<_> = items.filter_map(|item| item["arguments"].as_str()).collect();
    let calls = bodies[1]["messages"][1]["tool_calls"].as_array().unwrap().iter();
    let chat: Vec<_> = calls.map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(responses, chat);
    for (text, sent) in arguments.into_iter().zip(chat) {
        let sent: Value = serde_json::from_str(sent).unwrap();
        let wrapped = sent.as_object().unwrap().get("malformed_arguments");
        let is_object = serde_json::from_str::<Value>(text).is_ok_and(|it| it.is_object());
        assert_eq!(wrapped.and_then(Value::as_str), (!is_object && !text.is_empty()).then_some(text));
    }
}
