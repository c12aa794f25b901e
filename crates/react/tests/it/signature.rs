//! Tests of named inputs and outputs, and of the strategies for requesting outputs.

use expect_test::expect;
use haft_core::{
    Message, RunInput, Schema, ToolDefinition, ToolError, ToolName, ToolOutput, Toolset, Transcript,
    agent::{AgentErrorKind, Limit, RunAnswer, RunLimits, StopReason},
    content::Content,
    model::{ChatResponse, ModelProfile},
    tool::DynamicTool,
    usage::Usage,
};
use haft_react::{
    AgentBuildError, JsonReact, LimitAction, OutputStrategy, ReactAgent, ReactAgentBuilder, TextReact,
    Trajectory, transcript::is_hint,
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

/// The prompt lists the names and descriptions of the inputs and outputs.
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

/// If a run starts without a new message, the last user message of the history is its input. This
/// message is validated against the input schema.
#[tokio::test]
async fn inputs_in_the_history_are_validated() {
    let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"sum":42}"#)]);
    let agent = builder(&model).build().unwrap();
    let continue_with = |content: Content| {
        let history: Transcript = [Message::user(content)].into_iter().collect();
        agent.run(RunInput::continue_from(history))
    };
    let error = continue_with(Content::text("17 plus 25")).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error}");
    assert!(continue_with(Content::json(json!({"question": "17 plus 25"}))).await.is_ok());
}

/// A field description with line breaks is written as one line in the prompt.
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

/// Returns the trajectory of `answer` as JSON.
fn trajectory_of(answer: &RunAnswer) -> serde_json::Value {
    serde_json::to_value(Trajectory::from_transcript(&answer.transcript)).unwrap()
}

/// With the strategy `Extraction`, a call of `finish` without arguments ends the steps. The
/// trajectory ends with the thought of this call.
#[tokio::test]
async fn extraction_follows_a_finish_without_arguments() {
    let json = |thought: &str, name: &str, arguments: &str| {
        format!(r#"{{"thought":"{thought}","tool_name":"{name}","tool_args":{arguments}}}"#)
    };
    let text = |thought: &str, name: &str, arguments: &str| {
        format!("Thought: {thought}\nAction: {name}\nArguments: {arguments}")
    };
    let finishes = [
        json("I know it.", "finish", "{}"),
        json("I know it.", "finish", "null"),
        r#"{"thought":"I know it.","tool_name":"finish"}"#.to_owned(),
        text("I know it.", "finish", "{}"),
        "Thought: I know it.\nAction: finish".to_owned(),
        "Thought: I know it.\nAction: finish()".to_owned(),
    ];
    for finish in finishes {
        let is_json = finish.starts_with('{');
        let step: &dyn Fn(&str, &str, &str) -> String = if is_json { &json } else { &text };
        let model = ScriptedModel::new()
            .reply_text(step("I add them.", "add", r#"{"x":17,"y":25}"#))
            .reply_text(&*finish)
            .reply_text(step("From the steps.", "finish", r#"{"sum":42}"#));
        let builder = builder(&model).output_strategy(OutputStrategy::Extraction);
        let agent = if is_json { builder.dialect(JsonReact::new()) } else { builder.dialect(TextReact) };

        let answer = agent.build().unwrap().run(ask()).await.unwrap().into_answer().unwrap();

        assert_eq!(answer.outputs["sum"], 42, "{finish}");
        assert_eq!(
            trajectory_of(&answer),
            json!({
                "thought_0": "I add them.", "tool_name_0": "add", "tool_args_0": {"x": 17, "y": 25}, "observation_0": "42",
                "thought_1": "I know it.", "tool_name_1": "finish", "tool_args_1": {}, "observation_1": "Completed.",
            })
        );
        let instructions = model.requests()[0].instructions.as_ref().unwrap().text();
        let example = ["\"finish\",\"tool_args\":{}", "Action: finish\nArguments: {}"];
        assert!(example.iter().any(|it| instructions.contains(it)), "{instructions}");
        // The model reads its own step, and then the request for the outputs.
        let messages = message_lines(&model.requests()[2]);
        assert!(
            messages.contains("I know it.") && messages.ends_with("from what was said and found.\n"),
            "{messages}"
        );
    }
}

/// A call of `finish` with arguments also ends the steps. The trajectory contains the arguments.
#[tokio::test]
async fn arguments_of_finish_before_an_extraction_are_kept() {
    let model = ScriptedModel::new()
        .reply_text(r#"{"thought":"I know it.","tool_name":"finish","tool_args":{"answer":"42"}}"#)
        .reply_text(r#"{"thought":"","tool_name":"finish","tool_args":{"sum":42}}"#);
    let agent = builder(&model)
        .output_strategy(OutputStrategy::Extraction)
        .dialect(JsonReact::new())
        .build()
        .unwrap();
    let answer = agent.run(ask()).await.unwrap().into_answer().unwrap();
    assert_eq!(
        trajectory_of(&answer),
        json!({
            "thought_0": "I know it.", "tool_name_0": "finish", "tool_args_0": {"answer": "42"},
            "observation_0": "Completed.",
        })
    );
}

/// With native calls, the last text of the model is the thought of the last step. The outputs and
/// rejected outputs are no steps.
#[tokio::test]
async fn trajectory_of_a_native_extraction_ends_with_the_last_text() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", r#"{"x":17,"y":25}"#)])
        .reply_text("That is all.")
        .reply_calls([("b", "finish", r#"{"sum":"many"}"#)])
        .reply_calls([("c", "finish", r#"{"sum":42}"#)])
        .reply_text("Known.")
        .reply_calls([("d", "finish", r#"{"sum":43}"#)]);
    let agent = builder(&model).output_strategy(OutputStrategy::Extraction).build().unwrap();
    let first = agent.run(ask()).await.unwrap().into_answer().unwrap();
    assert_eq!(
        trajectory_of(&first),
        json!({
            "thought_0": "", "tool_name_0": "add", "tool_args_0": {"x": 17, "y": 25}, "observation_0": "42",
            "thought_1": "That is all.", "tool_name_1": "finish", "tool_args_1": {}, "observation_1": "Completed.",
        })
    );
    // The next turn has its own trajectory.
    let second = agent.run(ask().with_history(first.transcript)).await.unwrap().into_answer().unwrap();
    assert_eq!(
        trajectory_of(&second),
        json!({
            "thought_0": "Known.", "tool_name_0": "finish", "tool_args_0": {}, "observation_0": "Completed.",
        })
    );
}

/// Without a call of `finish`, because a limit ended the steps, the trajectory has no last step.
#[tokio::test]
async fn trajectory_of_an_extraction_at_a_limit_has_only_calls() {
    let finish = r#"{"thought":"","tool_name":"finish","tool_args":{"sum":42}}"#;
    for (requests, steps) in [(0, 0), (1, 1)] {
        let model = (0..requests).fold(ScriptedModel::new(), |model, _| {
            model.reply_text(r#"{"thought":"I add.","tool_name":"add","tool_args":{"x":17,"y":25}}"#)
        });
        let agent = builder(&model.reply_text(finish))
            .output_strategy(OutputStrategy::Extraction)
            .limit_action(LimitAction::Answer)
            .dialect(JsonReact::new())
            .build()
            .unwrap();
        let answer =
            agent.run(ask().with_limits(max_requests(requests))).await.unwrap().into_answer().unwrap();
        assert_eq!(Trajectory::from_transcript(&answer.transcript).steps.len(), steps);
    }
}

/// The outputs are extracted even if every tool call failed.
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

/// With a limit of zero requests, the extraction of the outputs is the only model request.
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

/// The extraction of the outputs and its retries count towards the limit of model requests.
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
