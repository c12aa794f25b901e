//! Tests of the limits on the tokens of each request.

use expect_test::expect;
use haft_core::{
    RunInput, ToolCall, ToolExt as _, Toolset,
    agent::{AgentError, AgentErrorKind, Limit, RunLimits, StopReason, SuspendedRun},
    call::Decision,
    message::AssistantMessage,
    model::{ChatResponse, ChatSettings, FinishReason, ModelError},
    tool::ToolPolicy,
    usage::Usage,
};
use haft_react::{
    Extension, JsonReact, LimitAction, ReactAgent, ReactAgentBuilder, TextReact, run::ContextConfig,
};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::{calculator, tool_without_parameters},
};

/// Creates a reply with one call to `add`. The request has `input` tokens, the reply 10.
fn call(number: u32, input: u64) -> ChatResponse {
    let call = ToolCall::new("", "add", format!(r#"{{"x":{number},"y":1}}"#));
    let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    ChatResponse { usage: Usage::one_request(input, 10), ..ChatResponse::new(message) }
}

fn text(text: &str, input: u64) -> ChatResponse {
    ChatResponse { usage: Usage::one_request(input, 10), ..ChatResponse::new(text) }
}

/// Returns limits with `tokens` as the maximum number of input tokens of each request.
fn input_limit(tokens: u64) -> RunLimits {
    RunLimits { request_input_tokens: Some(tokens), ..RunLimits::default() }
}

fn output_limit(tokens: u32) -> RunLimits {
    RunLimits { request_output_tokens: Some(tokens), ..RunLimits::default() }
}

fn builder(model: &ScriptedModel) -> ReactAgentBuilder {
    ReactAgent::builder(model.clone()).tools(calculator())
}

fn message_counts(model: &ScriptedModel) -> Vec<usize> {
    model.requests().iter().map(|request| request.messages.len()).collect()
}

#[track_caller]
fn assert_limit(error: &AgentError, limit: u64, tokens: u64) {
    let expected = Limit::RequestInputTokens { limit, tokens };
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(it) if it == expected), "{error:?}");
    assert_paired(&error.transcript);
}

/// The first step cannot be omitted, so the run ends before its second request. The error has the
/// limit and the size of the request.
#[tokio::test]
async fn request_above_the_limit_ends_the_run() {
    let model = ScriptedModel::new().reply(call(1, 95));
    let error = builder(&model).limits(input_limit(100)).build().unwrap().run("Add.").await.unwrap_err();
    assert_limit(&error, 100, 105);
    assert_eq!((error.transcript.len(), error.usage.requests), (3, 1));
    expect!["a request of 105 tokens exceeds the limit of 100 input tokens per request"]
        .assert_eq(&error.to_string());
    let AgentErrorKind::LimitReached(limit) = *error.kind else { panic!("{error:?}") };
    expect![[r#"{"request_input_tokens":{"limit":100,"tokens":105}}"#]]
        .assert_eq(&serde_json::to_string(&limit).unwrap());

    // A request with exactly the limit is sent.
    let model = ScriptedModel::new().reply(call(1, 95)).reply_text("2");
    builder(&model).limits(input_limit(105)).build().unwrap().run("Add.").await.unwrap();
}

/// An answer is returned, even if its request exceeded the limit. The size of a first request and
/// of a request after a reply without usage is not known, and not limited.
#[tokio::test]
async fn unknown_size_is_not_limited() {
    let model = ScriptedModel::new().reply(text("2", 5_000));
    builder(&model).limits(input_limit(100)).build().unwrap().run("Add.").await.unwrap();

    let unreported = |number| ChatResponse { usage: Usage::default(), ..call(number, 0) };
    let model = ScriptedModel::new().reply(unreported(1)).reply(unreported(2)).reply_text("3");
    builder(&model).limits(input_limit(1)).build().unwrap().run("Add.").await.unwrap();
    assert_eq!(message_counts(&model), [1, 3, 5]);
}

/// The oldest step is omitted first. The run continues while each shortened request is within the
/// limit.
#[tokio::test]
async fn context_is_shortened_first() {
    let model =
        ScriptedModel::new().reply(call(1, 40)).reply(call(2, 95)).reply(call(3, 95)).reply(text("4", 95));
    let agent = builder(&model).limits(input_limit(100)).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "4");
    assert_eq!(message_counts(&model), [1, 3, 3, 3]);
}

/// A shortened request that still exceeds the limit ends the run, although another step could be
/// omitted. An answer to this request is returned.
#[tokio::test]
async fn shortened_request_above_the_limit_ends_the_run() {
    let start = || ScriptedModel::new().reply(call(1, 40)).reply(call(2, 95));
    let model = start().reply(call(3, 120));
    let error = builder(&model).limits(input_limit(100)).build().unwrap().run("Add.").await.unwrap_err();
    assert_limit(&error, 100, 120);
    assert_eq!(message_counts(&model), [1, 3, 3]);

    let model = start().reply(text("3", 120));
    let agent = builder(&model).limits(input_limit(100)).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "3");
}

/// With compaction, the older steps are summarized before the next request. If the summary is not
/// possible, the oldest step is omitted.
#[tokio::test]
async fn context_is_summarized_first() {
    let context = ContextConfig { compaction: true, ..ContextConfig::default() };
    let model = ScriptedModel::new()
        .reply(call(1, 40))
        .reply(call(2, 95))
        .reply_text("1 + 1 is 2.")
        .reply(call(3, 60))
        .reply(text("4", 80));
    let agent = builder(&model).context(context).limits(input_limit(100)).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "4");
    expect![[r#"
        user: Summary of the conversation so far:
        1 + 1 is 2.
        user: Add.
        assistant: call_2 add{"x":2,"y":1}
        tool: call_2 3
    "#]]
    .assert_eq(&message_lines(&model.requests()[3]));

    let model = ScriptedModel::new()
        .reply(call(1, 40))
        .reply(call(2, 95))
        .fail(ModelError::EmptyResponse)
        .reply(call(3, 101));
    let agent = builder(&model).context(context).limits(input_limit(100)).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), 100, 101);
    assert_eq!(model.requests()[3].messages.len(), 3);
}

/// `ContextConfig::tokens` below the limit shortens earlier. The context is shortened once per
/// reply, also if both are exceeded.
#[tokio::test]
async fn context_tokens_below_the_limit_shorten_earlier() {
    let context = ContextConfig { tokens: Some(50), ..ContextConfig::default() };
    let model = ScriptedModel::new()
        .reply(call(1, 20))
        .reply(call(2, 45))
        .reply(call(3, 30))
        .reply(call(4, 150))
        .reply(text("5", 60));
    let agent = builder(&model).context(context).limits(input_limit(100)).build().unwrap();
    assert_eq!(agent.run("Add.").await.unwrap().text().unwrap(), "5");
    assert_eq!(message_counts(&model), [1, 3, 3, 5, 5]);

    // Without omissions, nothing can be shortened.
    let context = ContextConfig { omissions: 0, ..ContextConfig::default() };
    let model = ScriptedModel::new().reply(call(1, 40)).reply(call(2, 95));
    let agent = builder(&model).context(context).limits(input_limit(100)).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), 100, 105);
}

/// With `LimitAction::Answer`, the final request is sent with the reason and is not limited.
#[tokio::test]
async fn limit_action_applies() {
    let model = ScriptedModel::new().reply(call(1, 95)).reply(text("About 2.", 130));
    let agent = builder(&model).limits(input_limit(100)).limit_action(LimitAction::Answer).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(answer.stop_reason, StopReason::LimitReached);
    expect![[r#"
        user: Add.
        assistant: call_1 add{"x":1,"y":1}
        tool: call_1 2
        user: a request of 105 tokens exceeds the limit of 100 input tokens per request. No more calls can be made: answer now with what you have.
    "#]].assert_eq(&message_lines(&model.requests()[1]));
}

/// The written dialects are limited like native calls.
#[tokio::test]
async fn requests_of_written_dialects_are_limited() {
    let step = |number: u32, input: u64| {
        text(&format!(r#"{{"tool_name":"add","tool_args":{{"x":{number},"y":1}}}}"#), input)
    };
    let model = ScriptedModel::new().reply(step(1, 40)).reply(step(2, 95)).reply(step(3, 120));
    let agent = builder(&model).dialect(JsonReact::new()).limits(input_limit(100)).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), 100, 120);
    assert_eq!(message_counts(&model), [1, 3, 3]);

    let step = |number: u32, input: u64| {
        text(&format!("Thought: So.\nAction: add\nArguments: {{\"x\": {number}, \"y\": 1}}"), input)
    };
    let model = ScriptedModel::new().reply(step(1, 95));
    let agent = builder(&model).dialect(TextReact).limits(input_limit(100)).build().unwrap();
    assert_limit(&agent.run("Add.").await.unwrap_err(), 100, 105);
}

/// The size of the last request is saved with a suspended run. The run can be resumed with a higher
/// limit.
#[tokio::test]
async fn size_is_known_after_a_run_is_resumed() {
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay =
        tool_without_parameters("pay", || async { "paid" }).with_definition(|it| it.with_policy(policy));
    let reply = || {
        let message =
            AssistantMessage { tool_calls: vec![ToolCall::new("a", "pay", "{}")], ..Default::default() };
        ChatResponse { usage: Usage::one_request(95, 10), ..ChatResponse::new(message) }
    };
    let tools = Toolset::new().with_tool(pay);
    let agent = |model: ScriptedModel| {
        ReactAgent::builder(model).tools(tools.clone()).limits(input_limit(100)).build().unwrap()
    };
    let suspended = agent(ScriptedModel::new().reply(reply())).run("Pay.").await.unwrap();
    let saved = serde_json::to_string(&suspended.into_answer().unwrap_err()).unwrap();
    let resumed = || {
        let suspended: SuspendedRun = serde_json::from_str(&saved).unwrap();
        suspended.resume([("a", Decision::approved())])
    };
    let error = agent(ScriptedModel::new()).run(resumed()).await.unwrap_err();
    assert_limit(&error, 100, 105);
    let input = resumed().with_limits(input_limit(200));
    let answer = agent(ScriptedModel::new().reply_text("Paid.")).run(input).await.unwrap();
    assert_eq!(answer.text().unwrap(), "Paid.");
}

/// `request_output_tokens` is the upper bound of `max_tokens`. Lower settings are kept.
#[tokio::test]
async fn output_limit_is_the_upper_bound_of_max_tokens() {
    for (limit, setting, expected) in [
        (Some(50), None, Some(50)),
        (Some(50), Some(80), Some(50)),
        (Some(50), Some(30), Some(30)),
        (None, Some(80), Some(80)),
        (None, None, None),
    ] {
        let model = ScriptedModel::new().reply_text("Hello.");
        let settings = ChatSettings { max_tokens: setting, ..ChatSettings::default() };
        let limits = RunLimits { request_output_tokens: limit, ..RunLimits::default() };
        let agent = builder(&model).settings(settings).build().unwrap();
        agent.run(RunInput::new("Hi").with_limits(limits)).await.unwrap();
        assert_eq!(model.requests()[0].settings.max_tokens, expected);
    }
}

/// The settings of a `prepare` hook are limited as well, in every dialect. Of the limits of the
/// agent and its extensions, the lowest applies.
#[tokio::test]
async fn output_limit_applies_to_the_settings_of_hooks() {
    for is_json in [false, true] {
        let model =
            ScriptedModel::new().reply_text(if is_json { r#"{"answer":"Hello."}"# } else { "Hello." });
        let agent = builder(&model)
            .limits(output_limit(50))
            .extension(Extension::new("careful").limits(output_limit(40)))
            .prepare(|mut request, _| async move {
                request.settings.max_tokens = Some(1_000);
                Ok(request)
            });
        let agent = if is_json { agent.dialect(JsonReact::new()) } else { agent };
        agent.build().unwrap().run("Hi").await.unwrap();
        assert_eq!(model.requests()[0].settings.max_tokens, Some(40));
    }
}

/// A reply that the output limit cuts is a truncated reply, like any reply that ends at
/// `max_tokens`: the run ends with an error, which has the partial text.
#[tokio::test]
async fn cut_reply_is_a_truncated_reply() {
    let cut = ChatResponse { finish_reason: FinishReason::Length, ..ChatResponse::new("The sum is") };
    let model = ScriptedModel::new().reply(cut);
    let error = builder(&model).limits(output_limit(5)).build().unwrap().run("Add.").await.unwrap_err();
    let AgentErrorKind::Model(ModelError::Truncated { partial, .. }) = &*error.kind else {
        panic!("{error:?}")
    };
    assert_eq!(partial.text(), "The sum is");
}
