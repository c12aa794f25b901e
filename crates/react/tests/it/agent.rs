//! Tests of an agent with native tool calls, through its public API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use expect_test::expect;
use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    ChatModel, RunEvent, RunInput, Schema, ToolContext, ToolDefinition, ToolName, ToolSource, Toolset,
    agent::StopReason,
    call::FailureKind,
    export::async_trait,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool::{DynamicTool, HostState, Progress, RunContext, StateType, ToolPolicy},
    toolset::{ListContext, SourceError, ToolList},
    usage::Usage,
};
use haft_middleware::ToolRegistry;
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    pairing::{assert_paired, assert_request_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters, waiting_tool},
};

#[tokio::test]
async fn steps_and_usage_are_in_the_answer() {
    let message = AssistantMessage {
        reasoning: Some("I add them.".to_owned()),
        tool_calls: vec![haft_core::ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)],
        ..AssistantMessage::default()
    };
    let model = ScriptedModel::new()
        .reply(ChatResponse { usage: Usage::one_request(100, 10), ..ChatResponse::new(message) })
        .reply(ChatResponse { usage: Usage::one_request(120, 5), ..ChatResponse::new("It is 42.") });
    let agent = ReactAgent::new(model, calculator()).unwrap();

    let answer = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();

    assert_eq!((&*answer.text, answer.stop_reason), ("It is 42.", StopReason::Finished));
    assert_eq!(answer.usage, Usage { requests: 2, ..Usage::one_request(220, 15) });
    let [step] = &*answer.steps else { panic!("{:?}", answer.steps) };
    assert_eq!(
        (step.step_number, &*step.tool_name, &*step.tool_args),
        (1, "add", &json!({"x": 17, "y": 25}))
    );
    assert_eq!((&*step.result.model_text(), step.reasoning.as_deref()), ("42", Some("I add them.")));
    assert!(answer.transcript.messages().iter().all(|message| message.created_at().is_some()));
}

#[tokio::test]
async fn events_are_in_order() {
    let model = ScriptedModel::new().reply_calls([("call_1", "report", "{}")]).reply_text("Done.");
    let report = ToolDefinition::new(ToolName::new("report").unwrap(), Schema::object());
    let report = DynamicTool::new(report, |_, cx| async move {
        cx.report_progress(Progress { progress: 0.5, ..Progress::default() });
        "reported"
    });
    let agent = ReactAgent::new(model, Toolset::new().with_tool(report)).unwrap();

    let events: Vec<_> = agent.stream("Report.").map(|event| event_type(&event.unwrap())).collect().await;

    expect![[r#"
        request_started
        call_announced
        arguments_delta
        request_finished
        call_started
        call_progress
        call_finished
        request_started
        text_delta
        request_finished
        done"#]]
    .assert_eq(&events.join("\n"));
}

/// Returns the `type` field of the JSON form of an event.
fn event_type(event: &RunEvent) -> String {
    serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned()
}

/// The calls in a reply run in parallel. Five calls with durations of 60 to 100 ms end within 150
/// ms in total, and their results are in call order.
#[tokio::test(start_paused = true)]
async fn calls_of_a_reply_run_in_parallel_and_results_are_in_call_order() {
    let calls = [("a", 100), ("b", 80), ("c", 100), ("d", 60), ("e", 100)];
    let arguments = calls.map(|(id, millis)| (id, format!(r#"{{"millis":{millis}}}"#)));
    let model = ScriptedModel::new()
        .reply_calls(arguments.each_ref().map(|(id, arguments)| (*id, "wait", arguments.as_str())))
        .reply_text("Done.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_tool(waiting_tool())).unwrap();

    let started = Instant::now();
    let output = agent.run("Wait.").await.unwrap();

    assert!(started.elapsed() < Duration::from_millis(150), "{:?}", started.elapsed());
    let results: Vec<_> = output.results_of("wait").map(|result| result.model_text().into_owned()).collect();
    assert_eq!(results, ["100", "80", "100", "60", "100"]);
    assert_paired(&output.answer().unwrap().transcript);
}

/// Changes to a registry are visible in the next request. Here a tool registers another tool and
/// unregisters itself during its call, so the next request offers only the new tool.
#[tokio::test]
async fn registry_changes_are_visible_in_the_next_step() {
    let registry = ToolRegistry::new("plugins");
    let install = {
        let registry = registry.clone();
        tool_without_parameters("install", move || {
            let registry = registry.clone();
            async move {
                registry.register(add_tool()).map_err(|error| error.to_string())?;
                registry.unregister("install").map_err(|error| error.to_string())?;
                Ok::<_, String>("installed")
            }
        })
    };
    registry.register(install).unwrap();
    let model = ScriptedModel::new()
        .reply_calls([("call_1", "install", "{}")])
        .reply_calls([("call_2", "add", r#"{"x":17,"y":25}"#), ("call_3", "install", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_source(registry)).unwrap();

    let output = agent.run("Install, then add.").await.unwrap();

    let offered = model
        .requests()
        .iter()
        .map(|request| request.tools.names().cloned().collect::<Vec<_>>())
        .collect::<Vec<_>>();
    assert_eq!(offered, [["install"], ["add"], ["add"]]);
    let results: Vec<_> =
        output.answer().unwrap().steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(results, ["installed", "42", r#"unknown tool "install"; available: add"#]);
}

/// Calls without an id, or with the id of an earlier call, get new ids. Here the second reply has
/// one duplicate id and two empty ids.
#[tokio::test]
async fn missing_and_duplicate_call_ids_are_replaced() {
    let model = ScriptedModel::new()
        .reply_calls([("toolu_7", "add", r#"{"x":1,"y":1}"#), ("toolu_8", "add", r#"{"x":2,"y":2}"#)])
        .reply_calls([
            ("toolu_7", "add", r#"{"x":3,"y":3}"#),
            ("", "add", r#"{"x":4,"y":4}"#),
            ("", "add", r#"{"x":5,"y":5}"#),
        ])
        .reply_text("Done.");
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();

    agent.run("Add.").await.unwrap();

    let requests = model.requests();
    requests.iter().for_each(assert_request_paired);
    expect![[r#"
        user: Add.
        assistant: toolu_7 add{"x":1,"y":1}; toolu_8 add{"x":2,"y":2}
        tool: toolu_7 2
        tool: toolu_8 4
        assistant: call_3 add{"x":3,"y":3}; call_4 add{"x":4,"y":4}; call_5 add{"x":5,"y":5}
        tool: call_3 6
        tool: call_4 8
        tool: call_5 10
    "#]]
    .assert_eq(&message_lines(&requests[2]));
}

/// A run with a history continues the conversation. The requests of the second run contain the
/// messages and calls of the first run.
#[tokio::test]
async fn follow_up_question_continues_the_conversation() {
    let model = ScriptedModel::new()
        .reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)])
        .reply_text("It is 42.")
        .reply_calls([("call_1", "add", r#"{"x":42,"y":1}"#)])
        .reply_text("It is 43.");
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();

    let first = agent.run("What is 17 plus 25?").await.unwrap().into_answer().unwrap();
    let second = agent.run(RunInput::new("And one more?").with_history(first.transcript)).await.unwrap();

    expect![[r#"
        user: What is 17 plus 25?
        assistant: call_1 add{"x":17,"y":25}
        tool: call_1 42
        assistant: It is 42.
        user: And one more?
        assistant: call_2 add{"x":42,"y":1}
        tool: call_2 43
    "#]]
    .assert_eq(&message_lines(&model.requests()[3]));
    // The steps and the usage of the answer cover the second run only.
    let second = second.into_answer().unwrap();
    assert_eq!((second.steps.len(), second.steps[0].step_number, second.usage.requests), (1, 1, 2));
}

/// A call is executed with the tools that were offered in its model request. The call must succeed
/// even if the source no longer lists the tool.
#[tokio::test]
async fn call_of_a_removed_tool_uses_the_snapshot_of_its_request() {
    /// A source that lists `add` in the first step only.
    struct FirstStepOnly(ToolList);

    #[async_trait]
    impl ToolSource for FirstStepOnly {
        fn label(&self) -> &str {
            "vanishing"
        }

        async fn tools(&self, cx: &ListContext) -> Result<ToolList, SourceError> {
            Ok(if cx.step == 0 { self.0.clone() } else { ToolList::default() })
        }
    }

    let model = ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":1,"y":1}"#)]).reply_text("2");
    let source = FirstStepOnly(ToolList::new("vanishing", [add_tool()]));
    let agent = ReactAgent::new(model.clone(), Toolset::new().with_source(source)).unwrap();

    let output = agent.run("1 + 1?").await.unwrap();

    assert_eq!(output.results_of("add").next().unwrap().model_text(), "2");
    let offered: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(offered, [1, 0]);
}

#[tokio::test]
async fn dialect_depends_on_the_model_profile() {
    let dialect = |profile| {
        let model = ScriptedModel::new().with_profile(profile);
        ReactAgent::new(model, calculator()).unwrap().dialect().name()
    };
    assert_eq!(dialect(ModelProfile::new("calls")), "native");
    assert_eq!(dialect(ModelProfile { supports_native_tools: false, ..ModelProfile::new("plain") }), "json");
}

#[test]
fn agent_outside_a_runtime_is_an_error() {
    let agent = ReactAgent::new(ScriptedModel::new(), calculator()).unwrap();
    let error = futures::executor::block_on(agent.run("Hi")).unwrap_err();
    assert_eq!(error.to_string(), "an agent runs on a tokio runtime: use it inside one");
}

/// A call that reports progress in a loop must still time out. The event stream must end when the
/// run ends, although the abandoned call still reports progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_progress_does_not_delay_a_timeout() {
    let policy = ToolPolicy { timeout: Some(Duration::from_millis(50)), ..ToolPolicy::default() };
    let definition =
        ToolDefinition::new(ToolName::new("flood").unwrap(), Schema::object()).with_policy(policy);
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let flood = DynamicTool::new(definition, move |_, cx: ToolContext| {
        let stop = Arc::clone(&stop);
        async move {
            // The loop never yields to the runtime, so the call cannot be stopped and reports
            // progress even after its timeout.
            while !stop.load(Ordering::Relaxed) {
                cx.report_progress(Progress::default());
                thread::yield_now();
            }
        }
    });
    let model = ScriptedModel::new().reply_calls([("a", "flood", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(flood)).unwrap();

    let mut events = agent.stream("Go.");
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.unwrap());
    }
    over.store(true, Ordering::Relaxed);

    let Some(RunEvent::Done { output }) = last else { panic!("{last:?}") };
    let result = output.results_of("flood").next().unwrap();
    assert_eq!(result.failure().unwrap().kind, FailureKind::TimedOut);
}

/// Tools are listed before each request, including a request that follows a rejected reply. Here
/// the source lists one more tool each time.
#[tokio::test]
async fn tools_are_listed_before_each_request() {
    struct Growing(AtomicUsize);
    #[async_trait]
    impl ToolSource for Growing {
        fn label(&self) -> &str {
            "growing"
        }

        async fn tools(&self, _cx: &ListContext) -> Result<ToolList, SourceError> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(ToolList::new(
                "growing",
                (0..=number).map(|number| tool_without_parameters(&format!("tool_{number}"), || async {})),
            ))
        }
    }
    let model = ScriptedModel::new().reply_text("").reply_calls([("a", "tool_1", "{}")]).reply_text("Done.");
    let agent =
        ReactAgent::new(model.clone(), Toolset::new().with_source(Growing(AtomicUsize::new(0)))).unwrap();
    agent.run("Go.").await.unwrap();
    let offered: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(offered, [1, 2, 3]);
}

/// The host state that a tool reads must be set on the agent, or be declared with `state_per_run`
/// and set on each run. Otherwise `build` must return an error.
#[tokio::test]
async fn state_comes_from_the_agent_or_from_the_run() {
    let reads_state = |name: &str| {
        let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
        let definition = definition.with_state_type(StateType::of::<u32>());
        DynamicTool::new(definition, |_, cx: ToolContext| async move { cx.state::<u32>() })
    };
    let tools = || Toolset::new().with_tool(reads_state("number"));
    let model = || ScriptedModel::new().reply_calls([("a", "number", "{}")]).reply_text("Done.");
    let error = ReactAgent::new(ScriptedModel::new(), tools()).err().unwrap().to_string();
    assert_eq!(
        error,
        "the tool \"number\" needs state of type u32: set it with `state`, or declare with `state_per_run` that each \
         run has it"
    );

    let of_agent = ReactAgent::builder(model())
        .tools(tools())
        .state(HostState::new().with_value(1_u32))
        .build()
        .unwrap();
    let output = of_agent.run("Go.").await.unwrap();
    assert_eq!(output.results_of("number").next().unwrap().model_text(), "1");

    let of_run = ReactAgent::builder(model()).tools(tools()).state_per_run::<u32>().build().unwrap();
    let context = RunContext { state: HostState::new().with_value(2_u32), ..RunContext::default() };
    let output = of_run.run(RunInput::new("Go.").with_context(context)).await.unwrap();
    assert_eq!(output.results_of("number").next().unwrap().model_text(), "2");
}

/// A model that counts its streamed requests.
struct StreamCounter(ScriptedModel, Arc<AtomicUsize>);

#[async_trait]
impl ChatModel for StreamCounter {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.stream(request)
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

/// `ReactAgent::run` must not stream from the model, so that it works with servers whose streaming
/// is broken.
#[tokio::test]
async fn only_a_streamed_run_streams_from_the_model() {
    let streams = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().reply_text("Paris.").reply_text("Paris.");
    let agent = ReactAgent::new(StreamCounter(model, streams.clone()), Toolset::new()).unwrap();

    assert_eq!(agent.run("The capital of France?").await.unwrap().text().unwrap(), "Paris.");
    assert_eq!(streams.load(Ordering::Relaxed), 0);
    let events: Vec<_> = agent.stream("The capital of France?").map(Result::unwrap).collect().await;
    assert!(matches!(&events[1], RunEvent::TextDelta { text } if text == "Paris."), "{events:?}");
    assert_eq!(streams.load(Ordering::Relaxed), 1);
}
