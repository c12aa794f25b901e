//! Tests of calls that a model writes as text, with native calls and with the dialect `auto`.

use expect_test::expect;
use futures::TryStreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Schema, ToolDefinition, ToolName, Toolset,
    agent::RunLimits,
    call::{Decision, Decisions},
    export::schemars::{self, JsonSchema},
    model::{ChatResponse, FinishReason, ModelError, ResponseFormat, ToolChoice},
    schema::{Repair, RepairKind},
    tool::{DynamicTool, ToolPolicy},
};
use haft_react::{
    AutoDialect, HandoffGroup, JsonReact, LimitAction, NativeCalls, OutputStrategy, ReactAgent,
    router::{Route, RouteTable},
    transcript::has_written_calls,
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    dialect_scripts::SCRIPTS,
    pairing::{assert_paired, message_lines},
    tools::calculator,
};

const WRITTEN: &str = "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}\n```";

fn sum() -> Schema {
    Schema::new(json!({"properties": {"sum": {"type": "integer"}}, "required": ["sum"]})).unwrap()
}

fn agent(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::builder(model.clone()).tools(calculator()).dialect(NativeCalls).build().unwrap()
}

/// With native calls, a reply whose whole text is a call of an offered tool is taken as a call, and
/// the repair is recorded in the transcript and in the result.
#[tokio::test]
async fn call_written_as_text_is_a_call() {
    for text in [
        WRITTEN,
        r#"{"name": "add", "arguments": {"x": 17, "y": 25}}"#,
        r#"{"tool_calls": [{"name": "add", "args": {"x": 17, "y": 25}}]}"#,
        "<think>I add them.</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}\n</tool_call>",
        "[add(x=17, y=25)]",
        "[TOOL_CALLS]add[ARGS]{\"x\": 17, \"y\": 25}",
        "<function=add><parameter=x>17</parameter><parameter=y>25</parameter></function>",
    ] {
        let model = ScriptedModel::new().reply_text(text).reply_text("It is 42.");
        let answer = agent(&model).run("17 plus 25?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.text, "It is 42.", "{text}");
        assert_paired(&answer.transcript);
        let result = &answer.steps[0].result;
        assert_eq!(result.model_text(), "42");
        assert_eq!(result.repairs[0], Repair::written_as_text());
        assert_eq!(result.repairs[0].kind, RepairKind::WrittenAsText);
        let written: Vec<_> = answer.transcript.messages().iter().map(|it| has_written_calls(it)).collect();
        assert_eq!(written, [false, true, false, false]);
        // The model reads a native call.
        let call = &model.requests()[1].messages.iter().nth(1).unwrap().tool_calls()[0].clone();
        assert_eq!((call.name.as_str(), call.id.is_empty()), ("add", false));
    }
}

#[tokio::test]
async fn written_calls_get_unique_ids_and_reasoning() {
    let twice = format!("<think>Both.</think>{WRITTEN}\n{WRITTEN}");
    let model = ScriptedModel::new().reply_text(&*twice).reply_text(WRITTEN).reply_text("Done.");
    let answer = agent(&model).run("17 plus 25?").await.unwrap().into_answer().unwrap();
    expect![[r#"
        user: 17 plus 25?
        assistant: call_1 add{"x":17,"y":25}; call_2 add{"x":17,"y":25}
        tool: call_1 42
        tool: call_2 42
        assistant: call_3 add{"x":17,"y":25}
        tool: call_3 42
        Warning: this is the same call as before, 3 times in a row, and it will not be made again: use what it returned, or do something else
    "#]]
    .assert_eq(&message_lines(&model.requests()[2]));
    assert_eq!(answer.steps[0].reasoning.as_deref(), Some("Both."));
}

/// With the tool choice `None`, and in the final request after a limit, no call is taken.
#[tokio::test]
async fn final_answer_is_never_a_written_call() {
    let model = ScriptedModel::new().reply_text(WRITTEN);
    let input = RunInput::new("How?").with_tool_choice(ToolChoice::None);
    assert_eq!(agent(&model).run(input).await.unwrap().text().unwrap(), WRITTEN);

    let model = ScriptedModel::new().reply_text(WRITTEN).reply_text(WRITTEN);
    let agent = ReactAgent::builder(model)
        .tools(calculator())
        .limits(RunLimits { requests: Some(1), ..RunLimits::default() })
        .limit_action(LimitAction::Answer)
        .build()
        .unwrap();
    let answer = agent.run("How?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.steps.len()), (WRITTEN, 1));
}

#[tokio::test]
async fn truncated_reply_with_a_written_call_is_an_error() {
    let reply = ChatResponse { finish_reason: FinishReason::Length, ..ChatResponse::new(WRITTEN) };
    let error = agent(&ScriptedModel::new().reply(reply)).run("17 plus 25?").await.unwrap_err();
    assert!(error.to_string().contains("limit of tokens"), "{error}");
}

/// With outputs, a written call of `finish` and a bare object are the answer.
#[tokio::test]
async fn outputs_can_be_written_as_text() {
    for text in [
        r#"{"name": "finish", "arguments": {"sum": 42}}"#,
        "<tool_call>{\"name\": \"finish\", \"arguments\": {\"sum\": \"42\"}}</tool_call>",
        "```json\n{\"sum\": 42}\n```",
    ] {
        for requests in [0, 5] {
            let model = ScriptedModel::new().reply_text(text);
            let agent = ReactAgent::builder(model)
                .tools(calculator())
                .outputs(sum())
                .limits(RunLimits { requests: Some(requests), ..RunLimits::default() })
                .limit_action(LimitAction::Answer)
                .build()
                .unwrap();
            let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
            assert_eq!(answer.outputs["sum"], 42, "{text}");
        }
    }
    // Outputs with the keys of a call are outputs.
    let call = json!({"properties": {"name": {}, "arguments": {}}, "required": ["name", "arguments"]});
    let model = ScriptedModel::new().reply_text(WRITTEN);
    let agent =
        ReactAgent::builder(model).tools(calculator()).outputs(Schema::new(call).unwrap()).build().unwrap();
    let answer = agent.run("Which call?").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.outputs["name"].as_str(), answer.steps.len()), (Some("add"), 0));
}

/// A streamed reply with a written call emits no text, other text is not delayed, and the streamed
/// run has the same transcript as the whole run.
#[tokio::test]
async fn streamed_written_call_emits_no_text() {
    let model = || ScriptedModel::new().reply_text(WRITTEN).reply_text("It is 42.");
    let whole = agent(&model()).run("17 plus 25?").await.unwrap().into_answer().unwrap();
    let events: Vec<_> = agent(&model()).stream("17 plus 25?").try_collect().await.unwrap();
    let text: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text.concat(), "It is 42.");
    let Some(RunEvent::Done { output: RunOutput::Answer(streamed) }) = events.last() else { panic!() };
    let lines = |answer: &haft_core::agent::RunAnswer| {
        answer
            .transcript
            .messages()
            .iter()
            .map(|it| format!("{:?}", (it.text(), it.tool_calls())))
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(streamed), lines(&whole));
    let repaired = events.iter().any(|event| {
        matches!(event, RunEvent::CallFinished { result } if result.repairs == [Repair::written_as_text()])
    });
    assert!(repaired);
}

fn auto(model: &ScriptedModel) -> ReactAgent {
    ReactAgent::builder(model.clone()).tools(calculator()).dialect(AutoDialect::new()).build().unwrap()
}

fn is_constrained(format: &ResponseFormat) -> bool {
    matches!(format, ResponseFormat::JsonSchema { .. })
}

const FINISH: &str = r#"{"thought":"So.","tool_name":"finish","tool_args":{"answer":"42"}}"#;

/// `auto` starts with native calls, and moves to the JSON dialect after a call that is written as
/// text.
#[tokio::test]
async fn auto_moves_to_json_after_a_written_call() {
    let model = ScriptedModel::new().reply_text(WRITTEN).reply_text(FINISH);
    assert_eq!(auto(&model).run("17 plus 25?").await.unwrap().text().unwrap(), "42");
    let requests = model.requests();
    assert_eq!((requests[0].tools.len(), is_constrained(&requests[0].response_format)), (1, false));
    assert_eq!((requests[1].tools.len(), is_constrained(&requests[1].response_format)), (0, true));
    expect![[r#"
        user: 17 plus 25?
        assistant: {"thought":"","tool_name":"add","tool_args":{"x":17,"y":25}}
        user: Observation from add: 42
    "#]]
    .assert_eq(&message_lines(&requests[1]));

    // Native calls do not move the run.
    let model =
        ScriptedModel::new().reply_calls([("a", "add", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
    assert_eq!(auto(&model).run("17 plus 25?").await.unwrap().text().unwrap(), "It is 42.");
    assert!(model.requests().iter().all(|request| request.tools.len() == 1));
}

#[tokio::test]
async fn auto_moves_to_json_if_the_server_rejects_tools() {
    let rejected = |status, body: &str| ModelError::Rejected { status, body: body.to_owned() };
    let model = ScriptedModel::new().fail(rejected(400, "gemma does not support tools")).reply_text(FINISH);
    assert_eq!(auto(&model).run("17 plus 25?").await.unwrap().text().unwrap(), "42");
    assert!(is_constrained(&model.requests()[1].response_format));

    let model = ScriptedModel::new().fail(rejected(400, "temperature is not supported"));
    assert!(auto(&model).run("17 plus 25?").await.is_err());
    assert_eq!(model.requests().len(), 1);
    // Native calls have no fallback.
    let model = ScriptedModel::new().fail(rejected(400, "gemma does not support tools"));
    assert!(agent(&model).run("17 plus 25?").await.is_err());
}

/// The move is saved with the run, and a resumed run continues in JSON.
#[tokio::test]
async fn auto_keeps_its_move_in_a_suspended_run() {
    let definition = ToolDefinition::new(ToolName::new("pay").unwrap(), Schema::object());
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let pay = DynamicTool::new(definition.with_policy(policy), |_, _| async { "paid" });
    let model = ScriptedModel::new().reply_text(r#"{"name": "pay", "arguments": {}}"#).reply_text(FINISH);
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(pay))
        .dialect(AutoDialect::new())
        .build()
        .unwrap();
    let RunOutput::Suspended(suspended) = agent.run("Pay.").await.unwrap() else { panic!() };
    let suspended = serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    let decisions = Decisions::from_iter([("call_1".to_owned(), Decision::approved())]);
    let answer = agent.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, &*answer.steps[0].result.model_text()), ("42", "paid"));
    assert_eq!(answer.steps[0].result.repairs, [Repair::written_as_text()]);
    assert!(is_constrained(&model.requests()[1].response_format));
}

/// The dialects that write steps as text take several calls from one reply.
#[tokio::test]
async fn step_dialect_takes_a_list_of_calls() {
    let calls = r#"{"next_thought": "Both.", "tool_calls": [{"name": "add", "args": {"x": 17, "y": 25}}, {"name": "add", "args": {"x": 1, "y": 2}}]}"#;
    let model = ScriptedModel::new().reply_text(calls).reply_text(FINISH);
    let agent = ReactAgent::builder(model).tools(calculator()).dialect(JsonReact::new()).build().unwrap();
    let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
    let steps: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(steps, ["42", "3"]);
    assert_eq!(answer.steps[0].reasoning.as_deref(), Some("Both."));
}

/// A written call is not the structured answer, even if its arguments or its object are valid
/// outputs.
#[tokio::test]
async fn written_call_is_not_the_structured_answer() {
    let optional = || Schema::new(json!({"properties": {"sum": {"type": "integer"}}})).unwrap();
    let x = || Schema::new(json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]})).unwrap();
    for (text, outputs) in [
        (r#"[TOOL_CALLS]add[ARGS]{"x": 17, "y": 25}"#, x()),
        (r#"{"name": "add", "arguments": {"x": 17, "y": 25}}"#, optional()),
        (WRITTEN, optional()),
    ] {
        let finish = r#"{"name": "finish", "arguments": {"sum": 42, "x": 1}}"#;
        let model = ScriptedModel::new().reply_text(text).reply_text(finish);
        let agent = ReactAgent::builder(model).tools(calculator()).outputs(outputs).build().unwrap();
        let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
        assert_eq!(answer.outputs, json!({"sum": 42, "x": 1}).as_object().unwrap().clone(), "{text}");
        assert_eq!(answer.steps.len(), 1, "{text}");
    }
}

#[tokio::test]
async fn list_of_outputs_with_the_keys_of_calls_is_the_answer() {
    #[derive(serde::Deserialize, JsonSchema)]
    struct PlannedCall {
        name: String,
        arguments: serde_json::Value,
    }

    let calls = r#"[{"name": "add", "arguments": {"x": 17, "y": 25}}]"#;
    for text in [calls.to_owned(), format!("```json\n{calls}\n```")] {
        let model = ScriptedModel::new().reply_text(&*text);
        let agent =
            ReactAgent::builder(model).tools(calculator()).output::<Vec<PlannedCall>>().build().unwrap();
        let answer = agent.run("Which calls?").await.unwrap().into_answer().unwrap();
        let planned: Vec<PlannedCall> = answer.parse().unwrap();
        assert_eq!((&*planned[0].name, &planned[0].arguments["x"]), ("add", &json!(17)), "{text}");
        assert!(answer.steps.is_empty());
    }
}

/// An answer that is keyed by the name of a tool is the answer, unless its values are arguments
/// that the tool declares.
#[tokio::test]
async fn answer_keyed_by_a_tool_name_is_not_a_call() {
    let schema = Schema::new(json!({"properties": {"city": {"type": "string"}}})).unwrap();
    let definition = ToolDefinition::new(ToolName::new("weather").unwrap(), schema);
    let weather = DynamicTool::new(definition, |_, _| async { "rain" });
    let text = r#"{"weather": {"temp": 21}}"#;
    let model = ScriptedModel::new().reply_text(text);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(weather)).unwrap();
    assert_eq!(agent.run("How is it?").await.unwrap().text().unwrap(), text);
}

/// Before an extraction of the outputs, `finish` beside a call is not executed.
#[tokio::test]
async fn finish_beside_a_call_waits_for_the_result() {
    let calls =
        r#"{"tool_calls": [{"name": "add", "args": {"x": 17, "y": 25}}, {"name": "finish", "args": {}}]}"#;
    let finish = r#"{"thought":"So.","tool_name":"finish","tool_args":{}}"#;
    let outputs = r#"{"thought":"","tool_name":"finish","tool_args":{"sum":42}}"#;
    let model = ScriptedModel::new().reply_text(calls).reply_text(finish).reply_text(outputs);
    let agent = ReactAgent::builder(model).tools(calculator()).dialect(JsonReact::new());
    let agent = agent.outputs(sum()).output_strategy(OutputStrategy::Extraction).build().unwrap();
    let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
    let results: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!((results, &answer.outputs["sum"]), (vec!["42".to_owned()], &json!(42)));
}

/// The move ends with a hand-off, because the next agent can have another model.
#[tokio::test]
async fn handoff_ends_the_move_to_json() {
    let waiter = ScriptedModel::new()
        .reply_text(r#"{"name": "transfer_to_kitchen", "arguments": {"reason": "food"}}"#);
    let kitchen = ScriptedModel::new().reply_text("Pizza.");
    let agent = |model: &ScriptedModel| {
        ReactAgent::builder(model.clone()).tools(calculator()).dialect(AutoDialect::new()).build().unwrap()
    };
    let table = RouteTable::new([Route::new("waiter", "Serves."), Route::new("kitchen", "Cooks.")]);
    let agents = [("waiter", agent(&waiter)), ("kitchen", agent(&kitchen))];
    let group = HandoffGroup::new(table, agents).unwrap();
    assert_eq!(group.run("A pizza.").await.unwrap().text().unwrap(), "Pizza.");
    assert!(!is_constrained(&kitchen.requests()[0].response_format));
}

fn failed_generation(text: &str) -> ModelError {
    ModelError::InvalidGeneration {
        reason: "The call could not be read.".to_owned(),
        generation: Some(text.to_owned()),
    }
}

/// Calls in the text that a server could not use are taken as calls, and announced.
#[tokio::test]
async fn calls_in_a_failed_generation_are_taken() {
    for text in [
        WRITTEN,
        "<function=add{\"x\": 17, \"y\": 25}</function>",
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}</tool_call>",
    ] {
        let model = ScriptedModel::new().fail(failed_generation(text)).reply_text("It is 42.");
        let events: Vec<_> = agent(&model).stream("17 plus 25?").try_collect().await.unwrap();
        let announced = events.iter().filter(|it| matches!(it, RunEvent::CallAnnounced { .. })).count();
        let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = events.last() else {
            panic!("{text}: {events:?}")
        };
        assert_eq!((answer.text.as_str(), announced, model.requests().len()), ("It is 42.", 1, 2), "{text}");
        assert_eq!(answer.steps[0].result.model_text(), "42");
        assert_paired(&answer.transcript);
    }
}

/// The server supports native calls, so the dialect `auto` goes on with them.
#[tokio::test]
async fn auto_dialect_stays_native_after_a_failed_generation() {
    let model = ScriptedModel::new().fail(failed_generation(WRITTEN)).reply_text("It is 42.");
    let agent =
        ReactAgent::builder(model.clone()).tools(calculator()).dialect(AutoDialect::new()).build().unwrap();
    assert_eq!(agent.run("17 plus 25?").await.unwrap().text().unwrap(), "It is 42.");
    assert_eq!(model.requests()[1].tools.len(), 1);
}

/// Without permission to call tools, a call in a failed generation is not taken.
#[tokio::test]
async fn failed_generation_is_not_taken_without_permission_to_call() {
    let model = ScriptedModel::new().fail(failed_generation(WRITTEN)).reply_text("I may not add.");
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator())
        .dialect(NativeCalls)
        .tool_choice(ToolChoice::None)
        .build()
        .unwrap();
    let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
    assert_eq!((answer.text.as_str(), answer.steps.len()), ("I may not add.", 0));
}

/// A number is the same number in a native call and in each written form of the call.
#[tokio::test]
async fn wide_integer_is_refused_in_every_form_of_a_call() {
    let id = "123456789012345678901234567890";
    let arguments = format!(r#"{{"x": {id}, "y": 1e3}}"#);
    for text in [
        format!(r#"{{"name": "add", "arguments": {arguments}}}"#),
        format!("<tool_call>{{'name': 'add', 'arguments': {{'x': {id}, 'y': 1e3,}}}}</tool_call>"),
        format!("[add(x={id}, y=1e3)]"),
        format!("[TOOL_CALLS]add[ARGS]{arguments}"),
    ] {
        let model = ScriptedModel::new().reply_text(&*text).reply_text("Done.");
        let answer = agent(&model).run("Add.").await.unwrap().into_answer().unwrap();
        let failure = answer.steps[0].result.failure().unwrap_or_else(|| panic!("{text}"));
        assert!(failure.message.contains(&format!("/x: integer out of range: {id}")), "{}", failure.message);
        assert!(model.requests()[1].messages.iter().nth(1).unwrap().tool_calls()[0].arguments.contains(id));
    }
}

/// The same arguments that are not valid JSON are the same call in every dialect.
#[tokio::test]
async fn lenient_arguments_are_equal_in_every_dialect() {
    for arguments in ["{'x': 17, 'y': 25}", r#"{"x": 17, "y": 25,}"#, "{x: 17, y: 25}"] {
        for script in SCRIPTS {
            let model = script.replies(&[("a", "add", arguments)], "42");
            let agent = ReactAgent::new(model, calculator()).unwrap();
            let answer = agent.run("17 plus 25?").await.unwrap().into_answer().unwrap();
            assert_eq!(answer.steps[0].result.model_text(), "42", "{script:?}: {arguments}");
        }
        for text in [
            format!("{{\"name\": \"add\", \"arguments\": {arguments}}}"),
            format!("[TOOL_CALLS]add[ARGS]{arguments}"),
            format!("<tool_call>{{\"name\": \"add\", \"arguments\": {arguments}}}</tool_call>"),
        ] {
            let model = ScriptedModel::new().reply_text(&*text).reply_text("42");
            let answer = agent(&model).run("17 plus 25?").await.unwrap().into_answer().unwrap();
            assert_eq!(answer.steps[0].result.model_text(), "42", "{text}");
        }
    }
}
