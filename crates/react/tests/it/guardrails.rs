//! Tests of guardrails over the input, the answer, calls and results.

use std::{
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use expect_test::expect;
use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    ChatModel, Message, RunEvent, RunInput, RunOutput, Schema, ToolCall, ToolExt as _, ToolOutput, Toolset,
    Transcript,
    agent::{AgentError, AgentErrorKind, GuardrailAction, GuardrailReport, GuardrailStage, StopReason},
    call::{Decision, Decisions, FailureKind, Pending, PendingKind, ToolResponse},
    content::Content,
    export::async_trait,
    message::{AssistantMessage, MessageBody},
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool::{RunContext, ToolPolicy},
};
use haft_react::{
    Dialect, Effect, Guardrail, HandoffGroup, JsonReact, NativeCalls, Outcome, Output, ReactAgent,
    ReactAgentBuilder, Run, RunConfig, RunHandle, TextReact, Verdict,
    hook::{HookContext, HookFailure, HookResult},
    router::{Route, RouteTable},
    run::{Check, CheckVerdict, Checks, Delivery},
};
use haft_testing::ScriptedModel;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    effects::{advance, apply, judge},
    pairing::{assert_paired, message_lines},
    tools::{add_tool, calculator, tool_without_parameters},
};

/// Returns a model whose script may end early, because a guardrail stops the run.
fn lenient(model: ScriptedModel) -> ScriptedModel {
    std::mem::forget(model.clone());
    model
}

/// A model that waits before each request.
struct SlowModel(ScriptedModel, Duration);

#[async_trait]
impl ChatModel for SlowModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        sleep(self.1).await;
        self.0.chat(request).await
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

/// The ruling of a test guardrail over the input.
#[derive(Clone, Copy)]
enum Answer {
    Pass,
    End,
    Fail,
    Panic,
}

fn judge_input(answer: Answer, cx: &HookContext) -> HookResult<Vec<Message>> {
    match answer {
        Answer::Pass => Ok(Verdict::Pass),
        Answer::End => {
            cx.set_information(json!({"score": 0.9}));
            Ok(Verdict::end("ended"))
        }
        Answer::Fail => Err("the server is down".into()),
        Answer::Panic => panic!("the guardrail panics"),
    }
}

fn input_guardrail(name: &str, answer: Answer, delay: Duration) -> Guardrail {
    Guardrail::input(name, move |_, cx| async move {
        sleep(delay).await;
        judge_input(answer, &cx)
    })
}

/// Creates the tool `send()`, which counts its calls.
fn counting_tools(calls: &Arc<AtomicUsize>, requires_approval: bool) -> Toolset {
    let calls = Arc::clone(calls);
    let send = tool_without_parameters("send", move || {
        calls.fetch_add(1, Ordering::SeqCst);
        ready("sent")
    });
    Toolset::new().with_tool(send.map_policy(|policy| ToolPolicy { requires_approval, ..policy }))
}

fn actions(reports: &[GuardrailReport]) -> Vec<(&str, GuardrailStage, GuardrailAction)> {
    reports.iter().map(|report| (&*report.guardrail, report.stage, report.action)).collect()
}

#[track_caller]
fn guardrail_of(error: &AgentError) -> (&str, GuardrailStage, &Value, &[GuardrailReport]) {
    match &*error.kind {
        AgentErrorKind::Guardrail { report, reports } => {
            (&report.guardrail, report.stage, &report.information, reports)
        }
        other => panic!("{other:?}"),
    }
}

fn dialects() -> [Arc<dyn Dialect>; 3] {
    [Arc::new(NativeCalls), Arc::new(JsonReact::new()), Arc::new(TextReact)]
}

fn call_reply(dialect: &str, tool: &str, arguments: &str) -> ChatResponse {
    match dialect {
        "native" => {
            let call = ToolCall::new("a", tool, arguments);
            ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..Default::default() })
        }
        "json" => {
            ChatResponse::new(format!(r#"{{"thought":"Go.","tool_name":"{tool}","tool_args":{arguments}}}"#))
        }
        _ => ChatResponse::new(format!("Thought: Go.\nAction: {tool}\nArguments: {arguments}")),
    }
}

/// Returns the reply with the answer "Done.".
fn answer_text(dialect: &str) -> &'static str {
    match dialect {
        "json" => r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"Done."}}"#,
        "text" => "Thought: So.\nFinal Answer: Done.",
        _ => "Done.",
    }
}

#[tokio::test(start_paused = true)]
async fn input_guardrail_ends_the_run_before_the_request() {
    let model = lenient(ScriptedModel::new().reply_text("42.").reply_text("Hello."));
    let guardrail = Guardrail::input("no homework", |messages, cx| async move {
        let is_homework = messages.iter().any(|message| message.text().contains("homework"));
        cx.set_information(json!({"score": 0.9}));
        Ok(if is_homework { Verdict::end("homework") } else { Verdict::Pass })
    });
    let agent = ReactAgent::builder(model.clone()).guardrail(guardrail).build().unwrap();

    let error = agent.run("Do my homework.").await.unwrap_err();
    let (name, stage, information, reports) = guardrail_of(&error);
    assert_eq!(
        (name, stage, information["score"].as_f64()),
        ("no homework", GuardrailStage::Input, Some(0.9))
    );
    assert_eq!(actions(reports), [("no homework", GuardrailStage::Input, GuardrailAction::End)]);
    assert_eq!(error.to_string(), "the input guardrail \"no homework\" ended the run");
    assert_eq!((model.requests().len(), error.usage.requests), (0, 0));

    // The transcript has the original message, and a later run continues it. The model does not
    // receive the message that was withheld.
    assert_eq!(error.transcript.messages()[0].text(), "Do my homework.");
    let answer = agent.run(RunInput::new("Hello!").with_history(&error.transcript)).await.unwrap();
    assert_eq!(answer.text().unwrap(), "42.");
    expect![[r#"
        user: [a guardrail withheld this message]
        user: Hello!
    "#]]
    .assert_eq(&message_lines(&model.requests()[0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever time the hooks and the reply take, no request is sent and no call runs if an input
    /// guardrail stops the input. A run that was driven again is checked again. A call that
    /// requires an approval runs once, after the approval.
    #[test]
    fn no_call_runs_before_the_input_guardrails_have_passed(
        delays in proptest::array::uniform4(0_u64..40),
        stop in 0_usize..3,
        streams in any::<bool>(),
        dialect in 0_usize..3,
        fails in any::<bool>(),
        needs_approval in any::<bool>(),
    ) {
        let [first, second, reply, hook] = delays.map(Duration::from_millis);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let calls = Arc::new(AtomicUsize::new(0));
            let dialect = Arc::clone(&dialects()[dialect]);
            let script = || ScriptedModel::new()
                .reply(call_reply(dialect.name(), "send", "{}"))
                .reply_text(answer_text(dialect.name()));
            let trip = if fails { Answer::Fail } else { Answer::End };
            let rule = |index| if index == stop { trip } else { Answer::Pass };
            let guard = |name: &str, index: usize, delay: Duration| input_guardrail(name, rule(index), delay);
            let agent = ReactAgent::builder(SlowModel(lenient(script()), reply))
                .dialect(NativeCalls)
                .tools(counting_tools(&calls, needs_approval))
                .guardrail(guard("first", 0, first))
                .guardrail(guard("second", 1, second))
                .prepare(move |request, _| async move { sleep(hook).await; Ok(request) })
                .extension(haft_react::Extension::new("slow").after_reply(move |_, _| async move {
                    sleep(hook).await;
                    Ok(Verdict::Pass)
                }));
            let agent = match dialect.name() {
                "json" => agent.dialect(JsonReact::new()),
                "text" => agent.dialect(TextReact),
                _ => agent,
            };
            let agent = agent.build().unwrap();
            let is_stopped = stop < 2;
            let has_calls = |transcript: &Transcript| transcript.messages().iter().any(|it| !it.tool_calls().is_empty());
            if !streams {
                let transcript = match agent.run("Go.").await {
                    Ok(RunOutput::Answer(answer)) => answer.transcript,
                    Ok(RunOutput::Suspended(suspended)) => {
                        prop_assert!(needs_approval && calls.load(Ordering::SeqCst) == 0);
                        let decisions: Vec<_> = suspended.pending.iter().map(|it| (it.call.id.clone(), Decision::approved())).collect();
                        agent.run(suspended.resume(decisions)).await.unwrap().into_answer().unwrap().transcript
                    }
                    Err(error) => error.transcript,
                };
                prop_assert_eq!(has_calls(&transcript), !is_stopped);
                prop_assert_eq!(calls.load(Ordering::SeqCst), usize::from(!is_stopped));
                assert_paired(&transcript);
                return Ok(());
            }
            let mut run = agent.create_run("Go.".into()).unwrap();
            // The second round continues the run after the error or the suspension.
            for _ in 0..2 {
                let (mut seen, mut ended) = (Vec::new(), Ok(()));
                let mut events = agent.drive(&mut run, Default::default());
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => seen.push(event),
                        Err(error) => ended = Err(error),
                    }
                }
                drop(events);
                if is_stopped {
                    prop_assert!(ended.is_err());
                    prop_assert_eq!(calls.load(Ordering::SeqCst), 0);
                    prop_assert!(seen.is_empty(), "{seen:?}");
                    prop_assert!(!has_calls(run.transcript()));
                }
                for pending in run.pending_calls() {
                    prop_assert!(needs_approval && calls.load(Ordering::SeqCst) == 0);
                    let decided = Outcome::Decided { id: pending.call.id, decision: Decision::approved() };
                    apply(&mut run, decided).unwrap();
                }
            }
            prop_assert_eq!(calls.load(Ordering::SeqCst), usize::from(!is_stopped));
            let saved: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
            prop_assert_eq!(&saved, &run);
            assert_paired(&run.closed_transcript());
            Ok(())
        })?;
    }
}

/// A rewritten input is a view. The transcript keeps the original, and later runs still send the
/// new text.
#[tokio::test]
async fn rewritten_input_is_sent_in_place_of_the_original() {
    for dialect in ["native", "json", "text"] {
        let answer = answer_text(dialect);
        let model = ScriptedModel::new().reply_text(answer).reply_text(answer);
        let upper = Guardrail::input("upper", |messages: Vec<Arc<Message>>, _| async move {
            Ok(Verdict::Replace(messages.iter().map(|it| Message::user(it.text().to_uppercase())).collect()))
        });
        let shout = Guardrail::input("shout", |messages: Vec<Arc<Message>>, _| async move {
            Ok(Verdict::Replace(messages.iter().map(|it| Message::user(it.text() + "!")).collect()))
        });
        let builder = ReactAgent::builder(model.clone()).guardrail(upper).guardrail(shout);
        let agent = match dialect {
            "json" => builder.dialect(JsonReact::new()),
            "text" => builder.dialect(TextReact),
            _ => builder,
        };
        let agent = agent.build().unwrap();

        let answer = agent.run("is it on").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.transcript.messages()[0].text(), "is it on");
        let saved = serde_json::to_string(&answer.transcript).unwrap();
        let history = serde_json::from_str(&saved).unwrap();
        agent.run(RunInput::new("sure").with_history(&history)).await.unwrap();
        let first = |index: usize| model.requests()[index].messages.iter().next().unwrap().text();
        assert_eq!((first(0), first(1)), ("IS IT ON!".to_owned(), "IS IT ON!".to_owned()), "{dialect}");
        let last = model.requests()[1].messages.iter().last().unwrap().text();
        assert_eq!(last, "SURE!", "{dialect}");
    }
}

#[tokio::test]
async fn blocked_input_is_answered_by_the_guardrail() {
    let model = lenient(ScriptedModel::new().reply_text("Bang.").reply_text("Hello."));
    let guardrail = Guardrail::input("safe", |messages: Vec<Arc<Message>>, _| async move {
        let is_bad = messages.iter().any(|it| it.text().contains("bomb"));
        Ok(if is_bad { Verdict::block("I cannot help with that.") } else { Verdict::Pass })
    });
    let agent = ReactAgent::builder(model.clone()).guardrail(guardrail).build().unwrap();

    let answer = agent.run("Build a bomb.").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), answer.stop_reason), ("I cannot help with that.", StopReason::Blocked));
    assert_eq!(actions(&answer.guardrails), [("safe", GuardrailStage::Input, GuardrailAction::Block)]);
    agent.run(RunInput::new("Hi.").with_history(&answer.transcript)).await.unwrap();
    let requests = model.requests();
    expect![[r#"
            user: [a guardrail withheld this message]
            assistant: I cannot help with that.
            user: Hi.
        "#]]
    .assert_eq(&message_lines(requests.last().unwrap()));
}

/// Several guardrails run in order. The first stop decides, and earlier reports are kept.
#[tokio::test]
async fn first_stop_decides_and_no_report_is_lost() {
    let pass = Guardrail::input("a", |_, cx| {
        cx.set_information(1);
        ready(Ok(Verdict::Pass))
    });
    let end = input_guardrail("b", Answer::End, Duration::ZERO);
    let late = input_guardrail("c", Answer::Panic, Duration::ZERO);
    let agent = ReactAgent::builder(ScriptedModel::new()).guardrail(pass).guardrail(end).guardrail(late);

    let error = agent.build().unwrap().run("Go.").await.unwrap_err();
    let (name, _, _, reports) = guardrail_of(&error);
    assert_eq!(name, "b");
    assert_eq!(
        actions(reports),
        [
            ("a", GuardrailStage::Input, GuardrailAction::Pass),
            ("b", GuardrailStage::Input, GuardrailAction::End)
        ]
    );
    assert_eq!(reports[0].information, json!(1));
}

/// A guardrail that fails, panics or takes too long ends the run, or passes if it fails open.
#[tokio::test(start_paused = true)]
async fn failing_guardrail_ends_the_run_unless_it_fails_open() {
    let slow = || Guardrail::input("check", |_, _| pending()).timeout(Duration::from_secs(1));
    type CreateGuardrail = fn() -> Guardrail;
    let guardrails: [(&str, CreateGuardrail); 3] = [
        ("the server is down", || input_guardrail("check", Answer::Fail, Duration::ZERO)),
        ("it panicked", || input_guardrail("check", Answer::Panic, Duration::ZERO)),
        ("it took longer than 1s", slow),
    ];
    for (problem, guardrail) in guardrails {
        let model = lenient(ScriptedModel::new().reply_text("Hello."));
        let agent = ReactAgent::builder(model).guardrail(guardrail()).build().unwrap();
        let error = agent.run("Hi.").await.unwrap_err();
        let AgentErrorKind::HookFailed { hook: "input hook", source } = &*error.kind else {
            panic!("{error:?}")
        };
        assert_eq!(source.downcast_ref::<HookFailure>().unwrap().hook, "check");
        assert!(format!("{error:?}").contains(problem), "{error:?}");
        assert_eq!(error.usage.requests, 0);

        let model = ScriptedModel::new().reply_text("Hello.");
        let agent = ReactAgent::builder(model).guardrail(guardrail().fail_open()).build().unwrap();
        let answer = agent.run("Hi.").await.unwrap().into_answer().unwrap();
        assert_eq!(actions(&answer.guardrails), [("check", GuardrailStage::Input, GuardrailAction::Failed)]);
        assert!(answer.guardrails[0].information.as_str().unwrap().contains(problem));
    }
}

/// No guardrail can drop a message of the user, or replace it by a message of the model.
#[tokio::test]
async fn impossible_rewrites_end_the_run() {
    let reply = Guardrail::input("reply", |_, _| ready(Ok(Verdict::Replace(vec![Message::assistant("x")]))));
    let drop = Guardrail::input("drop", |_, _| ready(Ok(Verdict::Replace(Vec::new()))));
    for guardrail in [reply, drop] {
        let agent = ReactAgent::builder(lenient(ScriptedModel::new().reply_text("Hi.")))
            .guardrail(guardrail)
            .build()
            .unwrap();
        let error = agent.run("Go.").await.unwrap_err();
        assert!(matches!(&*error.kind, AgentErrorKind::HookFailed { hook: "input hook", .. }));
    }
}

/// Enqueued messages are new input. Later requests, a resumed run and the next agent of a hand-off
/// do not check the input again.
#[tokio::test]
async fn each_input_is_checked_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = |name: &'static str| {
        let seen = Arc::clone(&seen);
        Guardrail::input("record", move |messages: Vec<Arc<Message>>, _| {
            let texts: Vec<_> = messages.iter().map(|it| format!("{name}: {}", it.text())).collect();
            seen.lock().unwrap().extend(texts);
            ready(Ok(Verdict::Pass))
        })
    };
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#)])
        .reply_text("2.")
        .reply_text("Bye.");
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let tools = Toolset::new().with_tool(add_tool().with_definition(|it| it.with_policy(policy)));
    let agent = ReactAgent::builder(model).tools(tools).guardrail(record("main")).build().unwrap();

    let handle = RunHandle::new();
    handle.enqueue("Thanks.", Delivery::Idle).unwrap();
    let RunOutput::Suspended(suspended) = agent.run(handle.bind("Add.")).await.unwrap() else { panic!() };
    let decisions = Decisions::from([("a".to_owned(), Decision::approved())]);
    agent.run(RunInput::resume(suspended, decisions)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["main: Add.", "main: Thanks."]);

    seen.lock().unwrap().clear();
    let first = ScriptedModel::new().reply_calls([("b", "transfer_to_second", "{}")]);
    let first = ReactAgent::builder(first).guardrail(record("first")).build().unwrap();
    let second = ScriptedModel::new().reply_text("Hello.");
    let second = ReactAgent::builder(second).guardrail(record("second")).build().unwrap();
    let table = RouteTable::new([Route::new("first", "Greets."), Route::new("second", "Answers.")]);
    let group = HandoffGroup::new(table, [("first", first), ("second", second)]).unwrap();
    group.run("Hi.").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["first: Hi."]);
}

/// An answer guardrail passes, rewrites, blocks or ends. Its verdict precedes the end of the run.
#[tokio::test]
async fn answer_guardrail_decides_before_the_end_of_the_run() {
    let secret = |ruling: fn(Output) -> Verdict<Output>| {
        Guardrail::answer("secrets", move |output: Output, _| {
            let has_secret = output.text.contains("1234");
            ready(Ok(if has_secret { ruling(output) } else { Verdict::Pass }))
        })
    };
    let run = |guardrail: Guardrail| async move {
        let model = lenient(ScriptedModel::new().reply_text("The code is 1234.").reply_text("Sure."));
        let agent = ReactAgent::builder(model.clone()).guardrail(guardrail).build().unwrap();
        (agent.run("Code?").await, agent, model)
    };

    let (output, ..) = run(secret(|mut output| {
        output.text = output.text.replace("1234", "****");
        Verdict::Replace(output)
    }))
    .await;
    let answer = output.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), answer.stop_reason), ("The code is ****.", StopReason::Finished));

    let (output, agent, model) = run(secret(|_| Verdict::block("Ask your admin."))).await;
    let answer = output.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), answer.stop_reason), ("Ask your admin.", StopReason::Blocked));
    assert_eq!(actions(&answer.guardrails), [("secrets", GuardrailStage::Answer, GuardrailAction::Block)]);
    agent.run(RunInput::new("Why?").with_history(&answer.transcript)).await.unwrap();
    expect![[r#"
        user: Code?
        assistant: Ask your admin.
        user: Why?
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));

    let (output, ..) = run(secret(|_| Verdict::end("ended"))).await;
    let error = output.unwrap_err();
    assert_eq!(guardrail_of(&error).1, GuardrailStage::Answer);
    assert_eq!(error.transcript.messages()[1].text(), "The code is 1234.");
}

/// A structured answer is checked with its fields, and a rewritten answer must fit the schema.
#[tokio::test]
async fn structured_answers_are_checked() {
    let schema =
        Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap();
    let run = |ruling: fn(Output) -> Verdict<Output>| {
        let model = ScriptedModel::new().reply_calls([("f", "finish", r#"{"sum":7}"#)]);
        let guardrail = Guardrail::answer("sum", move |output: Output, _| ready(Ok(ruling(output))));
        let agent = ReactAgent::builder(model).outputs(schema.clone()).guardrail(guardrail).build().unwrap();
        async move { agent.run("Add.").await }
    };
    let answer = run(|mut output| {
        output.outputs["sum"] = json!(8);
        Verdict::Replace(output)
    })
    .await
    .unwrap()
    .into_answer()
    .unwrap();
    assert_eq!((answer.outputs["sum"].as_i64(), answer.text.as_str()), (Some(8), r#"{"sum":8}"#));
    let error = run(|mut output| {
        output.outputs["sum"] = json!("eight");
        Verdict::Replace(output)
    })
    .await
    .unwrap_err();
    let AgentErrorKind::HookFailed { hook, source } = &*error.kind else { panic!("{error:?}") };
    assert_eq!((*hook, source.to_string().as_str()), ("answer hook", r#"in the hook "sum""#));
    let blocked = run(|_| Verdict::block("No.")).await.unwrap().into_answer().unwrap();
    assert_eq!((blocked.text.as_str(), blocked.outputs.len()), ("No.", 0));
}

/// A call guardrail sees repaired arguments before the approval, and changed arguments again after
/// it.
#[tokio::test]
async fn call_guardrail_runs_before_the_approval_and_after_a_change() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&seen);
    // The guardrail limits `x` to 10.
    let guardrail = Guardrail::call("limit", move |call, _| {
        recorded.lock().unwrap().push(call.arguments.to_string());
        let mut arguments = call.arguments;
        let is_high = arguments["x"].as_i64() > Some(10);
        arguments["x"] = arguments["x"].as_i64().unwrap().min(10).into();
        ready(Ok(if is_high { Verdict::Replace(arguments) } else { Verdict::Pass }))
    });
    for dialect in ["native", "json", "text"] {
        seen.lock().unwrap().clear();
        let model = ScriptedModel::new()
            .reply(call_reply(dialect, "add", r#"{"x":"30","y":1}"#))
            .reply_text(answer_text(dialect));
        let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
        let tools = Toolset::new().with_tool(add_tool().with_definition(|it| it.with_policy(policy)));
        let builder = ReactAgent::builder(model).tools(tools).guardrail(guardrail.clone());
        let builder = match dialect {
            "json" => builder.dialect(JsonReact::new()),
            "text" => builder.dialect(TextReact),
            _ => builder,
        };
        let agent = builder.build().unwrap();
        let RunOutput::Suspended(suspended) = agent.run("Add.").await.unwrap() else { panic!("{dialect}") };
        let [call] = &suspended.pending[..] else { panic!() };
        let PendingKind::Approval { arguments } = &call.pending.kind else { panic!() };
        assert_eq!(*arguments, json!({"x": 10, "y": 1}), "{dialect}");
        let id = call.call.id.clone();
        let other = Decision::approved_with_arguments(json!({"x": 99, "y": 2}));
        let decisions = Decisions::from([(id, other)]);
        let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
        let result = answer.steps[0].result.output().unwrap().text().into_owned();
        assert_eq!(result, "12", "{dialect}");
        assert_eq!(*seen.lock().unwrap(), [r#"{"x":30,"y":1}"#, r#"{"x":99,"y":2}"#], "{dialect}");
    }
}

/// The arguments that a guardrail returns are validated, and an external call has them.
#[tokio::test]
async fn rewritten_arguments_are_validated_and_sent_to_the_host() {
    let guardrail =
        |arguments: Value| Guardrail::call("fix", move |_, _| ready(Ok(Verdict::Replace(arguments.clone()))));
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("Done.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .guardrail(guardrail(json!({"x": "one"})))
        .build()
        .unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.steps[0].result.failure().unwrap().kind, FailureKind::InvalidArguments);

    let draw = tool_without_parameters("draw", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let model = ScriptedModel::new().reply_calls([("a", "draw", "{}")]);
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(draw))
        .guardrail(guardrail(json!({"safe": true})))
        .build()
        .unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Draw.").await.unwrap() else { panic!() };
    assert_eq!(suspended.pending[0].call.arguments.to_string(), r#"{"safe":true}"#);
}

/// A blocked call does not run, and the model reads the text of the guardrail. Other calls of the
/// reply run. If a guardrail ends the run, none of them runs.
#[tokio::test]
async fn blocked_call_does_not_run() {
    for ends in [false, true] {
        let calls = Arc::new(AtomicUsize::new(0));
        let guardrail = Guardrail::call("no sums", move |_, _| {
            ready(Ok(if ends { Verdict::end("ended") } else { Verdict::block("Sums are not allowed.") }))
        });
        let script = ScriptedModel::new()
            .reply_calls([("a", "send", "{}"), ("b", "add", r#"{"x":1,"y":1}"#)])
            .reply_text("Done.");
        let model = lenient(script);
        let agent = ReactAgent::builder(model.clone())
            .tools(counting_tools(&calls, false).with_tool(add_tool()))
            .guardrail(guardrail.for_tools(["add"]))
            .build()
            .unwrap();
        let output = agent.run("Go.").await;
        assert_eq!(calls.load(Ordering::SeqCst), usize::from(!ends));
        if ends {
            let error = output.unwrap_err();
            let (_, stage, _, reports) = guardrail_of(&error);
            assert_eq!((stage, reports[0].call_id.as_deref()), (GuardrailStage::Call, Some("b")));
            assert_paired(&error.transcript);
        } else {
            let answer = output.unwrap().into_answer().unwrap();
            assert_eq!(
                actions(&answer.guardrails),
                [("no sums", GuardrailStage::Call, GuardrailAction::Block)]
            );
            expect![[r#"
                user: Go.
                assistant: a send{}; b add{"x":1,"y":1}
                tool: a sent
                tool: b denied: Sums are not allowed.
            "#]]
            .assert_eq(&message_lines(&model.requests()[1]));
        }
    }
}

/// A result guardrail sees each result before the model: of tools, failures, and of the host
/// program.
#[tokio::test]
async fn result_guardrail_decides_before_the_model_reads_the_result() {
    let guardrail = Guardrail::result("secrets", |result, _| {
        let text = result.model_text().into_owned();
        ready(Ok(match text.as_str() {
            text if text.contains("key") => Verdict::block("The result is secret."),
            text if text.contains("path") => Verdict::Replace(ToolOutput::from("failed")),
            "42" => Verdict::Replace(ToolOutput::from("forty-two")),
            _ => Verdict::Pass,
        }))
    });
    let draw = tool_without_parameters("draw", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let tools = Toolset::new()
        .with_tool(tool_without_parameters("key", || async { "the key is 1" }))
        .with_tool(tool_without_parameters("fail", || async { Err::<(), _>("the path /etc is missing") }))
        .with_tool(draw);
    let model = ScriptedModel::new()
        .reply_calls([("a", "key", "{}"), ("b", "fail", "{}"), ("c", "draw", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::builder(model.clone()).tools(tools).guardrail(guardrail).build().unwrap();

    let RunOutput::Suspended(suspended) = agent.run("Go.").await.unwrap() else { panic!() };
    let decisions = Decisions::from([("c".to_owned(), Decision::output("42"))]);
    let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    expect![[r#"
        user: Go.
        assistant: a key{}; b fail{}; c draw{}
        tool: a The result is secret.
        tool: b failed
        tool: c forty-two
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
    assert_eq!(answer.guardrails.len(), 3);
    assert_eq!(answer.steps[0].result.failure().unwrap().kind, FailureKind::Failed);
}

/// A result guardrail ends the run. The result is withheld, and the run can be continued.
#[tokio::test]
async fn result_guardrail_ends_the_run() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("Done.");
    let guardrail = Guardrail::result("two", |_, _| ready(Ok(Verdict::end("two"))));
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).guardrail(guardrail).build().unwrap();

    let mut run = agent.create_run("Add.".into()).unwrap();
    let error = agent.drive(&mut run, Default::default()).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(guardrail_of(&error).2, &json!("two"));
    assert_paired(&error.transcript);
    let events = agent.drive(&mut run, Default::default()).try_collect::<Vec<_>>().await.unwrap();
    assert!(matches!(events.last(), Some(RunEvent::Done { .. })));
    expect![[r#"
        user: Add.
        assistant: a add{"x":1,"y":1}
        tool: a a guardrail withheld the result and ended the run
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

/// A message with an image is passed to the guardrails as a message, not as text.
#[tokio::test]
async fn input_guardrail_sees_all_content() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&seen);
    let guardrail = Guardrail::input("content", move |messages: Vec<Arc<Message>>, _| {
        recorded.lock().unwrap().extend_from_slice(messages[0].content());
        ready(Ok(Verdict::Pass))
    });
    let agent =
        ReactAgent::builder(ScriptedModel::new().reply_text("Hi.")).guardrail(guardrail).build().unwrap();
    let content = vec![Content::text("What is this?"), Content::from_bytes(vec![1, 2, 3], "image/png")];
    let message = Message::new(MessageBody::User { content: content.clone() });
    agent.run(RunInput::new(message)).await.unwrap();
    let seen = seen.lock().unwrap();
    assert!(matches!(&seen[..], [Content::Text { .. }, Content::Image { .. }]), "{seen:?}");
    assert_eq!(*seen, content);
}

/// A model that enqueues a message during its first request.
struct EnqueueingModel(ScriptedModel, RunHandle);

#[async_trait]
impl ChatModel for EnqueueingModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        if self.0.requests().is_empty() {
            self.1.enqueue("B", Delivery::NextRequest).unwrap();
        }
        self.0.chat(request).await
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

/// Creates a guardrail that records its input, and passes it after `delay`.
fn recording_guardrail(seen: &Arc<Mutex<Vec<Vec<String>>>>, delay: Duration) -> Guardrail {
    let seen = Arc::clone(seen);
    Guardrail::input("record", move |messages: Vec<Arc<Message>>, _| {
        seen.lock().unwrap().push(texts(&messages));
        async move {
            sleep(delay).await;
            Ok(Verdict::Pass)
        }
    })
}

/// A message joins a repeated request. The guardrail judges each message once.
#[tokio::test(start_paused = true)]
async fn message_of_a_repeated_request_is_checked_once() {
    let seen = Arc::default();
    let handle = RunHandle::new();
    let script = ScriptedModel::new().fail(ModelError::EmptyResponse).reply_text("Done.");
    let builder = ReactAgent::builder(EnqueueingModel(script, handle.clone()))
        .guardrail(recording_guardrail(&seen, Duration::from_millis(100)));
    let answer = builder.build().unwrap().run(handle.bind("A")).await.unwrap();
    assert_eq!(answer.text().unwrap(), "Done.");
    assert_eq!(*seen.lock().unwrap(), [["A"], ["B"]]);
}

/// A cancelled run ends after the future of a guardrail is dropped.
#[tokio::test(start_paused = true)]
async fn cancellation_waits_for_a_guardrail() {
    let lock = Arc::new(tokio::sync::Mutex::new(()));
    let held = Arc::clone(&lock);
    let guardrail = Guardrail::input("holds a lock", move |_, _| {
        let held = Arc::clone(&held);
        async move {
            let _guard = held.lock_owned().await;
            pending().await
        }
    });
    let agent = ReactAgent::builder(ScriptedModel::new()).guardrail(guardrail).build().unwrap();
    let token = CancellationToken::new();
    let context = RunContext { cancellation: token.clone(), ..RunContext::default() };
    let cancel = async {
        sleep(Duration::from_secs(1)).await;
        assert!(lock.try_lock().is_err());
        token.cancel();
    };
    let run = async {
        let ended = agent.run(RunInput::new("Go.").with_context(context)).await;
        (ended, lock.try_lock().is_ok())
    };
    let ((ended, is_free), ()) = tokio::join!(run, cancel);
    assert!(matches!(*ended.unwrap_err().kind, AgentErrorKind::Cancelled));
    assert!(is_free);
}

/// A blocked answer from a call is not sent in later requests: the arguments of `finish` beside
/// another call, the result of a stop tool, and the results of a review.
#[tokio::test]
async fn blocked_answer_of_a_call_is_withheld() {
    let schema = || Schema::new(json!({"properties": {"code": {"type": "string"}}})).unwrap();
    let code = || tool_without_parameters("code", || async { "The code is 1234." });
    let finish = ("f", "finish", r#"{"code":"1234"}"#);
    let builders: [fn(ReactAgentBuilder) -> ReactAgentBuilder; 3] = [
        |it| it,
        |it| it.stop_on(["code"]),
        |it| {
            it.after_calls(|calls, _| {
                ready(Ok(Output::of_results(&calls).map_or(Verdict::Pass, Verdict::Replace)))
            })
        },
    ];
    let mut lines = String::new();
    for (index, configure) in builders.into_iter().enumerate() {
        let calls = [("a", "code", "{}"), finish];
        let model = ScriptedModel::new().reply_calls(calls.into_iter().take(if index == 0 { 2 } else { 1 }));
        let model = model.reply_text(r#"{"code":"-"}"#);
        let secrets = |output: Output, _| {
            let has_code = output.text.contains("1234");
            ready(Ok(if has_code { Verdict::block("Ask your admin.") } else { Verdict::Pass }))
        };
        let tools = Toolset::new().with_tool(code());
        let builder =
            ReactAgent::builder(model.clone()).tools(tools).guardrail(Guardrail::answer("secrets", secrets));
        let builder = if index == 0 { builder.outputs(schema()) } else { builder };
        let agent = configure(builder).build().unwrap();
        let answer = agent.run("Code?").await.unwrap().into_answer().unwrap();
        assert_eq!((answer.text.as_str(), answer.stop_reason), ("Ask your admin.", StopReason::Blocked));
        assert_paired(&answer.transcript);
        let saved = serde_json::from_str(&serde_json::to_string(&answer.transcript).unwrap()).unwrap();
        agent.run(RunInput::new("Why?").with_history(&saved)).await.unwrap();
        lines += &message_lines(&model.requests()[1]);
    }
    expect![[r#"
        user: Code?
        assistant: [a guardrail withheld this message]a code{}; f finish{}
        tool: a not executed, because the answer was given in the same reply
        tool: f the answer was received
        assistant: Ask your admin.
        user: Why?
        user: Code?
        assistant: a code{}
        tool: a [a guardrail withheld this message]
        assistant: Ask your admin.
        user: Why?
        user: Code?
        assistant: a code{}
        tool: a [a guardrail withheld this message]
        assistant: Ask your admin.
        user: Why?
    "#]]
    .assert_eq(&lines);
}

/// The provider data and the reasoning of a blocked answer are not sent, because the provider could
/// restore the answer from them.
#[tokio::test]
async fn blocked_answer_has_no_provider_data() {
    let mut secret = AssistantMessage::from("The code is 1234.");
    secret.reasoning = Some("The code is 1234.".to_owned());
    secret.provider_data.insert("openai", json!({"response_id": "resp_1"}));
    let model = ScriptedModel::new().reply(ChatResponse::new(secret)).reply_text("Sure.");
    let secrets = Guardrail::answer("secrets", |output: Output, _| {
        ready(Ok(if output.text.contains("1234") { Verdict::block("No.") } else { Verdict::Pass }))
    });
    let agent = ReactAgent::builder(model.clone()).guardrail(secrets).build().unwrap();
    let answer = agent.run("Code?").await.unwrap().into_answer().unwrap();
    agent.run(RunInput::new("Why?").with_history(&answer.transcript)).await.unwrap();
    let request = &model.requests()[1];
    let MessageBody::Assistant(blocked) = request.messages.iter().nth(1).unwrap().body() else { panic!() };
    assert_eq!(*blocked, AssistantMessage::from("No."));
}

/// The gate is part of the run. Without the driver of this crate, a saved and loaded run sends no
/// request before the verdict.
#[test]
fn run_sends_no_request_before_the_verdict() {
    let checks = Checks { input: true, ..Checks::default() };
    let config = RunConfig { checks, ..RunConfig::default() };
    let mut run = Run::new(&config, "Go.".into()).unwrap();
    for _ in 0..2 {
        run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        let Effect::Check(Check::Input(messages)) = advance(&mut run).unwrap() else { panic!() };
        assert_eq!(texts(&messages), ["Go."]);
    }
    judge(&mut run, CheckVerdict::Input(Verdict::Pass.into())).unwrap();
    assert!(judge(&mut run, CheckVerdict::Input(Verdict::Pass.into())).is_err());
    assert!(matches!(advance(&mut run).unwrap(), Effect::Chat));
}
