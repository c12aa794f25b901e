//! Tests of named inputs and outputs, and of the strategies for requesting outputs.

use expect_test::expect;
use haft_core::{
    Message, RunInput, Schema, ToolDefinition, ToolError, ToolName, ToolOutput, Toolset,
    agent::{AgentErrorKind, Limit, RunLimits, RunStart, StopReason},
    content::Content,
    model::{ChatResponse, ModelProfile},
    tool::DynamicTool,
    usage::Usage,
};
use haft_react::{
    AgentBuildError, LimitAction, OutputStrategy, ReactAgent, ReactAgentBuilder, Trajectory, run::is_hint,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::{assert_paired, message_lines},
    tools::calculator,
};

fn question() -> Schema {
    Schema::new(json!({
        "properties": {"question": {"type": "string", "description": "What to work out."}, "digits": {"type": "integer"}},
        "required": ["question"],
    }))
    .unwrap()
}

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap()
}

fn ask() -> RunInput {
    RunInput::new(Content::json(json!({"question": "17 plus 25"})))
}

fn max_requests(requests: u32) -> RunLimits {
    RunLimits { requests: Some(requests), ..RunLimits::default() }
}

fn builder(model: &ScriptedModel) -> ReactAgentBuilder {
    ReactAgent::builder(model.clone()).tools(calculator()).inputs(question()).outputs(sum())
}

/// Behaviour C24: the prompt lists the names and descriptions of the inputs and outputs.
#[tokio::test]
async fn prompt_lists_inputs_and_outputs() {
    let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"sum":42}"#)]);
    let agent = builder(&model).instructions("Be brief.").build().unwrap();
    assert_eq!(agent.run(ask()).await.unwrap().answer().unwrap().outputs["sum"], 42);
    let request = &model.requests()[0];
    expect![[r#"
        Be brief.

        You are given:
        - `question`: What to work out.
        - `digits`

        You are to find:
        - `sum`"#]]
    .assert_eq(&request.instructions.as_ref().unwrap().text());
    expect![[r#"
        user: {"question":"17 plus 25"}
    "#]]
    .assert_eq(&message_lines(request));
}

#[tokio::test]
async fn invalid_inputs_start_no_run() {
    let model = ScriptedModel::new();
    let agent = builder(&model).build().unwrap();
    let error = async |input: RunInput| {
        let error = agent.run(input).await.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)));
        error.to_string()
    };
    expect![[r#"the run cannot begin: the inputs must be given as data: one JSON object, by `Content::json`, of the schema {"type":"object","properties":{"question":{"type":"string","description":"What to work out."},"digits":{"type":"integer"}},"required":["question"]}"#]].assert_eq(&error("17 plus 25".into()).await);
    let wrong = RunInput::new(Content::json(json!({"question": 1, "digits": "many"})));
    expect![[r#"
        the run cannot begin: the inputs do not fit: /question: expected string, received integer 1
        /digits: expected integer, received string "many""#]]
    .assert_eq(&error(wrong).await);
    assert!(model.requests().is_empty());
}

/// If a run starts without a new message, the last message of the history is its input. This
/// message must be validated against the input schema.
#[tokio::test]
async fn inputs_in_the_history_are_validated() {
    let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"sum":42}"#)]);
    let agent = builder(&model).build().unwrap();
    let continue_with = |content: Content| {
        let mut input = RunInput::new("");
        let transcript = [Message::user(content)].into_iter().collect();
        input.start = RunStart::New { messages: Vec::new(), transcript };
        agent.run(input)
    };
    let error = continue_with(Content::text("17 plus 25")).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error}");
    assert!(continue_with(Content::json(json!({"question": "17 plus 25"}))).await.is_ok());
}

/// Behaviour A3: a field description with line breaks is written as one line in the prompt.
#[tokio::test]
async fn field_is_described_in_one_line() {
    let inputs = Schema::new(
        json!({"properties": {"text": {"type": "string", "description": "Words.\n\n- not\n- a list"}}}),
    );
    let model = ScriptedModel::new().reply_text("Yes.");
    let agent = ReactAgent::builder(model.clone()).inputs(inputs.unwrap()).build().unwrap();
    agent.run(RunInput::new(Content::json(json!({"text": "x"})))).await.unwrap();
    expect![[r#"
        You are given:
        - `text`: Words. - not - a list"#]]
    .assert_eq(&model.requests()[0].instructions.as_ref().unwrap().text());
}

/// With the strategy `Extraction`, as in DSPy, the model first works until it needs no more tool
/// calls. A separate model request then extracts the outputs from the transcript.
#[tokio::test]
async fn outputs_are_extracted_from_the_transcript() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":17,"y":25}"#)])
        .reply_text("That is all.")
        .reply_calls([("b", "add", r#"{"x":1,"y":1}"#)])
        .reply_calls([("c", "finish", r#"{"sum":"many"}"#)])
        .reply_calls([("d", "finish", r#"{"sum":"42"}"#)]);
    let agent = builder(&model).output_strategy(OutputStrategy::Extraction).build().unwrap();

    let answer = agent.run(ask()).await.unwrap().into_answer().unwrap();

    assert_eq!((&answer.outputs["sum"], answer.stop_reason), (&json!(42), StopReason::Finished));
    assert_eq!(answer.steps.len(), 1);
    assert_paired(&answer.transcript);
    let requests = model.requests();
    let offered =
        |index: usize| requests[index].tools.names().map(ToolName::as_str).collect::<Vec<_>>().join(" ");
    assert_eq!([offered(0), offered(1), offered(2)], ["add", "add", "finish"]);
    expect![[r#"
        user: {"question":"17 plus 25"}
        assistant: a add{"x":17,"y":25}
        tool: a 42
        assistant: That is all.
        user: Now give the outputs, from what was said and found.
        user: No more calls can be made. Give the outputs.
        assistant: {"sum":"many"}
        user: The answer does not have the form that it must have:
        /sum: expected integer, received string "many"
        Give it again.
    "#]]
    .assert_eq(&message_lines(&requests[4]));
}

/// Behaviour C25: the outputs are extracted even if every tool call failed.
#[tokio::test]
async fn outputs_are_extracted_after_failed_calls() {
    let broken = DynamicTool::new(
        ToolDefinition::new(ToolName::new("look").unwrap(), Schema::object()),
        |_, _| async { Err::<ToolOutput, _>(ToolError::failed("the page is gone")) },
    );
    let model = ScriptedModel::new()
        .reply_calls([("a", "look", "{}")])
        .reply_calls([("b", "look", "{ }")])
        .reply_calls([("c", "finish", r#"{"sum":0}"#)]);
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(broken))
        .outputs(sum())
        .limits(max_requests(2))
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();
    let answer = agent.run("How many?").await.unwrap().into_answer().unwrap();
    let trajectory = Trajectory::from_transcript(&answer.transcript);
    let observations: Vec<_> = trajectory.steps.iter().map(|step| step.observation.as_str()).collect();
    assert_eq!(observations, ["the page is gone", "the page is gone", "Completed."]);
    assert_eq!((&answer.outputs["sum"], answer.stop_reason), (&json!(0), StopReason::LimitReached));
}

/// Behaviour C26: with a limit of zero requests, the extraction of the outputs is the only model
/// request.
#[tokio::test]
async fn zero_requests_leave_only_the_extraction() {
    for profile in
        [ModelProfile::new("any"), ModelProfile { supports_native_tools: false, ..ModelProfile::new("any") }]
    {
        let model = ScriptedModel::new().with_profile(profile.clone());
        let model = if profile.supports_native_tools {
            model.reply_calls([("a", "finish", r#"{"sum":42}"#)])
        } else {
            model.reply_text(r#"{"thought":"","tool_name":"finish","tool_args":{"sum":42}}"#)
        };
        let agent = builder(&model)
            .limit_action(LimitAction::Answer)
            .output_strategy(OutputStrategy::Extraction)
            .build()
            .unwrap();
        let answer = agent.run(ask().with_limits(max_requests(0))).await.unwrap().into_answer().unwrap();
        assert_eq!((&answer.outputs["sum"], answer.usage.requests), (&json!(42), 1));
    }
}

/// Behaviour C33: the extraction of the outputs and its retries count towards the limit of model
/// requests.
#[tokio::test]
async fn extraction_counts_towards_the_limits() {
    for (allowed, limit_action, expected) in [
        (1, LimitAction::Fail, 1),
        (2, LimitAction::Fail, 2),
        (1, LimitAction::Answer, 2),
        (3, LimitAction::Answer, 4),
    ] {
        let wrong = r#"{"sum":"many"}"#;
        let model = ScriptedModel::new().reply_text("Known.");
        let model = (1..expected).fold(model, |model, _| model.reply_calls([("a", "finish", wrong)]));
        let agent = builder(&model)
            .output_strategy(OutputStrategy::Extraction)
            .limit_action(limit_action)
            .build()
            .unwrap();
        let error = agent.run(ask().with_limits(max_requests(allowed))).await.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::LimitReached(_)), "{error}");
        assert_eq!(model.requests().len(), expected, "{allowed} {limit_action:?}");
        assert_paired(&error.transcript);
    }
    let tokens = RunLimits { total_tokens: Some(5), ..RunLimits::default() };
    let costly = ChatResponse { usage: Usage::one_request(9, 1), ..ChatResponse::new("Known.") };
    let model = ScriptedModel::new().reply(costly);
    let agent = builder(&model).output_strategy(OutputStrategy::Extraction).build().unwrap();
    let error = agent.run(ask().with_limits(tokens)).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::LimitReached(Limit::TotalTokens(5))), "{error}");
}

/// A run is saved and loaded during the extraction of its outputs. It must then continue with the
/// extraction.
#[tokio::test]
async fn extraction_is_saved_with_the_run() {
    let model = ScriptedModel::new()
        .reply_text("Known.")
        .fail(haft_core::model::ModelError::Unsupported("busy".into()))
        .reply_calls([("a", "finish", r#"{"sum":42}"#)]);
    let agent = builder(&model).output_strategy(OutputStrategy::Extraction).build().unwrap();
    let mut run = agent.create_run(ask()).unwrap();
    let drive = async |run: &mut haft_react::Run| {
        futures::TryStreamExt::try_collect::<Vec<_>>(agent.drive(run, Default::default())).await
    };
    drive(&mut run).await.unwrap_err();
    let mut run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert!(drive(&mut run).await.is_ok());
    assert_eq!(run.transcript().messages().iter().filter(|message| is_hint(message)).count(), 1);
}

#[tokio::test]
async fn reasoning_precedes_the_outputs() {
    let reply = r#"{"reasoning":"17 and 25 are 42.","sum":42}"#;
    let model = ScriptedModel::new().reply_calls([("a", "finish", reply)]);
    let agent = ReactAgent::builder(model.clone()).outputs(sum()).chain_of_thought().build().unwrap();
    let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
    assert_eq!(json!(answer.outputs).to_string(), reply);
    let finish = model.requests()[0].tools.get("finish").unwrap().definition().clone();
    expect![[r#"{"type":"object","properties":{"reasoning":{"type":"string","description":"The way to the answer, step by step."},"sum":{"type":"integer"}},"required":["reasoning","sum"]}"#]].assert_eq(&finish.input_schema().as_value().to_string());

    let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"reasoning":"So.","answer":"42"}"#)]);
    let agent = ReactAgent::builder(model).chain_of_thought().build().unwrap();
    let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
    assert_eq!((&answer.outputs["answer"], &answer.outputs["reasoning"]), (&json!("42"), &json!("So.")));
}

/// `chain_of_thought` adds a `reasoning` property to the outputs. If a subschema with
/// `additionalProperties: false` would reject this property, the agent cannot be built.
#[test]
fn closed_outputs_with_chain_of_thought_are_an_error() {
    let sum =
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "additionalProperties": false});
    let closed = [
        json!({"$ref": "#/$defs/sum", "$defs": {"sum": sum}}),
        json!({"type": "object", "oneOf": [{"type": "object", "required": ["none"]}, sum]}),
        json!({"type": "object", "allOf": [{"$ref": "#/$defs/sum"}], "$defs": {"sum": sum}}),
    ];
    let build = |outputs: &serde_json::Value| {
        let outputs = Schema::new(outputs.clone()).unwrap();
        ReactAgent::builder(ScriptedModel::new()).outputs(outputs).chain_of_thought().build()
    };
    for outputs in closed {
        let error = build(&outputs).err();
        assert!(matches!(error, Some(AgentBuildError::ReasoningNotAllowed { .. })), "{outputs}: {error:?}");
    }
    for open in
        [sum.clone(), json!({"type": "object", "oneOf": [{"required": ["sum"]}, {"required": ["none"]}]})]
    {
        assert!(build(&open).is_ok(), "{open}");
    }
}
