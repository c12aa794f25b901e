//! Behaviour D37: calls from code that cannot wait, with their results in the places of what stood for them.

use std::sync::{Arc, Mutex};

use expect_test::expect;
use haft_core::{
    Message, Pipeline, RunEvent, RunInput, RunOutput, Tool as _, ToolError, ToolExt as _, ToolOutput,
    ToolResult, Toolset, Transcript,
    agent::{AgentErrorKind, Limit, RunLimits, SuspendedRun},
    call::{Decision, Decisions, FailureKind, PendingKind},
    content::Content,
    limits,
    message::{AssistantMessage, MessageBody},
    pipeline::{CallRecord, Recorder},
    tool,
    tool::{DynamicTool, RunContext, State, ToolPolicy},
};
use haft_react::{
    PendingQueue, QueueHandle, ReactAgent, Trajectory,
    queue::{Queued, QueuedResults},
    run::is_hint,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, lines},
    tools::{add, calculator, counted, fails, plain},
};

/// `label(text)`: gives it in brackets.
fn label() -> DynamicTool {
    let schema = haft_core::Schema::arguments(json!({"properties": {"text": {"type": "string"}}})).unwrap();
    let name = haft_core::ToolName::new("label").unwrap();
    DynamicTool::new(haft_core::ToolDefinition::new(name, schema), |arguments, _| async move {
        format!("<{}>", arguments["text"].as_str().unwrap_or_default())
    })
}

fn tools() -> Toolset {
    calculator().with(label()).with(fails())
}

/// A queue after a trip through JSON, as to another process.
fn saved(queue: &PendingQueue) -> PendingQueue {
    serde_json::from_str(&serde_json::to_string(queue).unwrap()).unwrap()
}

async fn handle(queue: &PendingQueue, tools: &Toolset) -> QueueHandle {
    queue.handle(tools, &RunContext::default()).await
}

async fn execute(queue: &mut PendingQueue, tools: &Toolset) {
    assert_eq!(queue.execute(tools, RunContext::default()).await, []);
}

#[tokio::test]
async fn results_and_failures_come_into_their_places() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let sum = calls.push("add", json!({"x": 17, "y": 25})).unwrap();
    let text = format!("{sum}, {}; again {sum}.", calls.push("fail", json!({})).unwrap());
    assert_eq!(
        queue.show(&text),
        "[add is not executed], [fail is not executed]; again [add is not executed]."
    );
    execute(&mut queue, &tools).await;
    assert_eq!(queue.show(&text), "42, [fail failed: no luck]; again 42.");
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_once() {
    let (tools, queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let error = |tool: &str, arguments| calls.push(tool, arguments).unwrap_err().to_string();
    expect![[r#"unknown tool "adds"; did you mean "add"? available: add, label, fail"#]]
        .assert_eq(&error("adds", json!({})));
    expect![[r#"
        invalid arguments: /: missing required property "y" (integer)
        /x: expected integer, received string "one""#]]
    .assert_eq(&error("add", json!({"x": "one"})));
    assert!(queue.results().is_empty());
}

/// What a tool needs of the program is there when its call is pushed as when it is made.
#[tokio::test]
async fn a_tool_with_state_can_be_pushed() {
    #[derive(Clone)]
    struct Rate(u32);

    /// Converts.
    #[tool]
    fn convert(cents: u32, #[tool(state)] rate: Rate) -> u32 {
        cents * rate.0
    }

    let tools = Toolset::new().with(Convert);
    let run = RunContext { state: State::new().with(Rate(2)), ..RunContext::default() };
    let mut queue = PendingQueue::new();
    let place = queue.handle(&tools, &run).await.push("convert", json!({"cents": 21})).unwrap();
    queue.execute(&tools, run).await;
    assert_eq!(queue.show(&place), "42");
}

#[tokio::test]
async fn nobody_guesses_a_placeholder() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let places: std::collections::HashSet<_> =
        (0..100).map(|x| calls.push("add", json!({"x": x, "y": 0})).unwrap()).collect();
    assert_eq!(places.len(), 100);
    execute(&mut queue, &tools).await;
    for text in ["pending_", "pending_00000000000000000000000000000001", "pending_é", "a pending_0x pending_"]
    {
        assert_eq!(queue.show(text), text);
    }
}

/// A call comes after those whose results it needs, and takes them as what they are.
#[tokio::test]
async fn a_result_goes_into_the_next_call() {
    let (tools, queue) = (tools(), PendingQueue::new());
    let calls = handle(&queue, &tools).await;
    let sum = calls.push("add", json!({"x": 1, "y": 2})).unwrap();
    let label = calls.push("label", json!({"text": format!("it is {sum}")})).unwrap();
    let twice = calls.push("add", json!({"x": sum, "y": sum})).unwrap();
    let failed = calls.push("fail", json!({})).unwrap();
    let none = calls.push("label", json!({"text": failed})).unwrap();
    let mut queue = saved(&queue);
    execute(&mut queue, &tools).await;
    assert_eq!(
        queue.show(&format!("{label} {twice} {none}")),
        "<it is 3> 6 [label failed: not run: it needs the result of fail, which failed]"
    );
}

/// A sequential tool runs alone there too, and each call is on record.
#[tokio::test]
async fn the_queue_goes_through_the_pipeline() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Recorder for Log {
        fn record(&self, record: &CallRecord<'_>) {
            self.0.lock().unwrap().push(format!("{}{}", record.call.name, record.call.arguments));
        }
    }

    let log = Log::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str, sequential| {
        let seen = Arc::clone(&seen);
        let noting = plain(name, move || {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(format!("{name} begins"));
                tokio::task::yield_now().await;
                seen.lock().unwrap().push(format!("{name} ends"));
            }
        });
        noting.with_definition(|it| it.with_policy(ToolPolicy { sequential, ..ToolPolicy::default() }))
    };
    let tools = Toolset::new().with(note("a", false)).with(note("alone", true));
    let tools = tools.with_pipeline(Pipeline::new().with_recorder(log.clone()));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    for tool in ["a", "alone", "a"] {
        calls.push(tool, json!({})).unwrap();
    }
    execute(&mut queue, &tools).await;
    let seen = seen.lock().unwrap().join(", ");
    assert_eq!(seen, "a begins, a ends, alone begins, alone ends, a begins, a ends");
    assert_eq!(*log.0.lock().unwrap(), ["a{}", "alone{}", "a{}"]);
}

#[tokio::test]
async fn a_queue_is_executed_once() {
    let (add, count) = counted(&add());
    let tools = Toolset::new().with(add);
    let queue = PendingQueue::new();
    let sum = handle(&queue, &tools).await.push("add", json!({"x": 1, "y": 2})).unwrap();

    let mut queue = saved(&queue);
    execute(&mut queue, &tools).await;
    let mut queue = saved(&queue);
    execute(&mut queue, &tools).await;
    assert_eq!(queue.show(&sum), "3");
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// What was under way when the process was lost goes again where that does no harm; of the rest nobody knows.
#[tokio::test]
async fn what_was_handed_out_is_not_made_again() {
    let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let look = plain("look", || async { "seen" }).with_definition(|it| it.with_policy(policy));
    let tools = calculator().with(look);
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let text = [calls.push("add", json!({"x": 1, "y": 2})).unwrap(), calls.push("look", json!({})).unwrap()];
    let list = tools.list(&Default::default()).await;
    assert_eq!(queue.hand_out(&list).unwrap().calls.len(), 2);
    assert_eq!(queue.hand_out(&list), None);

    let mut queue = saved(&queue);
    execute(&mut queue, &tools).await;
    expect!["[add failed: unconfirmed, it may or may not have happened: the process that made the call is gone] seen"]
        .assert_eq(&queue.show(&text.join(" ")));
}

#[tokio::test]
async fn a_queue_is_bounded() {
    let tools = tools();
    let queue = PendingQueue::with_capacity(2);
    let calls = handle(&queue, &tools).await;
    calls.push("fail", json!({})).unwrap();
    let queue = saved(&queue);
    let calls = handle(&queue, &tools).await;
    calls.push("fail", json!({})).unwrap();
    expect!["no more calls can be pushed: 1 are the most for one queue"]
        .assert_eq(&calls.push("fail", json!({})).unwrap_err().to_string());
    drop(queue);
    expect!["the queue is closed: nobody would execute what is pushed now"]
        .assert_eq(&calls.push("fail", json!({})).unwrap_err().to_string());
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let error = serde_json::from_value::<PendingQueue>(json!({"version": 2})).unwrap_err();
    expect![
        "the format of this queue is not known here, only 1: read it with the version of haft that wrote it"
    ]
    .assert_eq(&error.to_string());
}

#[tokio::test]
async fn cancelled_every_call_has_a_result() {
    let tools = tools().with(plain("hang", std::future::pending::<()>));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let hang = calls.push("hang", json!({})).unwrap();
    let next = calls.push("label", json!({"text": hang})).unwrap();
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
        .assert_eq(&queue.show(&format!("{hang} {next}")));
    calls.push("fail", json!({})).unwrap();
    queue.cancel();
    assert!(queue.results().iter().all(|(_, queued)| matches!(queued, Queued::Executed(_))));
}

#[tokio::test]
async fn a_queue_waits_for_an_approval() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = Toolset::new().with(add().with_definition(|it| it.with_policy(policy)));
    let mut queue = PendingQueue::new();
    let calls = handle(&queue, &tools).await;
    let one = calls.push("add", json!({"x": 1, "y": 2})).unwrap();
    let two = calls.push("add", json!({"x": one, "y": 2})).unwrap();
    let pending = queue.execute(&tools, RunContext::default()).await;
    assert_eq!(pending.iter().map(|it| &*it.call.id).collect::<Vec<_>>(), [&*one]);

    let mut queue = saved(&queue);
    assert!(queue.on_decision(&two, Decision::approved()).is_err());
    queue.on_decision(&one, Decision::approved_with(json!({"x": 10, "y": 2}))).unwrap();
    assert!(queue.on_decision(&one, Decision::approved()).is_err(), "an answer twice");
    let pending = queue.execute(&tools, RunContext::default()).await;
    let shown = PendingKind::Approval { arguments: json!({"x": 12, "y": 2}) };
    assert_eq!(pending[0].pending.kind, shown, "the approval shows what will run");
    queue.on_decision(&two, Decision::denied("no")).unwrap();
    assert_eq!(queue.execute(&tools, RunContext::default()).await, []);
    assert_eq!(queue.show(&two), "[add failed: denied: no]");
}

#[tokio::test]
async fn results_are_shown_wherever_their_places_are() {
    let tools = Toolset::new().with(plain("three", || async { ToolOutput::structured(json!(3)) }));
    let mut queue = PendingQueue::new();
    let sum = handle(&queue, &tools).await.push("three", json!({})).unwrap();
    execute(&mut queue, &tools).await;
    let results = queue.results();
    assert_eq!(
        results.in_value(&json!({"sum": sum, "text": [format!("= {sum}")], "other": 1})),
        Some(json!({"sum": 3, "text": ["= 3"], "other": 1}))
    );
    assert_eq!(results.in_value(&json!(["no place"])), None);
    let shown = |message: Message| results.in_message(&message).map(|it| it.text());
    assert_eq!(shown(Message::user(format!("Is it {sum}?"))).unwrap(), "Is it 3?");
    assert_eq!(shown(Message::assistant(format!("It is {sum}."))).unwrap(), "It is 3.");
    assert_eq!(shown(Message::user(Content::json(json!({"sum": sum})))).unwrap(), r#"{"sum":3}"#);
    let output = ToolOutput::structured(json!({"sum": sum}));
    let result = results.in_result(&ToolResult::done("a", "draw", output)).unwrap();
    assert_eq!(
        (&*result.model_text(), result.output().unwrap().to_value()),
        (r#"{"sum":3}"#, json!({"sum": 3}))
    );
    let failed = ToolResult::failed("a", "draw", &ToolError::failed(format!("{sum} are too many")));
    assert_eq!(results.in_result(&failed).unwrap().model_text(), "3 are too many");
    assert_eq!(shown(Message::user("No place.")), None);
}

/// However often a long result stands in a text, the text is bounded.
#[tokio::test]
async fn a_text_is_not_filled_without_end() {
    let tools = Toolset::new().with(plain("long", || async { "x".repeat(100 << 10) }));
    let mut queue = PendingQueue::new();
    let long = handle(&queue, &tools).await.push("long", json!({})).unwrap();
    execute(&mut queue, &tools).await;
    let text = queue.show(&long.repeat(1_000)).into_owned();
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
    assert!(text.contains("[left out: there are too many results in one text]"));
}

/// `results` of calls that went well, by the numbers in their placeholders.
fn known(results: impl IntoIterator<Item = (u32, ToolOutput)>) -> QueuedResults {
    let results = results.into_iter().map(|(number, output)| {
        let result = ToolResult::done(place(number), "draw", output);
        (place(number), serde_json::to_value(Queued::Executed(result.into())).unwrap())
    });
    serde_json::from_value(results.collect::<serde_json::Map<_, _>>().into()).unwrap()
}

fn place(number: u32) -> String {
    format!("pending_{number:032x}")
}

/// Results within results within results: what is put in is bounded, and so is the work.
#[test]
fn results_that_hold_one_another_are_filled_once() {
    let texts = known((0..7).map(|number| match number {
        0 => (number, ToolOutput::from("x".repeat(1_000))),
        _ => (number, ToolOutput::from(place(number - 1).repeat(50))),
    }));
    let text = texts.in_text(&place(6)).into_owned();
    assert!(text.len() < 2 << 20 && !text.contains("pending_"), "{} bytes", text.len());

    let data = known((0..7).map(|number| match number {
        0 => (number, ToolOutput::structured(json!("x".repeat(1_000)))),
        _ => (number, ToolOutput::structured(json!(vec![place(number - 1); 50]))),
    }));
    let text = data.in_value(&json!(place(6))).unwrap().to_string();
    assert!(text.len() < 2 << 20 && !text.contains("pending_"), "{} bytes", text.len());
    let texts = texts.in_value(&json!(vec![place(5); 50])).unwrap().to_string();
    assert!(texts.contains("left out") && !texts.contains("pending_"), "data is told as text is");
}

/// A model reads no more of the results within one result than of a result; programs have the data.
#[test]
fn a_result_with_results_in_it_is_bounded_too() {
    let stored = ToolOutput { stored: Some("whole".to_owned()), ..ToolOutput::from("y".repeat(60 << 10)) };
    let results = known([(0, ToolOutput::from("x".repeat(60 << 10))), (1, stored)]);
    let places = json!([place(0), place(0), place(1)]);
    let structured = ToolOutput::structured(places.clone());
    let result = results.in_result(&ToolResult::done("a", "draw", structured)).unwrap();
    assert!(result.model_text().len() < limits::RESULT_BYTES + 200, "{} bytes", result.model_text().len());
    assert!(result.model_text().contains("the whole result is stored as"));
    let data = result.output().unwrap().to_value();
    assert_eq!(data.to_string().len(), 180 * 1024 + json!(["", "", ""]).to_string().len());

    let said = ToolResult::done("a", "draw", ToolOutput::from(place(0).repeat(9)));
    let shown = results.in_message(&Message::tool(said)).unwrap().text();
    assert!(shown.len() < limits::RESULT_BYTES + 1_000, "{} bytes", shown.len());
    assert!(shown.contains("[left out: there are too many results in one text]"));
}

/// A call of the queue pushes in its turn: what was shown of its place is not the last word.
#[tokio::test]
async fn results_that_come_later_are_shown_too() {
    let outer = DynamicTool::new(plain("outer", || async {}).definition().clone(), |_, cx| async move {
        let place = cx.state::<QueueHandle>()?.push("render", json!({"x": 1, "y": 2}))?;
        Ok::<_, ToolError>(format!("({place})"))
    });
    let model = ScriptedModel::new().calls([("a", "outer", "{}")]).text("3.");
    let agent = ReactAgent::new(model.clone(), calculator().with(Render).with(outer)).unwrap();
    agent.run("Go.").await.unwrap();
    assert!(lines(&model.requests()[1]).contains("tool: a (Sum: 3)"), "{}", lines(&model.requests()[1]));
}

/// A program tells a conversation of the results: the next run shows them, also in what was said before.
#[tokio::test]
async fn a_conversation_is_told() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let sum = handle(&queue, &tools).await.push("add", json!({"x": 1, "y": 2})).unwrap();
    let mut transcript: Transcript =
        [Message::user(format!("One and two is {sum}.")), Message::assistant("So it is.")]
            .into_iter()
            .collect();
    execute(&mut queue, &tools).await;
    transcript.push(queue.note().unwrap());
    let before = transcript.clone();

    let model = ScriptedModel::new().text("Three.");
    let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
    let output = agent.run(RunInput::new("What is it?").with_history(transcript)).await.unwrap();
    expect![[r#"
        user: One and two is 3.
        assistant: So it is.
        user: What is it?
    "#]]
    .assert_eq(&lines(&model.requests()[0]));
    let after = output.answer().unwrap().transcript.clone();
    assert!(after.messages().starts_with(before.messages()), "the transcript is append-only");
}

/// Renders `Sum: {x + y}`, as a template engine does, with a call that it cannot wait for.
#[tool]
fn render(x: i64, y: i64, #[tool(state)] calls: QueueHandle) -> Result<String, ToolError> {
    Ok(format!("Sum: {}", calls.push("add", json!({"x": x, "y": y}))?))
}

fn rendering(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::new(model.clone(), calculator().with(Render)).unwrap()
}

#[tokio::test]
async fn a_model_reads_the_results_of_what_its_tool_has_pushed() {
    let model = ScriptedModel::new()
        .calls([("a", "render", r#"{"x":1,"y":2}"#), ("b", "render", r#"{"x":3,"y":4}"#)])
        .text("3 and 7.");
    let output = rendering(&model).run("Render.").await.unwrap();
    expect![[r#"
        user: Render.
        assistant: a render{"x":1,"y":2}; b render{"x":3,"y":4}
        tool: a Sum: 3
        tool: b Sum: 7
    "#]]
    .assert_eq(&lines(&model.requests()[1]));

    let answer = output.into_answer().unwrap();
    let told: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(told, ["Sum: 3", "Sum: 7"]);
    assert_eq!(Trajectory::of(&answer.transcript).steps[0].observation, "Sum: 3");
    assert_paired(&answer.transcript);
    let texts: Vec<_> = answer.transcript.messages().iter().map(|it| it.text()).collect();
    assert!(texts[2].starts_with("Sum: pending_"), "nothing is rewritten: {texts:?}");
    let told = QueuedResults::of(&answer.transcript);
    assert_eq!(told.iter().count(), 2);

    // The next run shows them too.
    let model = ScriptedModel::new().text("Yes.");
    rendering(&model).run(RunInput::new("Really?").with_history(answer.transcript)).await.unwrap();
    assert!(lines(&model.requests()[0]).contains("tool: b Sum: 7"));
}

/// Whoever watches sees the calls too.
#[tokio::test]
async fn the_calls_of_a_queue_are_events() {
    use futures::StreamExt as _;

    let model = ScriptedModel::new().calls([("a", "render", r#"{"x":1,"y":2}"#)]).text("3.");
    let events: Vec<_> = rendering(&model).stream("Render.").collect().await;
    let finished = events.iter().filter_map(|event| match event {
        Ok(RunEvent::CallFinished { result }) => Some(&*result.name),
        _ => None,
    });
    assert_eq!(finished.collect::<Vec<_>>(), ["render", "add"]);
}

/// A call of the queue that waits parks the run, and the answer goes on from there.
#[tokio::test]
async fn a_queue_parks_its_run() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = || {
        let policy = policy.clone();
        Toolset::new().with(Render).with(add().with_definition(|it| it.with_policy(policy)))
    };
    let model = ScriptedModel::new().calls([("a", "render", r#"{"x":1,"y":2}"#)]).text("3.");
    let agent = ReactAgent::new(model.clone(), tools()).unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Render.").await.unwrap() else { panic!("it waits") };
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let id = suspended.pending[0].call.id.clone();
    assert_eq!(suspended.pending[0].call.name, "add");

    let other = ReactAgent::new(model.clone(), tools()).unwrap();
    let output =
        other.run(RunInput::resume(suspended, Decisions::from([(id, Decision::approved())]))).await.unwrap();
    assert_eq!(output.text().unwrap(), "3.");
    assert!(lines(&model.requests()[1]).contains("tool: a Sum: 3"));
}

#[tokio::test]
async fn cancelled_a_run_closes_its_queue() {
    use futures::StreamExt as _;

    let hang = plain("hang", std::future::pending::<()>);
    let push = DynamicTool::new(plain("push", || async {}).definition().clone(), |_, cx| async move {
        let calls = cx.state::<QueueHandle>()?;
        let first = calls.push("hang", json!({}))?;
        let second = calls.push("label", json!({"text": first}))?;
        Ok::<_, ToolError>(format!("{first} {second}"))
    });
    let model = ScriptedModel::new().calls([("a", "push", "{}")]);
    let agent =
        ReactAgent::builder(model).tools(tools().with(hang).with(push)).pending_queue().build().unwrap();
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

    let model = ScriptedModel::new().text("Fine.");
    let agent = ReactAgent::new(model.clone(), tools()).unwrap();
    agent.run(RunInput::new("Never mind.").with_history(error.transcript)).await.unwrap();
    expect![[r#"
        user: Go.
        assistant: a push{}
        tool: a [hang failed: cancelled] [label failed: cancelled]
        user: Never mind.
    "#]]
    .assert_eq(&lines(&model.requests()[0]));
}

/// The limits of a run hold for its queue, and a call that is not made says so.
#[tokio::test]
async fn a_queue_counts_for_the_limits() {
    let model = ScriptedModel::new().calls([("a", "render", r#"{"x":1,"y":2}"#)]);
    let limits = RunLimits { tool_calls: Some(1), ..RunLimits::default() };
    let error = rendering(&model).run(RunInput::new("Render.").with_limits(limits)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::ToolCalls(1))));
    let results = QueuedResults::of(&error.transcript);
    let (_, Queued::Executed(result)) = results.iter().next().unwrap() else { panic!() };
    assert_eq!(result.failure().unwrap().kind, FailureKind::Denied);
}

/// A queued tool may push in its turn, but not for ever.
#[tokio::test]
async fn a_tool_that_pushes_itself_comes_to_an_end() {
    let again = DynamicTool::new(plain("again", || async {}).definition().clone(), |_, cx| async move {
        cx.state::<QueueHandle>()?.push("again", json!({}))
    });
    let (again, count) = counted(&again);
    let model = ScriptedModel::new().calls([("a", "again", "{}")]).text("Enough.");
    let agent = ReactAgent::builder(model).tools(Toolset::new().with(again)).pending_queue().build().unwrap();
    assert_eq!(agent.run("Go.").await.unwrap().text().unwrap(), "Enough.");
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), limits::QUEUED_CALLS + 1);
}

/// What is noted is no step, no question of a person, and nothing that a program shows.
#[tokio::test]
async fn a_note_is_a_hint() {
    let model = ScriptedModel::new().calls([("a", "render", r#"{"x":1,"y":2}"#)]).text("3.");
    let answer = rendering(&model).run("Render.").await.unwrap().into_answer().unwrap();
    let note = answer.transcript.messages()[3].clone();
    assert!(is_hint(&note) && matches!(note.body(), MessageBody::User { .. }));
    assert!(note.text().starts_with("Results of calls:\npending_") && note.text().ends_with(": 3"));
}

/// A model that writes a placeholder all the same: the answer has the result.
#[tokio::test]
async fn an_answer_has_the_results_too() {
    let (tools, mut queue) = (tools(), PendingQueue::new());
    let sum = handle(&queue, &tools).await.push("add", json!({"x": 1, "y": 2})).unwrap();
    execute(&mut queue, &tools).await;
    let said: Transcript = [Message::user("Hi"), queue.note().unwrap()].into_iter().collect();
    let said_again = AssistantMessage::from(format!("It is {sum}."));
    let model = ScriptedModel::new().reply(haft_core::model::ChatResponse::new(said_again));
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let output = agent.run(RunInput::new("What is it?").with_history(said)).await.unwrap();
    assert_eq!(output.text().unwrap(), "It is 3.");
}

/// What a tool that ends the run has pushed is done before, and is in the answer, also where that is checked.
#[tokio::test]
async fn a_tool_that_ends_the_run_ends_it_with_its_results_in_their_places() {
    let call = [("a", "render", r#"{"x":17,"y":25}"#)];
    let tools = || tools().with(Render);
    let plain = ReactAgent::builder(ScriptedModel::new().calls(call)).tools(tools()).pending_queue();
    let checked = ReactAgent::builder(ScriptedModel::new().calls(call)).tools(tools()).pending_queue();
    let checked = checked.output_validator(|mut output, _| async move {
        output.text += ", checked";
        Ok(output)
    });
    for (agent, expected) in [(plain, "Sum: 42"), (checked, "Sum: 42, checked")] {
        let answer = agent.stop_on(["render", "add"]).build().unwrap().run("Draw.").await.unwrap();
        let answer = answer.into_answer().unwrap();
        assert_eq!((&*answer.text, answer.stop_reason), (expected, haft_core::agent::StopReason::Tool));
    }
}

/// The answer that a tool gives is what is declared, when the results are in their places.
#[tokio::test]
async fn outputs_of_a_tool_that_ends_the_run_are_checked_with_their_results() {
    let total = DynamicTool::new(plain("total", || async {}).definition().clone(), |_, cx| async move {
        let sum = cx.state::<QueueHandle>()?.push("sum", json!({}))?;
        Ok::<_, ToolError>(ToolOutput::structured(json!({"sum": sum})))
    });
    let sum = plain("sum", || async { ToolOutput::structured(json!(42)) });
    let model = ScriptedModel::new().calls([("a", "total", "{}")]);
    let outputs = haft_core::Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
    let agent = ReactAgent::builder(model).tools(Toolset::new().with(total).with(sum)).pending_queue();
    let agent = agent.stop_on(["total"]).outputs(outputs).build().unwrap();
    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.outputs.get("sum"), Some(&json!(42)));
}
