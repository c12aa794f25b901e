//! Property tests: `run` and `stream` of an agent are equal.

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_core::{
    Agent, Pipeline, RunInput, Schema, ToolCall, ToolError, ToolExt as _, Toolset,
    agent::RunLimits,
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, FinishReason, ModelError},
    pipeline::{CallOutcome, CallRecord, Recorder},
    tool::ToolPolicy,
    usage::Usage,
};
use haft_middleware::AgentExt as _;
use haft_react::{
    Dialect, Guardrail, HandoffGroup, JsonReact, LimitAction, NativeCalls, OutputStrategy, ReactAgent,
    ReactAgentBuilder, Router, TextReact, Verdict,
    dialect::AutoDialect,
    router::{Route, RouteTable},
    run::EndStrategy,
};
use haft_testing::{Cassette, CassetteModel, ScriptedModel, TestModel, conformance};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::tools::{
    add_tool, calculator, failing_tool, panicking_tool, retrying_tool, tool_without_parameters,
};

/// A reply of a generated script.
#[derive(Clone, Debug)]
enum Reply {
    Text(&'static str),
    /// A valid answer.
    Finish,
    /// An answer that does not fit the output schema.
    BadFinish,
    /// Calls with these tools and ids. A written dialect makes only the first one.
    Calls {
        calls: Vec<(&'static str, &'static str)>,
        has_text: bool,
        has_reasoning: bool,
    },
    /// A call as text in a code block.
    WrittenCall(&'static str),
    Length,
    Refusal,
    /// The stream ends after two deltas, without an end or with this error.
    Broken(Option<fn() -> ModelError>),
    /// An error before the first event.
    Failed(fn() -> ModelError),
}

/// A script of a model, and the settings of its agent.
#[derive(Clone, Debug)]
struct Script {
    dialect: &'static str,
    replies: Vec<Reply>,
    has_output: bool,
    extracts: bool,
    requests: Option<u32>,
    tool_calls: Option<u32>,
    answers_at_limit: bool,
    is_exhaustive: bool,
    stops: bool,
    hands_off: bool,
    has_validator: bool,
    guardrail: Option<&'static str>,
}

fn server_error() -> ModelError {
    ModelError::Server { status: Some(503), body: "busy".to_owned(), retry_after: None }
}

fn rate_limited() -> ModelError {
    ModelError::RateLimited { retry_after: None, permanent: true, message: "no quota".to_owned() }
}

fn too_long() -> ModelError {
    ModelError::ContextTooLong("too long".to_owned())
}

fn invalid() -> ModelError {
    ModelError::InvalidResponse("no JSON".to_owned())
}

fn replies() -> impl Strategy<Value = Reply> {
    let tools = [
        "add",
        "fail",
        "retry",
        "panic",
        "stop",
        "pay",
        "child",
        "spender",
        "unknown",
        "finish",
        "transfer_to_other",
    ];
    let call = (select(tools.to_vec()), select(vec!["", "a", "b", "call_1", "call_2"]));
    let texts = vec!["Some text.", " Padded. \n", "", "{\"n\": 7}", "{broken", "`code`", "Answer: 1\n"];
    let errors: Vec<fn() -> ModelError> = vec![server_error, rate_limited, too_long, invalid];
    prop_oneof![
        2 => select(texts).prop_map(Reply::Text),
        2 => Just(Reply::Finish),
        1 => Just(Reply::BadFinish),
        6 => (vec(call, 1..4), any::<bool>(), any::<bool>())
            .prop_map(|(calls, has_text, has_reasoning)| Reply::Calls { calls, has_text, has_reasoning }),
        1 => select(vec!["add", "pay", "unknown"]).prop_map(Reply::WrittenCall),
        1 => select(vec![Reply::Length, Reply::Refusal]),
        1 => option::of(select(errors.clone())).prop_map(Reply::Broken),
        1 => select(errors).prop_map(Reply::Failed),
    ]
}

fn scripts() -> impl Strategy<Value = Script> {
    let dialects = select(vec!["native", "native", "json", "text", "auto"]);
    let limits = (option::of(1_u32..5), option::weighted(0.3, 0_u32..4), any::<bool>());
    let outputs = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let guardrails = vec!["rewrite", "block", "end", "input", "call", "arguments", "result"];
    let others = (any::<bool>(), any::<bool>(), option::weighted(0.3, select(guardrails)));
    (dialects, vec(replies(), 0..6), limits, outputs, others).prop_map(
        |(
            dialect,
            replies,
            (requests, tool_calls, answers_at_limit),
            outputs,
            (stops, hands_off, guardrail),
        )| {
            let (has_output, extracts, is_exhaustive, has_validator) = outputs;
            Script {
                dialect,
                replies,
                has_output,
                extracts,
                requests,
                tool_calls,
                answers_at_limit,
                is_exhaustive,
                stops,
                hands_off,
                has_validator,
                guardrail,
            }
        },
    )
}

impl Script {
    /// Returns the text of a call in the written dialects. `None` for native calls.
    fn written(&self, tool: &str, arguments: &Value) -> Option<String> {
        match self.dialect {
            "json" => Some(json!({"thought": "So.", "tool_name": tool, "tool_args": arguments}).to_string()),
            "text" => Some(format!("Thought: So.\nAction: {tool}\nArguments: {arguments}")),
            _ => None,
        }
    }

    fn finish(&self, outputs: &Value) -> AssistantMessage {
        let arguments = if self.has_output { outputs.clone() } else { json!({"answer": "Done."}) };
        match self.written("finish", &arguments) {
            Some(text) => text.into(),
            None if self.has_output => AssistantMessage {
                tool_calls: vec![ToolCall::new("", "finish", arguments)],
                ..AssistantMessage::default()
            },
            None => "Done.".into(),
        }
    }

    fn calls(&self, calls: &[(&str, &str)], number: usize) -> AssistantMessage {
        let arguments = |tool: &str| match tool {
            "add" => json!({"x": number, "y": 1}),
            "child" | "spender" => json!({"task": "Go on."}),
            "finish" if self.has_output => json!({"n": number}),
            _ => json!({}),
        };
        let written = calls.first().and_then(|(tool, _)| self.written(tool, &arguments(tool)));
        written.map_or_else(
            || {
                let calls = calls.iter().map(|(tool, id)| ToolCall::new(*id, *tool, arguments(tool)));
                AssistantMessage { tool_calls: calls.collect(), ..AssistantMessage::default() }
            },
            Into::into,
        )
    }

    /// Returns the events of reply `number`.
    fn events(&self, reply: &Reply, number: usize) -> Vec<Result<ChatEvent, ModelError>> {
        let mut finish_reason = FinishReason::Stop;
        let message = match reply {
            Reply::Text(text) => (*text).into(),
            Reply::Finish => self.finish(&json!({"n": 42})),
            Reply::BadFinish => self.finish(&json!({"n": "many"})),
            Reply::Calls { calls, has_text, has_reasoning } => {
                let mut message = self.calls(calls, number);
                if *has_text && message.content.is_empty() {
                    message.content.push(Content::from("Let me see."));
                }
                message.reasoning = has_reasoning.then(|| "I think.".to_owned());
                message
            }
            Reply::WrittenCall(tool) => {
                let call = json!({"name": tool, "arguments": {"x": 1, "y": number}});
                format!("```json\n{call}\n```").into()
            }
            Reply::Length => {
                finish_reason = FinishReason::Length;
                "Much".into()
            }
            Reply::Refusal => {
                AssistantMessage { refusal: Some("I will not.".to_owned()), ..AssistantMessage::default() }
            }
            Reply::Broken(error) => {
                let deltas =
                    ["Half ", "a reply"].map(|text| Ok(ChatEvent::TextDelta { text: text.to_owned() }));
                return deltas.into_iter().chain(error.map(|error| Err(error()))).collect();
            }
            Reply::Failed(error) => return vec![Err(error())],
        };
        let usage = Usage::one_request(10 + u64::try_from(number).unwrap(), 3);
        let response = ChatResponse { usage, finish_reason, ..ChatResponse::new(message) };
        response.into_events().flat_map(in_pieces).map(Ok).collect()
    }

    /// Creates the model of the script. After the script, it gives valid answers.
    fn model(&self) -> ScriptedModel {
        let answers = std::iter::repeat_n(&Reply::Finish, 30);
        let replies = self.replies.iter().chain(answers).enumerate();
        replies.fold(ScriptedModel::new(), |model, (number, reply)| {
            model.reply_events(self.events(reply, number))
        })
    }

    /// Creates an agent with `model`.
    fn agent(&self, model: &ScriptedModel, records: &Records) -> ReactAgent {
        let dialect: Arc<dyn Dialect> = match self.dialect {
            "native" => Arc::new(NativeCalls),
            "auto" => Arc::new(AutoDialect::new()),
            "json" => Arc::new(JsonReact::new()),
            _ => Arc::new(TextReact),
        };
        let limits = RunLimits {
            requests: self.requests.or(Some(12)),
            tool_calls: self.tool_calls,
            ..RunLimits::default()
        };
        let action = if self.answers_at_limit { LimitAction::Answer } else { LimitAction::Fail };
        let end = if self.is_exhaustive { EndStrategy::Exhaustive } else { EndStrategy::Early };
        let tools = toolset().with_pipeline(Pipeline::new().with_recorder(records.clone()));
        let mut builder = ReactAgent::builder(model.clone()).tools(tools).dialect(dialect).limits(limits);
        builder = builder.limit_action(action).end_strategy(end);
        if self.has_output {
            let schema =
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
            builder = builder.outputs(Schema::new(schema).unwrap());
            if self.extracts {
                builder = builder.output_strategy(OutputStrategy::Extraction);
            }
        }
        if self.has_validator {
            let rejections = AtomicUsize::new(0);
            builder = builder.output_validator(move |_, _| {
                let is_first = rejections.fetch_add(1, Ordering::Relaxed) == 0;
                ready(if is_first { Ok(Verdict::retry("Once more.")) } else { Ok(Verdict::Pass) })
            });
        }
        let guardrail = self.guardrail.map(guardrail);
        guardrail.into_iter().fold(builder, ReactAgentBuilder::guardrail).build().unwrap()
    }
}

/// Splits a delta into pieces of three characters.
fn in_pieces(event: ChatEvent) -> Vec<ChatEvent> {
    let pieces = |text: &str| {
        let chars: Vec<_> = text.chars().collect();
        chars.chunks(3).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>()
    };
    match event {
        ChatEvent::TextDelta { text } => {
            pieces(&text).into_iter().map(|text| ChatEvent::TextDelta { text }).collect()
        }
        ChatEvent::ToolCallDelta { index, arguments } => {
            let pieces = pieces(&arguments).into_iter();
            pieces.map(|arguments| ChatEvent::ToolCallDelta { index, arguments }).collect()
        }
        other => vec![other],
    }
}

fn guardrail(name: &str) -> Guardrail {
    match name {
        "rewrite" => Guardrail::answer("polite", |mut output, _| async move {
            output.text.push_str(" Please.");
            Ok(Verdict::Replace(output))
        }),
        "block" => Guardrail::answer("closed", |_, _| async { Ok(Verdict::block("Blocked.")) }),
        "end" => Guardrail::answer("strict", |_, _| async { Ok(Verdict::end("ended")) }),
        "input" => Guardrail::input("input", |_, _| async { Ok(Verdict::Pass) }),
        "call" => Guardrail::call("calls", |_, _| async { Ok(Verdict::block("Not this call.")) }),
        "arguments" => Guardrail::call("limit", |mut call, _| {
            let is_sum = call.arguments.get("x").is_some();
            call.arguments["x"] = 7.into();
            ready(Ok(if is_sum { Verdict::Replace(call.arguments) } else { Verdict::Pass }))
        }),
        _ => Guardrail::result("results", |result, _| async move {
            Ok(if result.is_success() { Verdict::Replace("Redacted.".into()) } else { Verdict::Pass })
        }),
    }
}

/// Creates tools that succeed, fail, panic, stop the run, or need an approval. `child` is an agent,
/// and `spender` is an agent whose call needs an approval.
fn toolset() -> Toolset {
    let approval = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay = || {
        let approval = approval.clone();
        tool_without_parameters("pay", || async { Ok::<_, ToolError>("paid") })
            .with_definition(|it| it.with_policy(approval))
    };
    let child = |tools: Toolset, name: &str| {
        let model = TestModel::new().with_answer("Child.");
        ReactAgent::new(model, tools).unwrap().into_tool(name, "Works on a task.")
    };
    Toolset::new()
        .with_tool(add_tool())
        .with_tool(panicking_tool())
        .with_tool(failing_tool())
        .with_tool(retrying_tool())
        .with_tool(tool_without_parameters("stop", || async { "stopped" }))
        .with_tool(child(calculator(), "child"))
        .with_tool(child(Toolset::new().with_tool(pay()), "spender"))
        .with_tool(pay())
}

/// The records of calls, as JSON.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<Value>>>);

impl Recorder for Records {
    fn record(&self, record: &CallRecord<'_>) {
        let outcome = match record.outcome {
            CallOutcome::Finished(result) => json!(result),
            CallOutcome::Pending(pending) => json!(pending),
        };
        let record = json!({"call": record.call, "arguments": record.arguments(), "outcome": outcome});
        self.0.lock().unwrap().push(record);
    }
}

fn request_json(request: &ChatRequest) -> Value {
    json!({
        "instructions": request.instructions,
        "messages": request.messages.iter().collect::<Vec<_>>(),
        "tools": request.tools.names().map(ToString::to_string).collect::<Vec<_>>(),
        "choice": request.tool_choice,
        "format": format!("{:?}", request.response_format),
        "settings": request.settings,
    })
}

async fn assert_equal(script: Script) {
    let records = Records::default();
    let model = Arc::new(Mutex::new(ScriptedModel::new()));
    let stops = script.stops;
    let (latest, recorder) = (Arc::clone(&model), records.clone());
    let agent = move || -> Arc<dyn Agent> {
        let model = script.model();
        // A run uses only a part of the script, and dropping the last clone would panic.
        std::mem::forget(model.clone());
        let agent = || script.agent(&model, &recorder);
        latest.lock().unwrap().clone_from(&model);
        if !script.hands_off {
            return Arc::new(agent());
        }
        let table = RouteTable::new([Route::new("one", "One."), Route::new("other", "Other.")]);
        Arc::new(HandoffGroup::new(table, [("one", agent()), ("other", agent())]).unwrap())
    };
    let input = move || {
        let input = RunInput::new("Go.");
        if stops { input.with_stop_on(["stop"]) } else { input }
    };
    conformance::run_and_stream(agent)
        .input(input)
        .observe("requests", move || {
            let requests = model.lock().unwrap().requests();
            requests.iter().map(request_json).collect::<Vec<_>>()
        })
        .observe("records", move || std::mem::take(&mut *records.0.lock().unwrap()))
        .await
        .assert_conforms();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// `run` and `stream` have equal transcripts, usage, outputs, errors, requests and records, and
    /// the events are in the order of the transcript.
    #[test]
    fn streamed_and_whole_runs_are_equal(script in scripts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(assert_equal(script));
    }
}

/// A cassette of whole replies and a cassette of streams replay equally.
#[tokio::test]
async fn replayed_runs_are_equal() {
    for streams in [false, true] {
        let model = ScriptedModel::new()
            .reply_calls([("a", "add", r#"{"x":1,"y":2}"#)])
            .reply_chunks(["It ", "is 3."]);
        let recorder = CassetteModel::record(model);
        let agent = ReactAgent::new(recorder.clone(), calculator()).unwrap();
        if streams {
            futures::StreamExt::count(agent.stream("Hello.")).await;
        } else {
            agent.run("Hello.").await.unwrap();
        }
        let cassette: Cassette = recorder.recorded_text().unwrap().parse().unwrap();
        let replay = move || ReactAgent::new(CassetteModel::replay(cassette.clone()), calculator()).unwrap();
        conformance::run_and_stream(replay).await.assert_conforms();
    }
}

/// A model that calls every tool, in each dialect and behind a router.
#[tokio::test]
async fn runs_of_test_models_and_routers_are_equal() {
    let dialects: [Arc<dyn Dialect>; 3] =
        [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(AutoDialect::new())];
    for dialect in dialects {
        let agent = move || {
            let tools = calculator().with_tool(failing_tool());
            ReactAgent::builder(TestModel::new()).tools(tools).dialect(Arc::clone(&dialect)).build().unwrap()
        };
        conformance::run_and_stream(agent).await.assert_conforms();
    }
    let router = || {
        let table = RouteTable::new([Route::new("only", "everything").with_keywords(["hello"])]);
        let model = ScriptedModel::new().reply_chunks(["It ", "is me."]);
        Router::new(table, [("only", ReactAgent::new(model, calculator()).unwrap())]).unwrap()
    };
    conformance::run_and_stream(router).await.assert_conforms();
}

/// A call that a guardrail blocks ends before an earlier call that no guardrail checks, such as a
/// call of an unknown tool.
#[tokio::test]
async fn runs_with_a_blocked_call_are_equal() {
    let agent = || {
        let model = ScriptedModel::new()
            .reply_calls([("a", "unknown", "{}"), ("b", "add", r#"{"x":1,"y":2}"#)])
            .reply_text("Blocked.");
        ReactAgent::builder(model).tools(calculator()).guardrail(guardrail("call")).build().unwrap()
    };
    conformance::run_and_stream(agent).await.assert_conforms();
}

/// A scripted stream that ends early is a truncated reply for `run` as well, so that the request is
/// repeated.
#[tokio::test]
async fn broken_scripted_stream_is_truncated_for_both() {
    for error in [None, Some(server_error())] {
        let agent = move || {
            let delta = Ok(ChatEvent::TextDelta { text: "Half ".to_owned() });
            let error = error.is_some().then(|| Err(server_error()));
            let model =
                ScriptedModel::new().reply_events([delta].into_iter().chain(error)).reply_text("Whole.");
            ReactAgent::new(model, calculator()).unwrap()
        };
        assert_eq!(agent().run("Go.").await.unwrap().text().unwrap(), "Whole.");
        conformance::run_and_stream(agent).await.assert_conforms();
    }
}
