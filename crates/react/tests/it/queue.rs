//! Pushed calls run later, and their results replace placeholders.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use haft_core::{
    Message, Pipeline, RunEvent, RunInput, RunOutput, ToolError, ToolExt as _, ToolOutput, ToolResult,
    Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, SuspendedRun},
    call::{Decision, Decisions, PendingKind},
    content::Content,
    limits,
    pipeline::{CallRecord, Recorder},
    tool,
    tool::{DynamicTool, HostState, RunContext, ToolPolicy},
};
use haft_react::{
    PendingQueue, QueueHandle, ReactAgent, Trajectory, Verdict,
    queue::{QueuedOutcome, QueuedResults},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, failing_tool, pushing_tool, tool_without_parameters, with_call_counter},
};

/// Creates the tool `label(text)`, which returns `text` in angle brackets.
fn label() -> DynamicTool {
    let schema =
        haft_core::Schema::for_arguments(json!({"properties": {"text": {"type": "string"}}})).unwrap();
    let name = haft_core::ToolName::new("label").unwrap();
    DynamicTool::new(haft_core::ToolDefinition::new(name, schema), |arguments, _| async move {
        format!("<{}>", arguments["text"].as_str().unwrap_or_default())
    })
}

fn tools() -> Toolset {
    calculator().with_tool(label()).with_tool(failing_tool())
}

/// Returns a copy of `queue` after a round trip through JSON.
fn reloaded(queue: &PendingQueue) -> PendingQueue {
    serde_json::from_str(&serde_json::to_string(queue).unwrap()).unwrap()
}

async fn handle(queue: &PendingQueue, tools: &Toolset) -> QueueHandle {
    queue.handle(tools, &RunContext::default()).await
}

async fn execute(queue: &mut PendingQueue, tools: &Toolset) {
    assert_eq!(queue.execute(tools, RunContext::default()).await, []);
}

#[tokio::test]
async fn results_and_failures_replace_their_placeholders() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let sum = calls.push_call("add", json!({"x": 17, "y": 25})).unwrap();
    let text = format!("{sum}, {}; again {sum}.", calls.push_call("fail", json!({})).unwrap());
    assert_eq!(
        queue.resolve_text(&text),
        "[add is not executed], [fail is not executed]; again [add is not executed]."
    );
    execute(&mut queue, &tools).await;
    assert_eq!(queue.resolve_text(&text), "42, [fail failed: no luck]; again 42.");
}

#[tokio::test]
async fn invalid_push_is_rejected() {
    let (tools, queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let error = |tool: &str, arguments| calls.push_call(tool, arguments).unwrap_err().to_string();
    expect![[r#"unknown tool "adds"; did you mean "add"? available: add, label, fail"#]]
        .assert_eq(&error("adds", json!({})));
    expect![[r#"
        invalid arguments: /: missing required property "y" (integer)
        /x: expected integer, received string "one""#]]
    .assert_eq(&error("add", json!({"x": "one"})));
    assert!(queue.results().is_empty());
}

/// The state of `RunContext` must be available both when a call is pushed and when it is executed.
#[tokio::test]
async fn tool_with_state_can_be_pushed() {
    #[derive(Clone)]
    struct Rate(u32);

    /// Converts.
    #[tool]
    fn convert(cents: u32, #[tool(state)] rate: Rate) -> u32 {
        cents * rate.0
    }

    let tools = Toolset::new().with_tool(Convert);
    let run = RunContext { state: HostState::new().with_value(Rate(2)), ..RunContext::default() };
    let mut queue = PendingQueue::new();
    let placeholder = queue.handle(&tools, &run).await.push_call("convert", json!({"cents": 21})).unwrap();
    queue.execute(&tools, run).await;
    assert_eq!(queue.resolve_text(&placeholder), "42");
}

#[tokio::test]
async fn placeholders_are_unique_and_unpredictable() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let placeholders: std::collections::HashSet<_> =
        (0..100).map(|x| calls.push_call("add", json!({"x": x, "y": 0})).unwrap()).collect();
    assert_eq!(placeholders.len(), 100);
    execute(&mut queue, &tools).await;
    for text in ["pending_", "pending_00000000000000000000000000000001", "pending_é", "a pending_0x pending_"]
    {
        assert_eq!(queue.resolve_text(text), text);
    }
}

/// A call runs after the calls whose results it needs. If an argument consists of one placeholder,
/// the placeholder must be replaced with the JSON value of the result, here a number.
#[tokio::test]
async fn result_is_an_input_of_the_next_call() {
    let (tools, queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let sum = calls.push_call("add", json!({"x": 1, "y": 2})).unwrap();
    let label = calls.push_call("label", json!({"text": format!("it is {sum}")})).unwrap();
    let twice = calls.push_call("add", json!({"x": sum, "y": sum})).unwrap();
    let failed = calls.push_call("fail", json!({})).unwrap();
    let none = calls.push_call("label", json!({"text": failed})).unwrap();
    let mut queue = reloaded(&queue);
    execute(&mut queue, &tools).await;
    assert_eq!(
        queue.resolve_text(&format!("{label} {twice} {none}")),
        "<it is 3> 6 [label failed: not run: it needs the result of fail, which failed]"
    );
}

/// Queued calls run through the pipeline of the tools: calls to a sequential tool must not overlap,
/// and each call is recorded.
#[tokio::test]
async fn queue_uses_the_pipeline() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Recorder for Log {
        fn record(&self, record: &CallRecord<'_>) {
            self.0.lock().unwrap().push(format!("{}{}", record.call.name, record.call.arguments));
        }
    }

    let log = Log::default();
    let events = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str, sequential| {
        let events = Arc::clone(&events);
        let tool = tool_without_parameters(name, move || {
            let events = Arc::clone(&events);
            async move {
                events.lock().unwrap().push(format!("{name} begins"));
                tokio::task::yield_now().await;
                events.lock().unwrap().push(format!("{name} ends"));
            }
        });
        tool.with_definition(|it| it.with_policy(ToolPolicy { sequential, ..ToolPolicy::default() }))
    };
    let tools = Toolset::new().with_tool(note("a", false)).with_tool(note("alone", true));
    let tools = tools.with_pipeline(Pipeline::new().with_recorder(log.clone()));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    for tool in ["a", "alone", "a"] {
        calls.push_call(tool, json!({})).unwrap();
    }
    execute(&mut queue, &tools).await;
    let events = events.lock().unwrap().join(", ");
    assert_eq!(events, "a begins, a ends, alone begins, alone ends, a begins, a ends");
    assert_eq!(*log.0.lock().unwrap(), ["a{}", "alone{}", "a{}"]);
}

#[tokio::test]
async fn calls_of_a_saved_queue_run_once() {
    let (add, count) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(add);
    let queue = PendingQueue::new();
    let sum = handle(&queue, &tools).await.push_call("add", json!({"x": 1, "y": 2})).unwrap();

    let mut queue = reloaded(&queue);
    execute(&mut queue, &tools).await;
    let mut queue = reloaded(&queue);
    execute(&mut queue, &tools).await;
    assert_eq!(queue.resolve_text(&sum), "3");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// Creates a tool without parameters. Its first call hangs. Later calls return "seen".
fn interrupted(name: &str) -> DynamicTool {
    let calls = AtomicUsize::new(0);
    tool_without_parameters(name, move || {
        let hangs = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            "seen"
        }
    })
}

/// After a crash, interrupted calls to idempotent tools run again. The other interrupted calls fail
/// as unconfirmed.
#[tokio::test]
async fn interrupted_calls_run_again_only_if_idempotent() {
    let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let look = interrupted("look").with_definition(|it| it.with_policy(policy));
    let tools = Toolset::new().with_tool(interrupted("add")).with_tool(look);
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let text = [calls.push_call("add", json!({})).unwrap(), calls.push_call("look", json!({})).unwrap()];
    tokio::select! {
        biased;
        _ = queue.execute(&tools, RunContext::default()) => panic!("the calls do not hang"),
        () = tokio::time::sleep(Duration::from_millis(1)) => {}
    }

    let mut queue = reloaded(&queue);
    execute(&mut queue, &tools).await;
    expect!["[add failed: unconfirmed, it may or may not have happened: the process that made the call is gone] seen"]
        .assert_eq(&queue.resolve_text(&text.join(" ")));
}

#[tokio::test]
async fn queue_is_bounded() {
    let tools = tools();
    let queue = PendingQueue::with_max_calls(2);
    let calls = handle(&queue, &tools).await;
    calls.push_call("fail", json!({})).unwrap();
    let queue = reloaded(&queue);
    let calls = handle(&queue, &tools).await;
    calls.push_call("fail", json!({})).unwrap();
    expect!["no more calls can be pushed: 2 is the maximum for one queue"]
        .assert_eq(&calls.push_call("fail", json!({})).unwrap_err().to_string());
    drop(queue);
    expect!["the queue is closed: the call would not be executed"]
        .assert_eq(&calls.push_call("fail", json!({})).unwrap_err().to_string());
}

#[tokio::test]
async fn newer_queue_format_is_rejected() {
    let error = serde_json::from_value::<PendingQueue>(json!({"version": 2})).unwrap_err();
    expect![
        "the format of this queue is not known here, only 1: read it with the version of haft that wrote it"
    ]
    .assert_eq(&error.to_string());
}

#[tokio::test]
async fn cancellation_gives_every_call_a_result() {
    let tools = tools().with_tool(tool_without_parameters("hang", std::future::pending::<()>));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let hang = calls.push_call("hang", json!({})).unwrap();
    let next = calls.push_call("label", json!({"text": hang})).unwrap();
    let run = RunContext::default();
    let token = run.cancellation.clone();
    let ((), waiting) = tokio::join!(
        async {
            tokio::task::yield_now().await;
            token.cancel();
        },
        queue.execute(&tools, run)
    );
    assert_eq!(waiting, []);
    expect!["[hang failed: cancelled] [label failed: not run: it needs the result of hang, which failed]"]
        .assert_eq(&queue.resolve_text(&format!("{hang} {next}")));
    calls.push_call("fail", json!({})).unwrap();
    queue.cancel();
    assert!(queue.results().iter().all(|(_, queued)| matches!(queued, QueuedOutcome::Executed(_))));
}

/// A cancellation also closes the calls that wait for a decision, even if no other call is ready.
#[tokio::test]
async fn cancellation_closes_a_call_that_waits_for_an_approval() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay =
        tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy));
    let tools = Toolset::new().with_tool(pay);
    let mut queue = PendingQueue::new();
    let paid = handle(&queue, &tools).await.push_call("pay", json!({})).unwrap();
    let run = RunContext::default();
    assert_eq!(queue.execute(&tools, run.clone()).await.len(), 1);
    run.cancellation.cancel();
    assert_eq!(queue.execute(&tools, run).await, []);
    assert_eq!(queue.resolve_text(&paid), "[pay failed: cancelled]");
}

#[tokio::test]
async fn queued_call_can_need_an_approval() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = Toolset::new().with_tool(add_tool().with_definition(|it| it.with_policy(policy)));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let first = calls.push_call("add", json!({"x": 1, "y": 2})).unwrap();
    let second = calls.push_call("add", json!({"x": first, "y": 2})).unwrap();
    let pending = queue.execute(&tools, RunContext::default()).await;
    assert_eq!(pending.iter().map(|it| &*it.call.id).collect::<Vec<_>>(), [&*first]);

    let mut queue = reloaded(&queue);
    assert!(queue.on_decision(&second, Decision::approved()).is_err());
    queue.on_decision(&first, Decision::approved_with_arguments(json!({"x": 10, "y": 2}))).unwrap();
    assert!(queue.on_decision(&first, Decision::approved()).is_err(), "a second decision must be rejected");
    let pending = queue.execute(&tools, RunContext::default()).await;
    let expected = PendingKind::Approval { arguments: json!({"x": 12, "y": 2}) };
    assert_eq!(pending[0].pending.kind, expected, "the approval must show the resolved arguments");
    queue.on_decision(&second, Decision::denied("no")).unwrap();
    assert_eq!(queue.execute(&tools, RunContext::default()).await, []);
    assert_eq!(queue.resolve_text(&second), "[add failed: denied: no]");
}

#[tokio::test]
async fn placeholders_are_replaced_in_all_values_and_messages() {
    let tools = Toolset::new()
        .with_tool(tool_without_parameters("three", || async { ToolOutput::structured(json!(3)) }));
    let mut queue = PendingQueue::new();
    let sum = handle(&queue, &tools).await.push_call("three", json!({})).unwrap();
    execute(&mut queue, &tools).await;
    let results = queue.results();
    assert_eq!(
        results.resolve_value(&json!({"sum": sum, "text": [format!("= {sum}")], "other": 1})),
        Some(json!({"sum": 3, "text": ["= 3"], "other": 1}))
    );
    assert_eq!(results.resolve_value(&json!(["no placeholder"])), None);
    let resolved_text = |message: Message| results.resolve_message(&message).map(|it| it.text());
    assert_eq!(resolved_text(Message::user(format!("Is it {sum}?"))).unwrap(), "Is it 3?");
    assert_eq!(resolved_text(Message::assistant(format!("It is {sum}."))).unwrap(), "It is 3.");
    assert_eq!(resolved_text(Message::user(Content::json(json!({"sum": sum})))).unwrap(), r#"{"sum":3}"#);
    let output = ToolOutput::structured(json!({"sum": sum}));
    let result = results.resolve_result(&ToolResult::done("a", "draw", output)).unwrap();
    assert_eq!(
        (&*result.model_text(), result.output().unwrap().to_value()),
        (r#"{"sum":3}"#, json!({"sum": 3}))
    );
    let failed = ToolResult::failed("a", "draw", &ToolError::failed(format!("{sum} are too many")));
    assert_eq!(results.resolve_result(&failed).unwrap().model_text(), "3 are too many");
    assert_eq!(resolved_text(Message::user("No placeholder.")), None);
}

/// A text with many placeholders of a long result must stay bounded in length after the
/// placeholders are replaced.
#[tokio::test]
async fn length_of_a_text_with_results_is_bounded() {
    let tools = Toolset::new().with_tool(tool_without_parameters("long", || async { "x".repeat(100 << 10) }));
    let mut queue = PendingQueue::new();
    let long = handle(&queue, &tools).await.push_call("long", json!({})).unwrap();
    execute(&mut queue, &tools).await;
    let text = queue.resolve_text(&long.repeat(1_000)).into_owned();
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
    assert!(text.contains("[left out: there are too many results in one text]"));
}

/// Creates the results of successful queued calls. Each item consists of the number in the
/// placeholder of a call, and the output of the call.
fn queued_results(results: impl IntoIterator<Item = (u32, ToolOutput)>) -> QueuedResults {
    let results = results.into_iter().map(|(number, output)| {
        let result = ToolResult::done(placeholder(number), "draw", output);
        (placeholder(number), serde_json::to_value(QueuedOutcome::Executed(result.into())).unwrap())
    });
    serde_json::from_value(results.collect::<serde_json::Map<_, _>>().into()).unwrap()
}

fn placeholder(number: u32) -> String {
    format!("pending_{number:032x}")
}

/// Results can contain placeholders of other results, so nesting multiplies the placeholders. The
/// length of the resolved text and the run time must still be bounded.
#[test]
fn nested_results_are_resolved_once() {
    let texts = queued_results((0..7).map(|number| match number {
        0 => (number, ToolOutput::from("x".repeat(1_000))),
        _ => (number, ToolOutput::from(placeholder(number - 1).repeat(50))),
    }));
    let text = texts.resolve_text(&placeholder(6)).into_owned();
    assert!(text.len() < 2 << 20 && !text.contains("pending_"), "{} bytes", text.len());

    let data = queued_results((0..7).map(|number| match number {
        0 => (number, ToolOutput::structured(json!("x".repeat(1_000)))),
        _ => (number, ToolOutput::structured(json!(vec![placeholder(number - 1); 50]))),
    }));
    let text = data.resolve_value(&json!(placeholder(6))).unwrap().to_string();
    assert!(text.len() < 2 << 20 && !text.contains("pending_"), "{} bytes", text.len());
    let texts = texts.resolve_value(&json!(vec![placeholder(5); 50])).unwrap().to_string();
    assert!(
        texts.contains("left out") && !texts.contains("pending_"),
        "structured data must have the same limit as text"
    );
}

/// Placeholders in a tool result are also replaced. The result text sent to the model must stay
/// within its limit, but the structured output contains the complete values.
#[test]
fn length_of_a_result_with_results_is_bounded() {
    let stored =
        ToolOutput { result_handle: Some("whole".to_owned()), ..ToolOutput::from("y".repeat(60 << 10)) };
    let results = queued_results([(0, ToolOutput::from("x".repeat(60 << 10))), (1, stored)]);
    let placeholders = json!([placeholder(0), placeholder(0), placeholder(1)]);
    let structured = ToolOutput::structured(placeholders.clone());
    let result = results.resolve_result(&ToolResult::done("a", "draw", structured)).unwrap();
    assert!(
        result.model_text().len() < limits::RESULT_TEXT_BYTES + 200,
        "{} bytes",
        result.model_text().len()
    );
    assert!(result.model_text().contains("the whole result is stored as"));
    let data = result.output().unwrap().to_value();
    assert_eq!(data.to_string().len(), 180 * 1024 + json!(["", "", ""]).to_string().len());

    let result = ToolResult::done("a", "draw", ToolOutput::from(placeholder(0).repeat(9)));
    let text = results.resolve_message(&Message::tool(result)).unwrap().text();
    assert!(text.len() < limits::RESULT_TEXT_BYTES + 1_000, "{} bytes", text.len());
    assert!(text.contains("[left out: there are too many results in one text]"));
}

/// A queued call pushes another call and returns the placeholder of the pushed call. This
/// placeholder must be replaced with the result of the pushed call.
#[tokio::test]
async fn later_results_replace_placeholders_in_earlier_results() {
    let outer = pushing_tool("outer", |calls| {
        Ok(format!("({})", calls.push_call("render", json!({"x": 1, "y": 2}))?))
    });
    let model = ScriptedModel::new().reply_calls([("a", "outer", "{}")]).reply_text("3.");
    let agent = ReactAgent::new(model.clone(), calculator().with_tool(Render).with_tool(outer)).unwrap();
    agent.run("Go.").await.unwrap();
    assert!(
        message_lines(&model.requests()[1]).contains("tool: a (Sum: 3)"),
        "{}",
        message_lines(&model.requests()[1])
    );
}

/// Renders `Sum: {x + y}` with a pushed call, as a template engine does.
#[tool]
fn render(x: i64, y: i64, #[tool(state)] calls: QueueHandle) -> Result<String, ToolError> {
    Ok(format!("Sum: {}", calls.push_call("add", json!({"x": x, "y": y}))?))
}

fn rendering(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), calculator().with_tool(Render)).unwrap()
}

#[tokio::test]
async fn model_reads_the_results_of_pushed_calls() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "render", r#"{"x":1,"y":2}"#), ("b", "render", r#"{"x":3,"y":4}"#)])
        .reply_text("3 and 7.");
    let output = rendering(&model).run("Render.").await.unwrap();
    expect![[r#"
        user: Render.
        assistant: a render{"x":1,"y":2}; b render{"x":3,"y":4}
        tool: a Sum: 3
        tool: b Sum: 7
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));

    let answer = output.into_answer().unwrap();
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(texts, ["Sum: 3", "Sum: 7"]);
    assert_eq!(Trajectory::from_transcript(&answer.transcript).steps[0].observation, "Sum: 3");
    assert_paired(&answer.transcript);
    let texts: Vec<_> = answer.transcript.messages().iter().map(|it| it.text()).collect();
    assert_eq!(texts[2..4], ["Sum: 3", "Sum: 7"]);
}

#[tokio::test]
async fn queued_calls_have_events() {
    use futures::StreamExt as _;

    let model = ScriptedModel::new().reply_calls([("a", "render", r#"{"x":1,"y":2}"#)]).reply_text("3.");
    let events: Vec<_> = rendering(&model).stream("Render.").collect().await;
    let finished = events.iter().filter_map(|event| match event {
        Ok(RunEvent::CallFinished { result }) => Some(&*result.name),
        _ => None,
    });
    assert_eq!(finished.collect::<Vec<_>>(), ["add", "render"]);
}

/// A queued call that needs approval suspends the run. The run continues after the decision.
#[tokio::test]
async fn suspended_queued_call_suspends_the_run() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = || {
        let policy = policy.clone();
        Toolset::new().with_tool(Render).with_tool(add_tool().with_definition(|it| it.with_policy(policy)))
    };
    let model = ScriptedModel::new().reply_calls([("a", "render", r#"{"x":1,"y":2}"#)]).reply_text("3.");
    let agent = ReactAgent::new(model.clone(), tools()).unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Render.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let [pushed] = suspended.undecided_calls()[..] else { panic!("{:?}", suspended.pending) };
    let id = pushed.call.id.clone();
    assert_eq!((&*suspended.pending[0].call.name, &*pushed.call.name), ("render", "add"));
    assert_eq!(pushed.pending.kind, PendingKind::Approval { arguments: json!({"x": 1, "y": 2}) });

    let other = ReactAgent::new(model.clone(), tools()).unwrap();
    let output =
        other.run(RunInput::resume(suspended, Decisions::from([(id, Decision::approved())]))).await.unwrap();
    assert_eq!(output.text().unwrap(), "3.");
    assert!(message_lines(&model.requests()[1]).contains("tool: a Sum: 3"));
}

#[tokio::test]
async fn cancelled_run_closes_its_queue() {
    use futures::StreamExt as _;

    let hang = tool_without_parameters("hang", std::future::pending::<()>);
    let push = pushing_tool("push", |calls| {
        let first = calls.push_call("hang", json!({}))?;
        let second = calls.push_call("label", json!({"text": first}))?;
        Ok(format!("{first} {second}"))
    });
    let model = ScriptedModel::new().reply_calls([("a", "push", "{}")]);
    let agent = ReactAgent::new(model, tools().with_tool(hang).with_tool(push)).unwrap();
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let mut events = agent.stream(RunInput::new("Go.").with_context(context));
    let error = loop {
        match events.next().await.unwrap() {
            Ok(RunEvent::CallStarted { call }) if call.name == "hang" => token.cancel(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
    assert_paired(&error.transcript);

    let model = ScriptedModel::new().reply_text("Fine.");
    let agent = ReactAgent::new(model.clone(), tools()).unwrap();
    agent.run(RunInput::new("Never mind.").with_history(error.transcript)).await.unwrap();
    expect![[r#"
        user: Go.
        assistant: a push{}
        tool: a [hang failed: cancelled] [label failed: not run: it needs the result of hang, which failed]
        user: Never mind.
    "#]]
    .assert_eq(&message_lines(&model.requests()[0]));
}

/// Queued calls count towards the tool call limit of the run. Calls above the limit are denied.
#[tokio::test]
async fn queued_calls_count_towards_the_limits() {
    let model = ScriptedModel::new().reply_calls([("a", "render", r#"{"x":1,"y":2}"#)]);
    let limits = RunLimits { tool_calls: Some(1), ..RunLimits::default() };
    let error = rendering(&model).run(RunInput::new("Render.").with_limits(limits)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::ToolCalls(1))));
    let result = error.transcript.messages().last().unwrap().text();
    expect!["Sum: [add failed: denied: not run: the limit of 1 tool calls is reached]"].assert_eq(&result);
}

/// Queued calls cannot push more calls without end: a tool cannot push a call to itself, also not
/// through another tool.
#[tokio::test]
async fn recursive_pushes_are_rejected() {
    let ping = pushing_tool("ping", |calls| Ok(format!("ping {}", calls.push_call("pong", json!({}))?)));
    let pong = pushing_tool("pong", |calls| Ok(format!("pong {}", calls.push_call("ping", json!({}))?)));
    let (ping, pings) = with_call_counter(&ping);
    let model = ScriptedModel::new().reply_calls([("a", "ping", "{}")]).reply_text("Enough.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(ping).with_tool(pong)).unwrap();
    let output = agent.run("Go.").await.unwrap();
    expect!["ping [pong failed: a tool cannot push a call to itself, also not through other tools]"]
        .assert_eq(&output.results_of("ping").next().unwrap().model_text());
    assert_eq!(pings.load(Ordering::Relaxed), 1);
}

/// The nesting depth of pushed calls is limited, and nested queues share one limit of calls.
#[tokio::test]
async fn nested_pushes_are_limited() {
    let names: Vec<_> = (0..12).map(|depth| format!("t{depth}")).collect();
    let tools = names.windows(2).map(|names| {
        let next = names[1].clone();
        pushing_tool(&names[0], move |calls| calls.push_call(&next, json!({})))
    });
    let tools = tools.fold(Toolset::new(), Toolset::with_tool);
    let model = ScriptedModel::new().reply_calls([("a", "t0", "{}")]).reply_text("Enough.");
    let tools = tools.with_tool(tool_without_parameters("t11", || async { "the end" }));
    let output = ReactAgent::new(model, tools).unwrap().run("Go.").await.unwrap();
    let text = output.results_of("t0").next().unwrap().model_text().into_owned();
    assert!(text.contains("pushed calls are nested at most 8 deep"), "{text}");

    let leaf = tool_without_parameters("leaf", || async { "." });
    let (leaf, leaves) = with_call_counter(&leaf);
    let push = |name: &'static str, count: usize| {
        move |calls: QueueHandle| {
            let pushed = (0..count).map(|_| calls.push_call(name, json!({}))).take_while(Result::is_ok);
            Ok(pushed.map(Result::unwrap).collect::<String>())
        }
    };
    let tools = Toolset::new()
        .with_tool(leaf)
        .with_tool(pushing_tool("many", push("leaf", limits::QUEUE_CALLS_TOTAL)))
        .with_tool(pushing_tool("root", push("many", 3)));
    let model = ScriptedModel::new().reply_calls([("a", "root", "{}")]).reply_text("Enough.");
    ReactAgent::new(model, tools).unwrap().run("Go.").await.unwrap();
    assert_eq!(leaves.load(Ordering::Relaxed), limits::QUEUE_CALLS_TOTAL - 3);
}

/// Calls that a stop tool pushes are executed before the run ends. The answer must contain the
/// results of the pushed calls, with and without an output validator.
#[tokio::test]
async fn answer_of_a_stop_tool_has_the_results_of_its_pushed_calls() {
    let call = [("a", "render", r#"{"x":17,"y":25}"#)];
    let tools = || tools().with_tool(Render);
    let plain = ReactAgent::builder(ScriptedModel::new().reply_calls(call)).tools(tools());
    let checked = ReactAgent::builder(ScriptedModel::new().reply_calls(call)).tools(tools());
    let checked = checked.output_validator(|mut output, _| async move {
        output.text += ", checked";
        Ok(Verdict::Replace(output))
    });
    for (agent, expected) in [(plain, "Sum: 42"), (checked, "Sum: 42, checked")] {
        let answer = agent.stop_on(["render", "add"]).build().unwrap().run("Draw.").await.unwrap();
        let answer = answer.into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), (expected, haft_core::agent::StopReason::Tool));
    }
}

/// Placeholders in the outputs of a stop tool must be replaced before the outputs are validated.
#[tokio::test]
async fn outputs_of_a_stop_tool_are_validated_with_results_of_pushed_calls() {
    let total = pushing_tool("total", |calls| {
        Ok(ToolOutput::structured(json!({"sum": calls.push_call("sum", json!({}))?})))
    });
    let sum = tool_without_parameters("sum", || async { ToolOutput::structured(json!(42)) });
    let model = ScriptedModel::new().reply_calls([("a", "total", "{}")]);
    let outputs = haft_core::Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
    let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(total).with_tool(sum));
    let agent = agent.stop_on(["total"]).outputs(outputs).build().unwrap();
    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs.get("sum"), Some(&json!(42)));
}
