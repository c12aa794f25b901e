use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use expect_test::expect;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::{Cassette, CassetteMode, CassetteModel};
use crate::{ScriptedModel, TestModel, conformance};
use haft_core::{
    ChatModel as _, Message, Schema, Timestamp, ToolCall, ToolDefinition, ToolError, ToolName, ToolOutput,
    ToolResult,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelFailure, ModelProfile, TimeoutPhase},
    tool::DynamicTool,
    toolset::ToolList,
    usage::Usage,
};
use haft_middleware::ModelMiddleware as _;

fn tools() -> ToolList {
    let properties = json!({"x": {"type": "integer"}, "y": {"type": "integer"}});
    let schema = Schema::new(json!({"type": "object", "properties": properties})).unwrap();
    let definition = ToolDefinition::new(ToolName::new("add").unwrap(), schema);
    let definition = definition.with_description("Adds two integers.");
    let add = DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("42".into()) });
    ToolList::new("test", [add])
}

const QUESTION: &str = "What is 17 plus 25?";

fn first_request() -> ChatRequest {
    ChatRequest::new([Message::user(QUESTION)]).with_tools(tools())
}

/// Returns a request with the question, a tool call with the id `id`, and `sum` as the result of
/// the call. Each message has the current time as its timestamp, so the timestamps in a replay
/// differ from the recorded timestamps.
fn second_request(id: &str, sum: &str) -> ChatRequest {
    let call = ToolCall::new(id, "add", r#"{"x":17,"y":25}"#);
    let reply = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    let result = ToolResult::done(id, "add", ToolOutput::from(sum));
    let messages = [Message::user(QUESTION), Message::assistant(reply), Message::tool(result)];
    ChatRequest::new(messages.map(|it| it.with_created_at(Timestamp::now()))).with_tools(tools())
}

fn scripted_model() -> ScriptedModel {
    ScriptedModel::new()
        .reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)])
        .reply_chunks(["It ", "is ", "42."])
}

async fn stream_events(model: &CassetteModel, request: &ChatRequest) -> Vec<Result<ChatEvent, ModelError>> {
    model.stream(request).collect().await
}

/// Records two requests. Returns the text of the cassette and the events of the second reply.
async fn record_two_requests() -> (String, Vec<ChatEvent>) {
    let model = CassetteModel::record(scripted_model());
    model.chat(&first_request()).await.unwrap();
    let events = stream_events(&model, &second_request("call_1", "42"))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    (model.recorded_text().unwrap(), events)
}

/// The requests of an agent depend on the profile of its model, so a replay must report the
/// recorded profile.
#[test]
fn profile_is_replayed() {
    let profile = ModelProfile {
        supports_json_schema: false,
        supports_images: true,
        supports_audio: true,
        supports_files: true,
        context_window: Some(8_000),
        ..ModelProfile::new("audio-model")
    };
    let model = CassetteModel::record(ScriptedModel::new().with_profile(profile.clone()));
    let cassette = Cassette { profile: Some(model.profile().clone()), ..Cassette::default() };
    let read: Cassette = cassette.to_string().parse().unwrap();
    assert_eq!(*CassetteModel::replay(read).profile(), profile);
}

#[tokio::test]
async fn cassette_text_is_readable_json() {
    let (text, _) = record_two_requests().await;
    expect![[r##"
        {
          "haft_cassette": 1,
          "model": {
            "name": "scripted",
            "native_tools": true,
            "json_schema": true,
            "images": false
          },
          "exchanges": [
            {
              "request": {
                "messages": [
                  {
                    "role": "user",
                    "content": "What is 17 plus 25?"
                  }
                ],
                "tools": [
                  {
                    "name": "add",
                    "description": "Adds two integers.",
                    "input_schema": {
                      "type": "object",
                      "properties": {
                        "x": {
                          "type": "integer"
                        },
                        "y": {
                          "type": "integer"
                        }
                      }
                    }
                  }
                ]
              },
              "response": {
                "message": {
                  "tool_calls": [
                    {
                      "id": "call_1",
                      "name": "add",
                      "arguments": "{\"x\":17,\"y\":25}"
                    }
                  ]
                },
                "finish_reason": "tool_calls",
                "usage": {
                  "requests": 1,
                  "input_tokens": 0,
                  "output_tokens": 0,
                  "cached_input_tokens": 0,
                  "reasoning_tokens": 0
                }
              }
            },
            {
              "follows": 1,
              "request": {
                "messages": [
                  {
                    "role": "assistant",
                    "tool_calls": [
                      {
                        "id": "#1",
                        "name": "add",
                        "arguments": "{\"x\":17,\"y\":25}"
                      }
                    ]
                  },
                  {
                    "role": "tool",
                    "id": "#1",
                    "name": "add",
                    "success": true,
                    "content": "42"
                  }
                ]
              },
              "events": [
                {
                  "type": "text_delta",
                  "text": "It "
                },
                {
                  "type": "text_delta",
                  "text": "is "
                },
                {
                  "type": "text_delta",
                  "text": "42."
                },
                {
                  "type": "finished",
                  "message": {
                    "content": [
                      {
                        "type": "text",
                        "text": "It is 42."
                      }
                    ]
                  },
                  "finish_reason": "stop",
                  "usage": {
                    "requests": 1,
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cached_input_tokens": 0,
                    "reasoning_tokens": 0
                  }
                }
              ]
            }
          ]
        }
    "##]]
    .assert_eq(&text);
    let cassette: Cassette = text.parse().unwrap();
    assert_eq!(cassette.len(), 2);
    assert_eq!(cassette.to_string(), text);
}

#[tokio::test]
async fn replay_yields_the_same_events_for_other_ids_and_times() {
    let (text, original) = record_two_requests().await;
    let model = CassetteModel::replay(text.parse().unwrap());
    assert_eq!(model.chat(&first_request()).await.unwrap().message.tool_calls[0].id, "call_1");
    let replayed: Vec<_> =
        stream_events(&model, &second_request("other", "42")).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(replayed, original);
    assert_eq!(model.profile().name, "scripted");
    assert_eq!(model.recorded_text(), None);
}

#[tokio::test]
async fn replay_accepts_any_order_and_either_mode() {
    let (text, _) = record_two_requests().await;
    let model = CassetteModel::replay(text.parse().unwrap());
    assert_eq!(model.chat(&second_request("call_1", "42")).await.unwrap().message.text(), "It is 42.");
    let events = stream_events(&model, &first_request()).await;
    assert!(matches!(&events[0], Ok(ChatEvent::ToolCallStarted { name, .. }) if name == "add"));
}

/// Drops the model, which must panic, and returns the panic message.
fn drop_with_panic(model: CassetteModel) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(model))).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[tokio::test]
async fn changed_request_fails_with_its_differences() {
    let (text, _) = record_two_requests().await;
    let model = CassetteModel::replay(text.parse().unwrap());
    model.chat(&first_request()).await.unwrap();
    let error = model.chat(&second_request("call_1", "43")).await.unwrap_err();
    expect![[r#"
        the model failed: request 2 differs from exchange 2 of the cassette:
          /messages/2/content: was "42", now "43"
        if this is intended, record the cassette again with HAFT_CASSETTES=record
    "#]]
    .assert_eq(&format!("{error}\n"));
    assert!(error.to_string().ends_with(&drop_with_panic(model)));

    let model = CassetteModel::replay(text.parse().unwrap());
    let other = ChatRequest::new([Message::user("What is 17 plus 26?")]);
    let error = model.chat(&other).await.unwrap_err();
    expect![[r#"
        the model failed: request 1 differs from exchange 1 of the cassette:
          /messages/0/content: was "What is 17 plus 25?", now "What is 17 plus 26?"
          /tools: was [{"name":"add","description":"Adds two integers.","input_schema":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}}}}], now nothing
        if this is intended, record the cassette again with HAFT_CASSETTES=record
    "#]]
    .assert_eq(&format!("{error}\n"));
    drop(drop_with_panic(model));
}

#[tokio::test]
async fn unused_exchanges_panic_on_drop() {
    let (text, _) = record_two_requests().await;
    let model = CassetteModel::replay(text.parse().unwrap());
    model.chat(&first_request()).await.unwrap();
    assert_eq!(drop_with_panic(model), "exchange 2 of the cassette was not requested");
}

/// A panic in a spawned task does not fail the test, so `verify` must return the mismatch as an
/// error.
#[tokio::test]
async fn verify_reports_mismatches_and_prevents_the_panic() {
    let (text, _) = record_two_requests().await;
    let model = CassetteModel::replay(text.parse().unwrap());
    let worker = model.clone();
    let requests = async move {
        worker.chat(&first_request()).await.unwrap();
        worker.chat(&second_request("call_1", "43")).await.unwrap_err();
    };
    tokio::spawn(requests).await.unwrap();
    let problem = model.verify().unwrap_err().to_string();
    assert!(problem.contains(r#"/messages/2/content: was "42", now "43""#), "{problem}");
    drop(model);

    let model = CassetteModel::replay(text.parse().unwrap());
    let worker = model.clone();
    tokio::spawn(async move { worker.chat(&first_request()).await }).await.unwrap().unwrap();
    let problem = model.verify().unwrap_err();
    assert_eq!(problem.to_string(), "exchange 2 of the cassette was not requested");
    model.chat(&second_request("call_1", "42")).await.unwrap();
    assert_eq!(model.verify(), Ok(()));
    // An unrecorded request after `verify` must still cause a panic on drop.
    model.chat(&first_request()).await.unwrap_err();
    assert!(drop_with_panic(model).starts_with("request 3 is not recorded"));
    assert_eq!(CassetteModel::record(TestModel::new()).verify(), Ok(()));
}

/// A model with a fallback is recorded like any other model. If both models fail, the replayed
/// error must contain the errors of both.
#[tokio::test]
async fn fallback_model_is_recorded_and_replayed() {
    let busy = || ModelError::RateLimited { message: "wait".to_owned(), retry_after: None, permanent: false };
    let one = ScriptedModel::new().fail(busy()).fail(busy());
    let other = ScriptedModel::new().reply_chunks(["It ", "is 42."]).fail(ModelError::EmptyResponse);
    let model = CassetteModel::record(one.with_fallback(other));
    let original: Vec<_> =
        stream_events(&model, &first_request()).await.into_iter().map(Result::unwrap).collect();
    let error = model.chat(&first_request()).await.unwrap_err();

    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    let again: Vec<_> =
        stream_events(&model, &first_request()).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(again, original);
    let replayed = model.chat(&first_request()).await.unwrap_err();
    assert_eq!(format!("{replayed:?}"), format!("{error:?}"));
    assert!(matches!(replayed, ModelError::AllFailed { failures } if failures.len() == 2));
}

#[tokio::test]
async fn cassette_model_conforms() {
    let model = CassetteModel::record(TestModel::new());
    conformance::model(model.clone()).assume_deterministic().await.assert_conforms();
    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    conformance::model(model.clone()).assume_deterministic().await.assert_conforms();
    assert_eq!(model.verify(), Ok(()));
}

#[tokio::test]
async fn errors_are_replayed() {
    let cut = ModelError::Truncated { reason: "gone".to_owned(), partial: Box::new("It".into()) };
    let script = ScriptedModel::new()
        .reply_events([Ok(ChatEvent::TextDelta { text: "It".to_owned() }), Err(cut)])
        .fail(ModelError::Rejected { status: 400, body: "no".to_owned() });
    let model = CassetteModel::record(script);
    let recorded = stream_events(&model, &first_request()).await;
    model.chat(&first_request()).await.unwrap_err();

    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    let replayed = stream_events(&model, &first_request()).await;
    assert_eq!(format!("{replayed:?}"), format!("{recorded:?}"));
    let error = model.chat(&first_request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Rejected { status: 400, body } if body == "no"));
}

/// Programs react to the variant and the fields of an error, so a replay must return both.
#[tokio::test]
async fn each_kind_of_error_is_replayed() {
    let text = || "no".to_owned();
    let after = Duration::from_millis(1500);
    let failure =
        ModelFailure { model: "a".to_owned(), error: ModelError::Failed { message: text(), source: None } };
    let errors = [
        ModelError::Unauthorized(text()),
        ModelError::Rejected { status: 404, body: text() },
        ModelError::RateLimited { message: text(), retry_after: Some(after), permanent: true },
        ModelError::Server { status: None, body: text(), retry_after: None },
        ModelError::Unreachable { endpoint: text(), reason: text(), source: None },
        ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after },
        ModelError::ContextTooLong(text()),
        ModelError::Truncated { reason: text(), partial: Box::new("It".into()) },
        ModelError::EmptyResponse,
        ModelError::InvalidResponse(text()),
        ModelError::Unsupported(text()),
        ModelError::AllFailed { failures: vec![failure] },
    ];
    let expected: Vec<_> = errors.iter().map(|error| format!("{error:?}")).collect();
    let model = CassetteModel::record(errors.into_iter().fold(ScriptedModel::new(), ScriptedModel::fail));
    for _ in &expected {
        model.chat(&first_request()).await.unwrap_err();
    }
    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    for expected in expected {
        assert_eq!(format!("{:?}", model.chat(&first_request()).await.unwrap_err()), expected);
    }
}

#[test]
fn malformed_error_is_rejected() {
    let exchange = json!({"request": {}, "error": {"rejected": {"status": "many"}}});
    let text = json!({"haft_cassette": 1, "exchanges": [exchange]}).to_string();
    assert!(text.parse::<Cassette>().unwrap_err().to_string().starts_with("not a cassette: "));
}

#[tokio::test]
async fn dropped_stream_hangs_in_the_replay() {
    let model = CassetteModel::record(ScriptedModel::new().reply_chunks(["It ", "is 42."]));
    let request = first_request();
    let mut stream = model.stream(&request);
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    let mut stream = model.stream(&request);
    assert!(matches!(stream.next().await, Some(Ok(ChatEvent::TextDelta { text })) if text == "It "));
    assert!(stream.next().now_or_never().is_none());
}

#[tokio::test]
async fn redaction_covers_text_that_is_split_between_events() {
    let redact = |text: &str| text.replace("hunter2", "…").replace("/home/ada", "~");
    let request = ChatRequest::new([Message::user("Read /home/ada/secret.")]);
    let model = CassetteModel::record(ScriptedModel::new().reply_chunks(["It is hun", "ter2", "."]))
        .with_redaction(redact);
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "It is hunter2.");
    let model = CassetteModel::record(ScriptedModel::new().reply_chunks(["It is hun", "ter2", "."]))
        .with_redaction(redact);
    stream_events(&model, &request).await;
    let text = model.recorded_text().unwrap();
    assert!(!text.contains("hun") && !text.contains("ada"), "{text}");

    let model = CassetteModel::replay(text.parse().unwrap()).with_redaction(redact);
    let other = ChatRequest::new([Message::user("Read ~/secret.")]);
    assert_eq!(model.chat(&other).await.unwrap().message.text(), "It is ….");
}

#[tokio::test]
async fn auto_mode_records_new_requests_and_removes_unused_ones() {
    let (text, _) = record_two_requests().await;
    let scripted = ScriptedModel::new().reply_text("It is 43.");
    let model = CassetteModel::auto(text.parse().unwrap(), scripted.clone());
    model.chat(&first_request()).await.unwrap();
    model.chat(&second_request("call_1", "43")).await.unwrap();
    assert_eq!(scripted.requests().len(), 1);
    let text = model.recorded_text().unwrap();
    let model = CassetteModel::replay(text.parse().unwrap());
    model.chat(&first_request()).await.unwrap();
    assert_eq!(model.chat(&second_request("call_1", "43")).await.unwrap().message.text(), "It is 43.");

    let model = CassetteModel::auto(text.parse().unwrap(), ScriptedModel::new());
    model.chat(&first_request()).await.unwrap();
    model.chat(&second_request("call_1", "43")).await.unwrap();
    assert_eq!(model.recorded_text(), None);
}

#[tokio::test]
async fn only_recording_modes_create_the_model() {
    let (text, _) = record_two_requests().await;
    let none = || Err::<TestModel, _>("there is no key");
    let open = |mode, text| CassetteModel::for_mode(mode, text, none).map_err(|error| error.to_string());
    assert_eq!(
        open(CassetteMode::Replay, None).unwrap_err(),
        "there is no recording: create it with HAFT_CASSETTES=record"
    );
    assert_eq!(open(CassetteMode::Auto, Some(&text)).unwrap_err(), "cannot create the model");
    assert_eq!(open(CassetteMode::Record, None).unwrap_err(), "cannot create the model");
    let model = open(CassetteMode::Replay, Some(&text)).unwrap();
    model.chat(&first_request()).await.unwrap();
    model.chat(&second_request("call_1", "42")).await.unwrap();
    assert_eq!("Auto".parse(), Ok(CassetteMode::Auto));
    assert_eq!(
        "once".parse::<CassetteMode>().unwrap_err().to_string(),
        "unknown cassette mode \"once\": expected `replay`, `record` or `auto`"
    );
}

/// A value that is not valid Unicode must be an error like any other unknown value. If it were
/// ignored, the test would silently replay a cassette.
#[cfg(unix)]
#[test]
fn mode_of_the_environment_is_validated() {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

    let mode = |value: &[u8]| CassetteMode::from_variable(Some(OsString::from_vec(value.to_vec())));
    assert_eq!(CassetteMode::from_variable(None), Ok(CassetteMode::Replay));
    assert_eq!(mode(b""), Ok(CassetteMode::Replay));
    assert_eq!(mode(b"record"), Ok(CassetteMode::Record));
    assert_eq!(
        mode(b"record\xff").unwrap_err().to_string(),
        "unknown cassette mode \"record\u{fffd}\": expected `replay`, `record` or `auto`"
    );
}

#[test]
fn newer_version_and_invalid_order_are_rejected() {
    let newer = json!({"haft_cassette": 9, "exchanges": [{"anything": 1}]}).to_string();
    let error = newer.parse::<Cassette>().unwrap_err();
    assert!(error.to_string().starts_with("cassette format 9 is newer than 1,"), "{error}");
    let nowhere = json!({"haft_cassette": 1, "exchanges": [{"follows": 2, "request": {}}]}).to_string();
    assert_eq!(
        nowhere.parse::<Cassette>().unwrap_err().to_string(),
        "exchange 1 follows exchange 2, which is not an earlier one"
    );
    assert!("{}".parse::<Cassette>().is_err());
}

#[tokio::test]
async fn usage_and_response_id_are_replayed() {
    let response = ChatResponse {
        usage: Usage::one_request(10, 5),
        id: Some("chatcmpl-1".to_owned()),
        ..ChatResponse::new("Hello.")
    };
    let model = CassetteModel::record(ScriptedModel::new().reply(response.clone()));
    model.chat(&first_request()).await.unwrap();
    let model = CassetteModel::replay(model.recorded_text().unwrap().parse().unwrap());
    assert_eq!(model.chat(&first_request()).await.unwrap(), response);
}
