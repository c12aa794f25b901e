//! Tests of the driver with scripted models.

use std::{error::Error, future::pending, process::Command, time::Duration};

use haft_core::{
    RunInput, Schema, Tool, ToolDefinition, ToolError, ToolExt as _, ToolName, ToolResult, Toolset,
    Transcript,
    agent::{AgentError, AgentErrorKind, Limit, RunAnswer, RunLimits},
    call::{Decision, FailureKind, PendingCall},
    limits,
    message::MessageBody,
    model::ModelError,
    tool::{DynamicTool, RunContext, StateType, ToolPolicy},
    usage::Usage,
};
use haft_react::{Extension, OutputError, QueueHandle, Run, RunHandle, run::Delivery};
use haft_testing::ScriptedModel;
use own_driver::{Member, Team, transfer_to};

fn tool(name: &str, policy: ToolPolicy) -> impl Tool + 'static {
    let definition = ToolDefinition::new(ToolName::sanitize(name), Schema::object());
    DynamicTool::new(definition, |_, _| async { "done" }).with_definition(|it| it.with_policy(policy))
}

fn hang() -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::sanitize("hang"), Schema::object());
    DynamicTool::new(definition, |_, _| async {
        pending::<()>().await;
        "never"
    })
}

fn team_of_one(model: ScriptedModel, tools: Toolset) -> Team {
    Team::new([("one", Member::new(model, "Work.", tools, []).unwrap())])
}

/// Creates a team of one agent with the extension `extension` and without tools, and runs it.
async fn run_with(model: ScriptedModel, extension: Extension) -> Result<RunAnswer, AgentError> {
    let team = Team::new([("one", Member::new(model, "Work.", Toolset::new(), [extension]).unwrap())]);
    let mut run = team.begin("one", "Go.".into())?;
    Ok(team.drive(&mut run, "one", RunContext::default(), &deny_all).await?.1)
}

/// Creates the tool `sell`, which pushes `count` calls to the tool `look`. Its result is the
/// placeholders, or an error if the queue is full.
fn sell(count: usize) -> impl Tool + 'static {
    let definition = ToolDefinition::new(ToolName::sanitize("sell"), Schema::object());
    let tool = DynamicTool::new(definition, move |_, cx| {
        let push = || cx.state::<QueueHandle>()?.push_call("look", serde_json::json!({}));
        let pushed: Result<Vec<_>, ToolError> = (0..count).map(|_| push()).collect();
        async move { pushed.map(|placeholders| placeholders.join(" ")) }
    });
    tool.with_definition(|it| it.with_state_type(StateType::of::<QueueHandle>()))
}

fn deny_all(_: &PendingCall) -> Decision {
    Decision::denied("no approvals here")
}

fn results(transcript: &Transcript) -> Vec<&ToolResult> {
    let results = transcript.messages().iter().filter_map(|message| match message.body() {
        MessageBody::Tool(result) => Some(&**result),
        _ => None,
    });
    results.collect()
}

/// Asserts that each call in `transcript` has exactly one result, and that results are in the order
/// of the calls.
fn assert_paired(transcript: &Transcript) {
    let calls = transcript.messages().iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
    assert!(calls.eq(results(transcript).iter().map(|result| &result.call_id)), "{transcript:?}");
}

#[test]
fn program_hands_off_and_requests_approvals() -> Result<(), Box<dyn Error>> {
    let output = Command::new(env!("CARGO_BIN_EXE_own-driver")).output()?;
    let expected = r#"  to approve: order {"item": "paper", "boxes": 30}
  to approve: order {"item": "paper", "boxes": 3}
  price {"item":"paper"} -> 499
  transfer_to_orders {} -> handed over
  order {"item":"paper","boxes":30} -> denied: at most 5 boxes
  order {"item":"paper","boxes":3} -> 3 boxes of paper are ordered
orders: 3 boxes of paper are on their way, for 14.97.
"#;
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.status.success());
    Ok(())
}

#[tokio::test]
async fn handoff_keeps_the_limits_of_the_run() -> Result<(), Box<dyn Error>> {
    let first = ScriptedModel::new().reply_calls([("a", "look", "{}"), ("b", "transfer_to_second", "{}")]);
    let second = ScriptedModel::new().reply_calls([("c", "look", "{}")]).reply_text("Done.");
    let looking = || Toolset::new().with_tool(tool("look", ToolPolicy::default()));
    let team = Team::new([
        ("first", Member::new(first, "Begin.", looking().with_tool(transfer_to("second")), [])?),
        ("second", Member::new(second.clone(), "End.", looking(), [])?),
    ]);
    let mut run = team.begin("first", "Go.".into())?;
    let (agent, answer) = team.drive(&mut run, "first", RunContext::default(), &deny_all).await?;
    assert_eq!((&*agent, &*answer.text, answer.usage.requests), ("second", "Done.", 3));
    assert_paired(&answer.transcript);
    let request = &second.requests()[0];
    assert_eq!(request.instructions.as_ref().map(|message| message.text()).as_deref(), Some("End."));
    assert!(request.tools.get("transfer_to_second").is_none());

    // The limit of the run must still apply after the hand-off to the second agent.
    let first = ScriptedModel::new().reply_calls([("a", "transfer_to_second", "{}")]);
    let team = Team::new([
        ("first", Member::new(first, "Begin.", Toolset::new().with_tool(transfer_to("second")), [])?),
        ("second", Member::new(second, "End.", looking(), [])?),
    ]);
    let limits = RunLimits { requests: Some(1), ..RunLimits::default() };
    let mut run = team.begin("first", RunInput::new("Go.").with_limits(limits))?;
    let error = team.drive(&mut run, "first", RunContext::default(), &deny_all).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Requests(1))), "{error}");
    Ok(())
}

#[tokio::test]
async fn each_call_has_its_own_approval() -> Result<(), Box<dyn Error>> {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let model =
        ScriptedModel::new().reply_calls([("a", "pay", "{}"), ("b", "pay", "{}")]).reply_text("Paid.");
    let team = team_of_one(model, Toolset::new().with_tool(tool("pay", policy)));
    let mut run = team.begin("one", "Pay.".into())?;
    let decide = |call: &PendingCall| match &*call.call.id {
        "a" => Decision::approved(),
        _ => Decision::denied("once is enough"),
    };
    let (_, answer) = team.drive(&mut run, "one", RunContext::default(), &decide).await?;
    let texts: Vec<_> = results(&answer.transcript).iter().map(|result| result.model_text()).collect();
    assert_eq!(texts, ["done", "denied: once is enough"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_the_run() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_calls([("a", "hang", "{}"), ("b", "look", "{}")]);
    let team =
        team_of_one(model, Toolset::new().with_tool(hang()).with_tool(tool("look", ToolPolicy::default())));
    let limits = RunLimits { time: Some(Duration::from_secs(5)), ..RunLimits::default() };
    let mut run = team.begin("one", RunInput::new("Go.").with_limits(limits))?;
    let error = team.drive(&mut run, "one", RunContext::default(), &deny_all).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::Time(_))), "{error}");
    assert_paired(&error.transcript);
    let kinds: Vec<_> = results(&error.transcript).iter().map(|it| it.failure().map(|it| it.kind)).collect();
    assert_eq!(kinds, [Some(FailureKind::TimedOut), None]);
    Ok(())
}

#[tokio::test]
async fn cancelled_run_has_a_result_for_each_call() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_calls([("a", "look", "{}"), ("b", "hang", "{}")]);
    let team =
        team_of_one(model, Toolset::new().with_tool(hang()).with_tool(tool("look", ToolPolicy::default())));
    let mut run = team.begin("one", "Go.".into())?;
    let context = RunContext::default();
    let token = context.cancellation.clone();
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(team.drive(&mut run, "one", context, &deny_all), cancel);
    let error = ended.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled), "{error}");
    assert_paired(&error.transcript);
    Ok(())
}

/// A driver is dropped during a call. Another driver must be able to load the run from JSON and
/// continue it.
#[tokio::test]
async fn run_survives_its_driver() -> Result<(), Box<dyn Error>> {
    let model =
        ScriptedModel::new().reply_calls([("a", "hang", "{}"), ("b", "look", "{}")]).reply_text("Done.");
    let team =
        team_of_one(model, Toolset::new().with_tool(hang()).with_tool(tool("look", ToolPolicy::default())));
    let mut run = team.begin("one", "Go.".into())?;
    let drive = team.drive(&mut run, "one", RunContext::default(), &deny_all);
    assert!(tokio::time::timeout(Duration::from_millis(50), drive).await.is_err());

    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run)?)?;
    let interrupted: Vec<_> = run.interrupted_calls().into_iter().map(|call| call.id).collect();
    assert_eq!(interrupted, ["a"]);
    let (_, answer) = team.drive(&mut run, "one", RunContext::default(), &deny_all).await?;
    assert_eq!(answer.text, "Done.");
    let kinds: Vec<_> = results(&answer.transcript).iter().map(|it| it.failure().map(|it| it.kind)).collect();
    assert_eq!(kinds, [Some(FailureKind::Unconfirmed), None]);
    Ok(())
}

#[tokio::test]
async fn hook_changes_the_request() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_text("Done.");
    let brief = Extension::new("brief").instructions("Be brief.").prepare(|mut request, cx| async move {
        request.settings.max_tokens = Some(10);
        request.instructions.push(format!("Step {}.", cx.step));
        Ok(request)
    });
    run_with(model.clone(), brief).await?;
    let request = &model.requests()[0];
    let instructions = request.instructions.as_ref().map(|message| message.text());
    assert_eq!(instructions.as_deref(), Some("Work.\n\nBe brief.\n\nStep 0."));
    assert_eq!(request.settings.max_tokens, Some(10));
    Ok(())
}

#[tokio::test]
async fn hook_replaces_a_reply() -> Result<(), Box<dyn Error>> {
    let secret = Extension::new("secret").after_reply(|mut reply, _| async move {
        reply.message = "It is secret.".into();
        Ok(reply)
    });
    assert_eq!(run_with(ScriptedModel::new().reply_text("It is 1234."), secret).await?.text, "It is secret.");
    Ok(())
}

#[tokio::test]
async fn validator_rejects_an_answer() -> Result<(), Box<dyn Error>> {
    let polite = Extension::new("polite").output_validator(|output, cx| async move {
        cx.entries.update("outputs", |count: &mut u32| *count += 1).map_err(OutputError::failed)?;
        if output.text.ends_with("please.") { Ok(output) } else { Err(OutputError::retry("say please")) }
    });
    let model = ScriptedModel::new().reply_text("Sit.").reply_text("Sit, please.");
    let team = Team::new([("one", Member::new(model, "Work.", Toolset::new(), [polite])?)]);
    let mut run = team.begin("one", "Go.".into())?;
    let (_, answer) = team.drive(&mut run, "one", RunContext::default(), &deny_all).await?;
    assert_eq!(answer.text, "Sit, please.");
    // The entries that the hook has changed are part of the run.
    assert_eq!(run.extension_entries()["polite"]["outputs"], 2);
    Ok(())
}

#[tokio::test]
async fn failed_hook_ends_the_run() {
    let failing = Extension::new("failing").after_reply(|_, _| async { Err("no".into()) });
    let error = run_with(ScriptedModel::new().reply_text("Hi."), failing).await.unwrap_err();
    assert!(matches!(&*error.kind, AgentErrorKind::HookFailed { hook: "reply hook", .. }), "{error}");
    assert_eq!(error.usage.requests, 1);
}

/// The driver delivers the messages of a handle, and closes the handle when the run ends.
#[tokio::test]
async fn handle_sends_messages_to_the_run() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_text("A poem about the sea.").reply_text("A poem about the sky.");
    let team = team_of_one(model, Toolset::new());
    let handle = RunHandle::new();
    handle.enqueue("And the sky?", Delivery::Idle)?;
    let input = handle.bind("Write a poem about the sea.");
    let context = input.context.clone();
    let mut run = team.begin("one", input)?;
    let (_, answer) = team.drive(&mut run, "one", context, &deny_all).await?;
    assert_eq!(answer.text, "A poem about the sky.");
    assert!(handle.enqueue("Too late.", Delivery::Idle).is_err());
    Ok(())
}

/// The calls that a tool pushes are executed before its call has a result. In this result, their
/// results replace the placeholders.
#[tokio::test]
async fn tool_pushes_calls() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_calls([("a", "sell", "{}")]).reply_text("Sold.");
    let tools = Toolset::new().with_tool(sell(2)).with_tool(tool("look", ToolPolicy::default()));
    let team = team_of_one(model.clone(), tools);
    let mut run = team.begin("one", "Sell.".into())?;
    let (_, answer) = team.drive(&mut run, "one", RunContext::default(), &deny_all).await?;
    assert_eq!((&*answer.text, answer.steps[0].result.model_text()), ("Sold.", "done done".into()));
    let last = model.requests()[1].messages.iter().last().map(|message| message.text());
    assert_eq!(last.as_deref(), Some("done done"));
    assert_eq!(run.transcript().len(), 4);
    Ok(())
}

/// A call can push only a limited number of calls. A call that exceeds this quota fails, and its
/// pushed calls are not executed.
#[tokio::test]
async fn pushed_calls_have_a_quota() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_calls([("a", "sell", "{}")]).reply_text("Too many.");
    let tools = Toolset::new()
        .with_tool(sell(limits::QUEUE_CALLS_TOTAL + 1))
        .with_tool(tool("look", ToolPolicy::default()));
    let team = team_of_one(model, tools);
    let mut run = team.begin("one", "Sell.".into())?;
    let (_, answer) = team.drive(&mut run, "one", RunContext::default(), &deny_all).await?;
    let text = answer.steps[0].result.model_text();
    assert!(text.contains("no more calls can be pushed"), "{text}");
    assert_eq!(answer.steps.len(), 1);
    Ok(())
}

/// Creates the tool `say`, which enqueues a message through `handle`. Its result is an error if the
/// handle is closed.
fn say(handle: &RunHandle) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::sanitize("say"), Schema::object());
    let handle = handle.clone();
    DynamicTool::new(definition, move |_, _| {
        let said = handle.enqueue("Hurry.", Delivery::NextRequest).map_err(ToolError::failed);
        async move { said.map(|()| "said") }
    })
}

/// Creates a team in which the member "first" has `tools` and can hand off to the member "second".
fn team_of_two(first: ScriptedModel, tools: Toolset, second: ScriptedModel) -> Team {
    Team::new([
        ("first", Member::new(first, "Begin.", tools.with_tool(transfer_to("second")), []).unwrap()),
        ("second", Member::new(second, "End.", Toolset::new(), []).unwrap()),
    ])
}

fn approve_all(_: &PendingCall) -> Decision {
    Decision::approved()
}

fn with_approval() -> ToolPolicy {
    ToolPolicy { requires_approval: true, ..ToolPolicy::default() }
}

#[tokio::test]
async fn handle_stays_open_after_an_approval() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new()
        .reply_calls([("a", "pay", "{}")])
        .reply_calls([("b", "say", "{}")])
        .reply_text("Done.");
    let handle = RunHandle::new();
    let tools = Toolset::new().with_tool(tool("pay", with_approval())).with_tool(say(&handle));
    let team = team_of_one(model.clone(), tools);
    let input = handle.bind("Go.");
    let context = input.context.clone();
    let mut run = team.begin("one", input)?;
    let (_, answer) = team.drive(&mut run, "one", context, &approve_all).await?;
    assert_eq!(answer.steps[1].result.model_text(), "said");
    let last = model.requests()[2].messages.iter().last().map(|message| message.text());
    assert_eq!(last.as_deref(), Some("Hurry."));
    Ok(())
}

/// Enqueued messages follow the results of a step. They must not hide the hand-off of this step. A
/// hand-off also waits for the approval of a pushed call.
#[tokio::test]
async fn handoff_follows_pushed_calls_and_messages() -> Result<(), Box<dyn Error>> {
    for policy in [ToolPolicy::default(), with_approval()] {
        let handle = RunHandle::new();
        let calls = [("a", "sell", "{}"), ("b", "say", "{}"), ("c", "transfer_to_second", "{}")];
        let second = ScriptedModel::new().reply_text("Done.");
        let tools = Toolset::new().with_tool(sell(1)).with_tool(say(&handle)).with_tool(tool("look", policy));
        let team = team_of_two(ScriptedModel::new().reply_calls(calls), tools, second);
        let input = handle.bind("Go.");
        let context = input.context.clone();
        let mut run = team.begin("first", input)?;
        let (agent, answer) = team.drive(&mut run, "first", context, &approve_all).await?;
        assert_eq!((&*agent, &*answer.text), ("second", "Done."));
        assert_paired(&answer.transcript);
    }
    Ok(())
}

#[tokio::test]
async fn failed_run_continues_with_the_member_of_the_last_handoff() -> Result<(), Box<dyn Error>> {
    let first = ScriptedModel::new().reply_calls([("a", "transfer_to_second", "{}")]);
    let second = ScriptedModel::new().fail(ModelError::failed("503")).reply_text("Done.");
    let team = team_of_two(first, Toolset::new(), second);
    let mut run = team.begin("first", "Go.".into())?;
    team.drive(&mut run, "first", RunContext::default(), &deny_all).await.unwrap_err();
    let mut run: Run = serde_json::from_str(&serde_json::to_string(&run)?)?;
    let (agent, answer) = team.drive(&mut run, "first", RunContext::default(), &deny_all).await?;
    assert_eq!((&*agent, &*answer.text), ("second", "Done."));
    Ok(())
}

/// A child agent uses up the tokens of the run, so no further request is allowed.
#[tokio::test]
async fn usage_of_child_agents_counts_towards_the_limits() -> Result<(), Box<dyn Error>> {
    let definition = ToolDefinition::new(ToolName::sanitize("research"), Schema::object());
    let research = DynamicTool::new(definition, |_, cx| async move {
        cx.report_usage(Usage::one_request(1_000, 0));
        "found"
    });
    let model = ScriptedModel::new().reply_calls([("a", "research", "{}")]);
    let team = team_of_one(model, Toolset::new().with_tool(research));
    let limits = RunLimits { total_tokens: Some(500), ..RunLimits::default() };
    let mut run = team.begin("one", RunInput::new("Go.").with_limits(limits))?;
    let error = team.drive(&mut run, "one", RunContext::default(), &deny_all).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::TotalTokens(500))), "{error}");
    Ok(())
}

/// The transcript of an error has a result for each call, although the run itself can continue.
#[tokio::test]
async fn error_during_open_calls_has_a_closed_transcript() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new().reply_calls([("a", "look", "{}")]);
    let team = team_of_one(model, Toolset::new().with_tool(tool("look", with_approval())));
    let mut run = team.begin("one", "Go.".into())?;
    let wrong = |_: &PendingCall| Decision::output("not an approval");
    let error = team.drive(&mut run, "one", RunContext::default(), &wrong).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::UnexpectedOutcome(_)), "{error}");
    assert_paired(&error.transcript);
    assert_eq!(run.pending_calls().len(), 1);
    Ok(())
}
