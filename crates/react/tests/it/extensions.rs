//! Tests of extensions: the order of hooks, the entries saved with a run, limits, and each kind of
//! hook.

use std::sync::{Arc, Mutex};

use expect_test::expect;
use futures::StreamExt as _;
use haft_core::{
    ChatModel, Pipeline, RunEvent, RunInput, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, SuspendedRun},
    call::{Pending, PendingKind, ToolError, ToolResponse},
    export::async_trait,
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    pipeline::{CallRecord, Recorder},
    schema::RepairPolicy,
    tool,
    tool::RunContext,
    usage::{Cost, Prices, Usage},
};
use haft_middleware::FallbackModel;
use haft_react::{AgentBuildError, Extension, Guardrail, ReactAgent, Run, Verdict, entries::Entries};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::message_lines,
    tools::{add_tool, calculator, tool_without_parameters},
};

/// A log of events that several hooks share.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, event: impl Into<String>) {
        self.0.lock().unwrap().push(event.into());
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join("\n") + "\n"
    }
}

/// A model that logs the beginning and the end of each model request.
struct LoggingModel {
    model: Arc<dyn ChatModel>,
    name: &'static str,
    log: Log,
}

#[async_trait]
impl ChatModel for LoggingModel {
    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.log.push(format!("{}: request begins", self.name));
        let reply = self.model.chat(request).await;
        self.log.push(format!("{}: request ends", self.name));
        reply
    }
}

/// Creates the extension `name`. Each of its hooks logs its calls, except the hook for dynamic
/// instructions.
fn logging(name: &'static str, log: &Log) -> Extension {
    let [prepare, calls, results, replies, outputs, models] = [(); 6].map(|()| log.clone());
    Extension::new(name)
        .instructions(format!("Static {name}."))
        .dynamic_instructions(move |_| async move { Ok(format!("Dynamic {name}.")) })
        .prepare(move |request, _| {
            prepare.push(format!("{name}: prepare"));
            async { Ok(request) }
        })
        .adapt_model(move |model| Arc::new(LoggingModel { model, name, log: models.clone() }))
        .guardrail(Guardrail::call(name, move |_, _| {
            calls.push(format!("{name}: call"));
            async { Ok(Verdict::Pass) }
        }))
        .guardrail(Guardrail::result(name, move |_, _| {
            results.push(format!("{name}: result"));
            async { Ok(Verdict::Pass) }
        }))
        .after_reply(move |_, _| {
            replies.push(format!("{name}: reply"));
            async { Ok(Verdict::Pass) }
        })
        .output_validator(move |_, _| {
            outputs.push(format!("{name}: output"));
            async { Ok(Verdict::Pass) }
        })
}

/// Counts its calls in an entry of the extension `counter`.
#[tool]
fn count(#[tool(state)] entries: Entries) -> Result<u32, ToolError> {
    let counter = entries.for_extension("counter");
    let count = |calls: &mut u32| {
        *calls += 1;
        *calls
    };
    counter.update("calls", count).map_err(ToolError::failed)
}

/// Creates an extension with the tool `count`. The instructions of the extension contain the number
/// of calls so far.
fn counter() -> Extension {
    Extension::new("counter").tools(Toolset::new().with_tool(Count)).dynamic_instructions(|cx| async move {
        let calls: u32 = cx.entries.get("calls")?.unwrap_or_default();
        Ok(format!("Calls: {calls}."))
    })
}

#[tokio::test]
async fn hooks_run_in_the_documented_order() {
    let log = Log::default();
    let own = log.clone();
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("2");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .instructions("Agent.")
        .prepare(move |request, _| {
            own.push("agent: prepare");
            async { Ok(request) }
        })
        .extension(logging("one", &log))
        .extension(logging("two", &log))
        .build()
        .unwrap();

    agent.run("1 + 1?").await.unwrap().text().unwrap();

    expect![[r#"
        agent: prepare
        one: prepare
        two: prepare
        one: request begins
        two: request begins
        two: request ends
        one: request ends
        one: reply
        two: reply
        one: call
        two: call
        one: result
        two: result
        agent: prepare
        one: prepare
        two: prepare
        one: request begins
        two: request begins
        two: request ends
        one: request ends
        one: reply
        two: reply
        one: output
        two: output
    "#]]
    .assert_eq(&log.take());
    expect!["Agent.\n\nStatic one.\n\nStatic two.\n\nDynamic one.\n\nDynamic two."]
        .assert_eq(&model.requests()[0].instructions.as_ref().unwrap().text());
}

#[tokio::test]
async fn entries_are_saved_with_the_run() {
    let external = tool_without_parameters("draw", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let model = ScriptedModel::new()
        .reply_calls([("a", "count", "{}"), ("b", "draw", "{}")])
        .reply_calls([("c", "count", "{}")])
        .reply_text("Done.");
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(external))
        .extension(counter())
        .build()
        .unwrap();

    let suspended = agent.run("Draw.").await.unwrap().into_answer().unwrap_err();
    assert_eq!(suspended.checkpoint["data"]["entries"], json!({"counter": {"calls": 1}}));
    let suspended: SuspendedRun = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let run = Run::from_suspended(suspended.clone()).unwrap();
    assert_eq!(run.entries()["counter"]["calls"], 1);

    let decisions = [("b".to_owned(), haft_core::call::Decision::output("a cat"))].into();
    agent.run(RunInput::resume(suspended, decisions)).await.unwrap().text().unwrap();
    let instructions: Vec<_> =
        model.requests().iter().map(|request| request.instructions.as_ref().unwrap().text()).collect();
    assert_eq!(instructions, ["Calls: 0.", "Calls: 1.", "Calls: 2."]);
}

#[tokio::test]
async fn parallel_calls_do_not_overwrite_entries() {
    let ids: [String; 16] = std::array::from_fn(|number| format!("call_{number}"));
    let calls = ids.each_ref().map(|id| (id.as_str(), "count", "{}"));
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Done.");
    let agent = ReactAgent::builder(model.clone()).extension(counter()).build().unwrap();
    agent.run("Count.").await.unwrap().text().unwrap();
    assert_eq!(model.requests()[1].instructions.as_ref().unwrap().text(), "Calls: 16.");
}

#[tokio::test]
async fn each_run_has_its_own_entries() {
    let model = ScriptedModel::new().reply_calls([("a", "count", "{}")]).reply_text("1").reply_text("0");
    let agent = ReactAgent::builder(model.clone()).extension(counter()).build().unwrap();
    agent.run("Count.").await.unwrap();
    agent.run("Again.").await.unwrap();
    assert_eq!(model.requests()[2].instructions.as_ref().unwrap().text(), "Calls: 0.");
}

#[tokio::test]
async fn reply_hook_changes_the_reply() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":1,"y":1}"#), ("b", "delete", "{}")])
        .reply_text("My password is 1234.");
    let forbid = Extension::new("guard").after_reply(|mut reply, _| async move {
        reply.message.tool_calls.retain(|call| call.name != "delete");
        if reply.message.text().contains("1234") {
            reply.message = "My password is secret.".into();
        }
        Ok(Verdict::Replace(reply))
    });
    let deletes = tool_without_parameters("delete", || async { "deleted" });
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(add_tool()).with_tool(deletes))
        .extension(forbid)
        .build()
        .unwrap();

    let output = agent.run("Hi").await.unwrap();
    assert_eq!(output.text().unwrap(), "My password is secret.");
    expect![[r#"
        user: Hi
        assistant: a add{"x":1,"y":1}
        tool: a 2
    "#]]
    .assert_eq(&message_lines(&model.requests()[1]));
}

#[tokio::test]
async fn lowest_limit_applies_unless_the_input_overrides_it() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("2");
    let limits = |requests| RunLimits { requests: Some(requests), ..RunLimits::NONE };
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .limits(limits(7))
        .extension(Extension::new("one").limits(limits(1)))
        .extension(Extension::new("two").limits(RunLimits { tool_calls: Some(3), ..RunLimits::NONE }))
        .build()
        .unwrap();
    assert_eq!(agent.config().limits, RunLimits { tool_calls: Some(3), ..limits(1) });

    let error = agent.run("1 + 1?").await.unwrap_err();
    assert!(matches!(&*error.kind, AgentErrorKind::LimitReached(Limit::Requests(1))), "{error}");
    let mut input = RunInput::new("1 + 1?");
    input.limits = Some(limits(5));
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "2");
}

/// The error of a failed or panicking hook names the hook and its extension.
#[tokio::test]
async fn error_of_a_hook_names_the_extension() {
    type Hook = (&'static str, Extension);
    let extensions = |name: &str| -> [Hook; 4] {
        let extension = Extension::new(name);
        [
            (
                "dynamic instructions hook",
                extension.clone().dynamic_instructions(|_| async { Err("no".into()) }),
            ),
            ("prepare hook", extension.clone().prepare(|_, _| async { Err("no".into()) })),
            ("reply hook", extension.clone().after_reply(|_, _| async { Err("no".into()) })),
            ("output validator", extension.output_validator(|_, _| async { Err("no".into()) })),
        ]
    };
    let panicking = |name: &str| -> [Hook; 4] {
        let extension = Extension::new(name);
        [
            ("dynamic instructions hook", extension.clone().dynamic_instructions(|_| async { panic!("no") })),
            ("prepare hook", extension.clone().prepare(|_, _| async { panic!("no") })),
            ("reply hook", extension.clone().after_reply(|_, _| async { panic!("no") })),
            ("output validator", extension.output_validator(|_, _| async { panic!("no") })),
        ]
    };
    let hooks = extensions("failing").into_iter().map(|hook| ("failing", "no", hook));
    let panicking = panicking("panicking").into_iter().map(|hook| ("panicking", "it panicked", hook));
    for (name, problem, (hook, extension)) in hooks.chain(panicking) {
        let is_after_reply = ["reply hook", "output validator"].contains(&hook);
        let model =
            if is_after_reply { ScriptedModel::new().reply_text("Hi.") } else { ScriptedModel::new() };
        let agent = ReactAgent::builder(model).extension(extension).build().unwrap();
        let error = agent.run("Hi").await.unwrap_err();
        let AgentErrorKind::HookFailed { hook: failed, source } = &*error.kind else { panic!("{error:?}") };
        let cause = source.source().map(ToString::to_string);
        let extension = format!("in the extension {name:?}");
        assert_eq!((*failed, source.to_string(), cause), (hook, extension, Some(problem.to_owned())));
        // The usage of a reply is counted even if its hook fails.
        assert_eq!(error.usage.requests, u64::from(is_after_reply), "{hook}");
    }
}

/// A reply hook can change the message of a reply, but not its usage.
#[tokio::test]
async fn reply_hook_cannot_change_the_usage() {
    let usage = Usage::one_request(100, 10);
    let model = ScriptedModel::new().reply(ChatResponse { usage, ..ChatResponse::new("Hi.") });
    let free = Extension::new("free").after_reply(|mut reply, _| async move {
        reply.usage = Usage::default();
        Ok(Verdict::Replace(reply))
    });
    let agent = ReactAgent::builder(model).extension(free).build().unwrap();
    assert_eq!(agent.run("Hi").await.unwrap().into_answer().unwrap().usage, usage);
}

/// If `adapt_model` adds a fallback model, the agent still computes the cost of its replies.
#[tokio::test]
async fn fallback_of_an_extension_keeps_its_price() {
    let usage = Usage::one_request(1_000_000, 0);
    let broken = ScriptedModel::new().fail(ModelError::Unsupported("broken".to_owned()));
    let cheap = ScriptedModel::new().with_profile(ModelProfile::new("cheap")).reply(ChatResponse {
        usage,
        model: Some("cheap".to_owned()),
        ..ChatResponse::new("Hi.")
    });
    let fallback = Extension::new("fallback")
        .adapt_model(move |model| Arc::new(FallbackModel::new(model).with_fallback(cheap.clone())));
    let prices: Prices = serde_json::from_value(json!({
        "scripted": {"input": 5, "output": 0},
        "cheap": {"input": 2, "output": 0},
    }))
    .unwrap();
    let agent = ReactAgent::builder(broken).prices(prices).extension(fallback).build().unwrap();
    let answer = agent.run("Hi").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.usage.cost, Cost::new(2.0));
}

/// The entries changed by a call are saved before its event, so a driver that is dropped at this
/// event loses none of them.
#[tokio::test]
async fn entries_survive_a_driver_dropped_after_a_call() {
    let model = ScriptedModel::new().reply_calls([("a", "count", "{}")]);
    let agent = ReactAgent::builder(model).extension(counter()).build().unwrap();
    let mut run = agent.create_run("Count.".into()).unwrap();
    let mut events = agent.drive(&mut run, RunContext::default());
    loop {
        match events.next().await {
            Some(Ok(RunEvent::CallFinished { .. })) => break,
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(events);
    assert_eq!(run.entries()["counter"]["calls"], 1);
}

/// A tool can take [`Entries`] as state, even if the agent has no extension.
#[tokio::test]
async fn tool_can_use_entries_without_an_extension() {
    let model =
        ScriptedModel::new().reply_calls([("a", "count", "{}"), ("b", "count", "{}")]).reply_text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Count)).unwrap();
    let mut run = agent.create_run("Count.".into()).unwrap();
    let events: Vec<_> = agent.drive(&mut run, RunContext::default()).collect().await;
    assert!(matches!(events.last(), Some(Ok(RunEvent::Done { .. }))), "{events:?}");
    assert_eq!(run.entries()["counter"]["calls"], 2);
}

#[tokio::test]
async fn validators_of_extensions_reject_answers() {
    let polite = Extension::new("polite").output_validator(|output, _| async move {
        if output.text.ends_with("please.") { Ok(Verdict::Pass) } else { Ok(Verdict::retry("say please")) }
    });
    let model = ScriptedModel::new().reply_text("Sit.").reply_text("Sit, please.");
    let agent = ReactAgent::builder(model).extension(polite).build().unwrap();
    assert_eq!(agent.run("Command the dog.").await.unwrap().text().unwrap(), "Sit, please.");
}

#[test]
fn names_are_unique_and_tools_are_checked_at_construction() {
    let build = |extensions: Vec<Extension>| {
        let builder = ReactAgent::builder(ScriptedModel::new()).tools(calculator());
        extensions.into_iter().fold(builder, haft_react::ReactAgentBuilder::extension).build()
    };
    for names in [&["one", "one"][..], &[""]] {
        let extensions = names.iter().map(|name| Extension::new(*name)).collect();
        assert!(
            matches!(build(extensions), Err(AgentBuildError::InvalidExtensionName(name)) if name == names[0])
        );
    }
    assert!(matches!(
        build(vec![Extension::new("sum").tools(calculator())]),
        Err(AgentBuildError::InvalidTools(_))
    ));
    assert!(build(vec![counter()]).is_ok());
}

/// A hook that hides a tool does not change how other toolsets execute their calls. Here a nested
/// toolset must keep its strict pipeline, which does not repair arguments.
#[tokio::test]
async fn hidden_tool_leaves_the_pipelines_of_other_toolsets() {
    let strict = Pipeline::new().with_repair(RepairPolicy::Strict);
    let nested = Extension::new("nested").tools(calculator().with_pipeline(strict));
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":"1","y":1}"#)]).reply_text("Done.");
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(tool_without_parameters("other", || async {})))
        .extension(nested)
        .prepare(|mut request, _| async move {
            request.hide_tool("other");
            Ok(request)
        })
        .build()
        .unwrap();
    let output = agent.run("Add.").await.unwrap();
    let result = output.results_of("add").next().unwrap().model_text().into_owned();
    assert!(result.contains("/x: expected integer"), "{result}");
}

#[tokio::test]
async fn hooks_of_a_builder_have_saved_entries() {
    let external = tool_without_parameters("draw", || async {
        ToolResponse::Pending(Pending::new(PendingKind::External))
    });
    let model = ScriptedModel::new().reply_calls([("a", "draw", "{}")]).reply_text("Done.");
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(external))
        .dynamic_instructions(|cx| async move {
            let count: u32 = cx.entries.update("requests", |requests| {
                *requests += 1;
                *requests
            })?;
            Ok(format!("Request {count}."))
        })
        .build()
        .unwrap();

    let suspended = agent.run("Draw.").await.unwrap().into_answer().unwrap_err();
    let decisions = [("a".to_owned(), haft_core::call::Decision::output("a cat"))].into();
    agent.run(RunInput::resume(suspended, decisions)).await.unwrap().text().unwrap();
    let last = model.requests().last().unwrap().instructions.as_ref().unwrap().text();
    // The hook ran three times: for two requests, and for the open call of the resumed run.
    assert_eq!(last, "Request 3.");
}

#[tokio::test]
async fn call_hook_covers_the_tools_of_its_extension_in_any_order() {
    let deny = |extension: Extension| {
        extension.guardrail(Guardrail::call("never", |_, _| async { Ok(Verdict::block("never")) }))
    };
    let before = deny(Extension::new("guard")).tools(calculator());
    let after = deny(Extension::new("guard").tools(calculator()));
    for extension in [before, after] {
        let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("Done.");
        let agent = ReactAgent::builder(model).extension(extension).build().unwrap();
        let output = agent.run("Add.").await.unwrap();
        assert_eq!(output.results_of("add").next().unwrap().model_text(), "denied: never");
    }
}

/// If a hook removes all calls from a reply without text, the reply is rejected: the model gets a
/// hint and replies again.
#[tokio::test]
async fn reply_without_its_only_call_is_rejected() {
    let model =
        ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("I cannot add.");
    let forbid = Extension::new("forbid").after_reply(|mut reply, _| async move {
        reply.message.tool_calls.clear();
        Ok(Verdict::Replace(reply))
    });
    let agent = ReactAgent::builder(model.clone()).tools(calculator()).extension(forbid).build().unwrap();
    assert_eq!(agent.run("1 + 1?").await.unwrap().text().unwrap(), "I cannot add.");
    let hint = model.requests()[1].messages.iter().last().unwrap().text();
    assert_eq!(hint, "Your calls are not allowed. Do something else, or answer.");
}

/// If the closure that changes an entry panics, the entry keeps its value. The closure can read the
/// entries without a deadlock.
#[test]
fn failed_change_keeps_an_entry_and_a_change_can_read() {
    let entries = Entries::default().for_extension("counter");
    entries.set("calls", &1).unwrap();
    let panicking = std::panic::AssertUnwindSafe(|| entries.update("calls", |_: &mut u32| panic!("no")));
    assert!(std::panic::catch_unwind(panicking).is_err());
    let read = entries.update("calls", |calls: &mut u32| {
        *calls += 1;
        entries.get::<u32>("calls")
    });
    assert_eq!(read.unwrap().unwrap(), Some(1));
    assert_eq!(entries.get("calls").unwrap(), Some(2));
    assert!(entries.get::<String>("calls").is_err());
}

/// A recorder that logs the names of calls.
struct NameRecorder(&'static str, Log);

impl Recorder for NameRecorder {
    fn record(&self, record: &CallRecord<'_>) {
        self.1.push(format!("{}: {}", self.0, record.call.name));
    }
}

/// The recorder of an agent receives the calls to the tools of its toolset and of its extensions
/// once, in addition to their own recorders.
#[tokio::test]
async fn agent_adds_a_recorder_to_those_of_its_tools() {
    let log = Log::default();
    let recorder = |name| NameRecorder(name, log.clone());
    let own = Pipeline::new().with_recorder(recorder("first")).with_recorder(recorder("second"));
    let tools = Toolset::new().with_tool(add_tool()).with_pipeline(own).prefixed("my_");
    let plan = Toolset::new().with_tool(tool_without_parameters("plan", || async {}));
    let plan = plan.with_pipeline(Pipeline::new().with_recorder(recorder("extension")));
    let calls = [("1", "my_add", r#"{"x":1,"y":2}"#), ("2", "plan", "{}"), ("3", "made_up", "{}")];
    let model = ScriptedModel::new().reply_calls(calls).reply_text("Done.");
    let agent = ReactAgent::builder(model)
        .tools(tools)
        .extension(Extension::new("planner").tools(plan))
        .recorder(recorder("agent"))
        .build()
        .unwrap();
    agent.run("Go.").await.unwrap();
    let mut lines: Vec<_> = log.take().lines().map(str::to_owned).collect();
    lines.sort();
    expect![[r#"
        agent: made_up
        agent: my_add
        agent: plan
        extension: plan
        first: made_up
        first: my_add
        first: plan
        second: made_up
        second: my_add
        second: plan"#]]
    .assert_eq(&lines.join("\n"));
}
