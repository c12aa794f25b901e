//! Tests of `prepare` hooks and dynamic instructions.

use std::{
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use haft_core::{
    Message, RunInput, RunOutput, Schema, Toolset,
    agent::AgentErrorKind,
    call::{BoxError, Decision, Decisions},
    model::{ChatRequest, ChatSettings, ModelError, ToolChoice},
    tool::{HostState, RunContext, ToolPolicy},
    toolset::ToolList,
};
use haft_middleware::ToolRegistry;
use haft_react::{
    JsonReact, ReactAgent, ReactAgentBuilder, TextReact,
    hook::{HookContext, RequestDraft},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::assert_paired,
    tools::{DynamicSource, add_tool, calculator, failing_tool, tool_without_parameters, with_call_counter},
};

const ADD: [(&str, &str, &str); 1] = [("", "add", r#"{"x":1,"y":1}"#)];

fn tool_names(request: &ChatRequest) -> Vec<String> {
    request.tools.names().map(ToString::to_string).collect()
}

fn instructions_of(request: &ChatRequest) -> String {
    request.instructions.as_ref().map(|message| message.text()).unwrap_or_default()
}

fn system_message(request: &ChatRequest) -> Arc<Message> {
    Arc::clone(request.instructions.as_ref().unwrap())
}

/// A call to a hidden tool fails like a call to an unknown tool, and the error lists only the
/// visible tools.
#[tokio::test]
async fn tools_can_be_hidden_per_step() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "fail", "{}")])
        .reply_calls([("b", "fail", "{}")])
        .reply_text("No.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator().with_tool(failing_tool()))
        .prepare(|mut request, cx| async move {
            if cx.step == 0 {
                request.retain_tools(|tool| *tool.name() != *"fail");
            }
            Ok(request)
        })
        .build()
        .unwrap();
    let answer = agent.run("Try.").await.unwrap().into_answer().unwrap();
    let offered: Vec<_> = model.requests().iter().map(tool_names).collect();
    assert_eq!(offered, [vec!["add"], vec!["add", "fail"], vec!["add", "fail"]]);
    let results: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(results, [r#"unknown tool "fail"; available: add"#, "no luck"]);
}

#[tokio::test]
async fn unchanged_tools_and_instructions_are_shared() {
    let model =
        ScriptedModel::new().reply_calls(ADD).reply_calls([("", "add", r#"{"x":2,"y":1}"#)]).reply_text("3");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator().with_tool(failing_tool()))
        .prepare(|mut request, _| {
            request.hide_tool("fail");
            request.hide_tool("nobody");
            ready(Ok(request))
        })
        .dynamic_instructions(|_| ready(Ok("Count.".to_owned())))
        .build()
        .unwrap();
    agent.run("Add.").await.unwrap();
    let requests = model.requests();
    assert!(requests.iter().all(|request| request.tools.snapshot_id() == requests[0].tools.snapshot_id()));
    assert!(
        requests.iter().all(|request| Arc::ptr_eq(&system_message(request), &system_message(&requests[0])))
    );
}

/// A `prepare` hook can change the policy of a tool. The call is then checked against the changed
/// policy: here it lacks a required scope and is denied.
#[tokio::test]
async fn definition_can_be_changed() {
    let model = ScriptedModel::new().reply_calls(ADD).reply_text("Denied.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .prepare(|mut request, _| async move {
            request.change_tool("add", |it| {
                let policy =
                    ToolPolicy { required_scopes: ["math".to_owned()].into(), ..ToolPolicy::default() };
                it.with_description("Adds, if you may.").with_policy(policy)
            });
            assert_eq!(request.tools().count(), 1);
            Ok(request)
        })
        .build()
        .unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    let description = model.requests()[0].tools.get("add").unwrap().definition().description().to_owned();
    assert_eq!(description, "Adds, if you may.");
    assert!(!answer.steps[0].result.is_success(), "{:?}", answer.steps[0].result);
}

/// The `prepare` hook also runs when a suspended call is resumed, so its changes to tools apply to
/// the resumed call.
#[tokio::test]
async fn resumed_call_uses_the_prepared_tools() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let (add, ran) = with_call_counter(&add_tool());
    let model = ScriptedModel::new().reply_calls(ADD).reply_text("2");
    let seen = Arc::clone(&steps);
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(add))
        .prepare(move |mut request, cx| {
            seen.lock().unwrap().push(cx.step);
            request.change_tool("add", |it| {
                it.with_policy(ToolPolicy { requires_approval: true, ..ToolPolicy::default() })
            });
            ready(Ok(request))
        })
        .build()
        .unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Add.").await.unwrap() else {
        panic!("the run is not suspended")
    };
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    let id = suspended.pending[0].call.id.clone();
    let decisions = Decisions::from([(id, Decision::approved())]);
    assert_eq!(agent.run(RunInput::resume(suspended, decisions)).await.unwrap().text().unwrap(), "2");
    assert_eq!((ran.load(Ordering::Relaxed), &*steps.lock().unwrap()), (1, &vec![0, 0, 1]));
}

#[tokio::test]
async fn choice_settings_and_instructions_apply_to_one_step() {
    let model = ScriptedModel::new().reply_calls(ADD).reply_text("2");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .instructions("Be brief.")
        .settings(ChatSettings { temperature: Some(0.5), ..ChatSettings::default() })
        .dynamic_instructions(|_| ready(Ok(String::new())))
        .dynamic_instructions(|cx| ready(Ok(format!("For {}.", cx.run.run_id))))
        .prepare(|mut request, cx| async move {
            if cx.step == 0 {
                request.tool_choice = ToolChoice::Required;
                request.settings.max_tokens = Some(10);
                request.instructions.push("Call first.".to_owned());
            }
            Ok(request)
        })
        .build()
        .unwrap();
    let context = RunContext { run_id: "r".to_owned(), ..RunContext::default() };
    let answer =
        agent.run(RunInput::new("1 + 1?").with_context(context)).await.unwrap().into_answer().unwrap();
    let requests = model.requests();
    assert_eq!(instructions_of(&requests[0]), "Be brief.\n\nFor r.\n\nCall first.");
    assert_eq!(instructions_of(&requests[1]), "Be brief.\n\nFor r.");
    let settings: Vec<_> =
        requests.iter().map(|it| (it.settings.temperature, it.settings.max_tokens)).collect();
    assert_eq!(settings, [(Some(0.5), Some(10)), (Some(0.5), None)]);
    let choices: Vec<_> = requests.iter().map(|it| it.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Required, ToolChoice::Auto]);
    // Instructions from the hook are sent to the model, but are not added to the transcript.
    assert_eq!(answer.transcript.len(), 4);
}

/// The text and JSON dialects append a long text to the instructions. Model requests with equal
/// instructions must share one rendered message.
#[tokio::test]
async fn equal_instructions_are_rendered_once_in_every_dialect() {
    let step = r#"{"thought":"","tool_name":"add","tool_args":{"x":NUMBER,"y":1}}"#;
    let end = r#"{"thought":"","tool_name":"finish","tool_args":{"answer":"2"}}"#;
    for in_text in [false, true] {
        let model = (1..5).fold(ScriptedModel::new(), |model, number| {
            model.reply_text(step.replace("NUMBER", &number.to_string()))
        });
        let model = model.reply_text(end);
        let builder = ReactAgent::builder(model.clone())
            .tools(calculator())
            .dynamic_instructions(|cx| ready(Ok(if cx.step < 2 { "Go." } else { "Stop." }.to_owned())));
        let agent = if in_text { builder.dialect(TextReact) } else { builder.dialect(JsonReact::new()) };
        agent.build().unwrap().run("Add.").await.unwrap();
        let systems: Vec<_> = model.requests().iter().map(system_message).collect();
        assert!(systems[0].text().starts_with("Go.\n\n") && systems[4].text().starts_with("Stop.\n\n"));
        let same = |a: usize, b: usize| Arc::ptr_eq(&systems[a], &systems[b]);
        assert!(same(0, 1) && !same(1, 2) && same(2, 3) && same(3, 4));
    }
}

/// The hook for dynamic instructions can read the host state, the usage and the transcript of the
/// run.
#[tokio::test]
async fn dynamic_instructions_can_read_state_usage_and_transcript() {
    let registry = ToolRegistry::new("shop");
    registry.register(add_tool()).unwrap();
    let counter = Arc::new(AtomicU32::new(0));
    let model = ScriptedModel::new().reply_calls(ADD).reply_text("2");
    let note = |cx: HookContext| async move {
        let counter = cx.run.state.get::<Arc<AtomicU32>>().ok_or("no counter")?;
        let number = counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, BoxError>(format!(
            "{number}: {} requests, {} messages",
            cx.usage.requests,
            cx.transcript.len()
        ))
    };
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_source(registry))
        .state(HostState::new().with_value(Arc::clone(&counter)))
        .dynamic_instructions(note)
        .build()
        .unwrap();
    agent.run("1 + 1?").await.unwrap();
    let texts: Vec<_> = model.requests().iter().map(instructions_of).collect();
    assert_eq!(texts, ["0: 0 requests, 1 messages", "1: 1 requests, 3 messages"]);
}

#[tokio::test(start_paused = true)]
async fn failed_hook_ends_the_run_and_keeps_the_transcript() {
    fn is_second_step(cx: &HookContext) -> bool {
        cx.step == 1
    }
    let model = || ScriptedModel::new().reply_calls(ADD);
    let prepare = |builder: ReactAgentBuilder| builder.tools(calculator());
    let fails = prepare(ReactAgent::builder(model())).dynamic_instructions(|cx| {
        ready(if is_second_step(&cx) { Err("the clock is broken".into()) } else { Ok(String::new()) })
    });
    let panics = prepare(ReactAgent::builder(model())).prepare(|request, cx| {
        assert!(!is_second_step(&cx), "with a secret");
        ready(Ok(request))
    });
    let hangs = prepare(ReactAgent::builder(model())).prepare(|request: RequestDraft, cx| async move {
        if is_second_step(&cx) { pending().await } else { Ok(request) }
    });
    let hangs = hangs.hook_timeout(Duration::from_secs(1));
    for (agent, expected) in [
        (fails, "the dynamic instructions hook of the agent failed: the clock is broken"),
        (panics, "the prepare hook of the agent failed: it panicked"),
        (hangs, "the prepare hook of the agent failed: it took longer than 1s"),
    ] {
        let error = agent.build().unwrap().run("Add.").await.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::HookFailed { .. }));
        assert_eq!(format!("{error:?}"), expected);
        assert_eq!(error.transcript.len(), 3);
        assert_paired(&error.transcript);
    }
}

/// If a model request is repeated after a context overflow, the `prepare` hook must run again.
#[tokio::test]
async fn repeated_request_is_prepared_again() {
    let prepared = Arc::new(Mutex::new(0));
    let too_much = ModelError::ContextTooLong("too much".to_owned());
    let model = ScriptedModel::new().reply_calls(ADD).reply_calls(ADD).fail(too_much).reply_text("2");
    let counts = Arc::clone(&prepared);
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).prepare(move |mut request, _| {
        let mut counts = counts.lock().unwrap();
        *counts += 1;
        request.instructions.push(format!("Request {counts}."));
        ready(Ok(request))
    });
    assert_eq!(agent.build().unwrap().run("Add.").await.unwrap().text().unwrap(), "2");
    let texts: Vec<_> = model.requests().iter().map(instructions_of).collect();
    assert_eq!(texts, ["Request 1.", "Request 2.", "Request 3.", "Request 4."]);
}

/// The tool choice of a step is checked against the tools of that step. It is an error to force a
/// hidden tool. A request for another tool list has the definitions of other tools, so it cannot be
/// applied.
#[tokio::test]
async fn request_for_another_tool_list_ends_the_run() {
    let model = ScriptedModel::new();
    let hook =
        |_, _| ready(Ok(RequestDraft::new(&ToolList::default(), ToolChoice::Auto, ChatSettings::default())));
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).prepare(hook).build().unwrap();
    let error = agent.run("Hi").await.unwrap_err();
    let AgentErrorKind::HookFailed { source, .. } = &*error.kind else { panic!("{error:?}") };
    let text = "the returned request is for another tool list: change the request that the hook receives";
    assert_eq!((source.to_string().as_str(), model.requests().len()), (text, 0));
}

/// Creates an agent with outputs. A source of its tools has a tool with the reserved name `finish`.
fn agent_with_reserved_tool(model: &ScriptedModel) -> ReactAgentBuilder {
    let finish = tool_without_parameters("finish", || async { "no" });
    let outputs = Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
    ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_source(DynamicSource::new(finish)))
        .outputs(outputs)
}

/// The dialect replaces a tool of a source that has the reserved name. A hook that does not touch
/// this tool must not turn it into an error.
#[tokio::test]
async fn hook_does_not_reject_a_reserved_name_of_a_source() {
    let script = || ScriptedModel::new().reply_calls([("a", "finish", r#"{"sum":2}"#)]);
    for has_hook in [false, true] {
        let model = script();
        let mut builder = agent_with_reserved_tool(&model);
        if has_hook {
            builder = builder.dynamic_instructions(|_| ready(Ok("Be brief.".to_owned())));
        }
        let answer = builder.build().unwrap().run("1 + 1?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.outputs["sum"], 2);
    }
    let with_dialect = agent_with_reserved_tool(&ScriptedModel::new()).prepare(|mut request, _| {
        request.use_dialect(TextReact);
        ready(Ok(request))
    });
    let error = with_dialect.build().unwrap().run("1 + 1?").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::HookFailed { .. }), "{error:?}");
}

#[tokio::test]
async fn hidden_tool_cannot_be_forced() {
    let model = ScriptedModel::new().reply_calls(ADD).fail(ModelError::ContextTooLong("too much".to_owned()));
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator().with_tool(tool_without_parameters("look", || async {})))
        .prepare(|mut request, cx| async move {
            if cx.step == 1 {
                request.tool_choice = ToolChoice::Tool("look".try_into()?);
            } else {
                request.hide_tool("look");
            }
            Ok(request)
        })
        .build()
        .unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::ContextTooLong(_))), "{error:?}");
    assert_eq!(model.requests()[1].tool_choice, ToolChoice::Tool("look".try_into().unwrap()));

    let agent = ReactAgent::builder(ScriptedModel::new())
        .tools(calculator())
        .prepare(|mut request, _| async move {
            request.tool_choice = ToolChoice::Tool("add".try_into()?);
            request.hide_tool("add");
            Ok(request)
        })
        .build()
        .unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::UnavailableToolChoice { .. }), "{error:?}");
}

#[tokio::test]
async fn request_after_a_rejected_reply_is_prepared() {
    let schema = serde_json::json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let model = ScriptedModel::new()
        .reply_text("")
        .reply_text("no JSON")
        .reply_text("no JSON")
        .reply_text(r#"{"sum":2}"#);
    let agent = ReactAgent::builder(model.clone())
        .max_output_retries(5)
        .outputs(Schema::new(schema).unwrap())
        .dynamic_instructions(|cx| ready(Ok(format!("{} of {}", cx.step, cx.transcript.len()))))
        .build()
        .unwrap();
    agent.run("1 + 1?").await.unwrap();
    let texts: Vec<_> = model.requests().iter().map(instructions_of).collect();
    assert_eq!(texts, ["0 of 1", "1 of 1", "2 of 3", "3 of 5"]);
}
