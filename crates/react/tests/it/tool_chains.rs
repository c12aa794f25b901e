//! A chain of tools in a run can be suspended and resumed, and its failures name the failed tool of
//! the chain.

use std::sync::{Arc, Mutex, atomic::Ordering};

use expect_test::expect;
use haft_core::{
    Json, Pipeline, RunInput, ToolExt as _, Toolset,
    agent::SuspendedRun,
    call::{Decision, Decisions},
    tool,
    tool::ToolPolicy,
};
use haft_middleware::AgentExt as _;
use haft_middleware::{AuditEntry, AuditLog, chain};
use haft_react::ReactAgent;
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::assert_paired,
    tools::{add_tool, with_call_counter},
};

/// Formats a sum as a sentence.
#[tool]
fn say(sum: i64) -> Json<String> {
    Json(format!("It is {sum}."))
}

/// A suspended chain resumes at its suspended tool, without repeating the earlier tools. Here the
/// second tool of the chain needs an approval. The third tool is an agent, and a tool of this agent
/// also needs an approval.
#[tokio::test]
async fn suspended_chain_resumes_at_its_part() {
    let approval = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let (first, ran) = with_call_counter(&add_tool());
    let inside =
        ScriptedModel::new().reply_calls([("x", "say", r#"{"sum": 9}"#)]).reply_text("The child is done.");
    let guarded = Toolset::new().with_tool(Say.with_definition(|it| it.with_policy(approval.clone())));
    let child = ReactAgent::new(inside, guarded).unwrap().into_tool("advise", "Gives advice.");
    let steps = chain("steps", (first, Say.with_definition(|it| it.with_policy(approval)), child)).unwrap();

    let entries = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&entries);
    let pipeline = Pipeline::new().with_recorder(AuditLog::new(move |it: AuditEntry| {
        log.lock().unwrap().push(format!("{} {}", it.call_id, it.tool));
    }));
    let model =
        ScriptedModel::new().reply_calls([("a", "steps", r#"{"x": 17, "y": 25}"#)]).reply_text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(steps).with_pipeline(pipeline)).unwrap();

    let mut output = agent.run("Advise me.").await.unwrap();
    for id in ["a/2", "a/3/x"] {
        let suspended = output.into_answer().unwrap_err();
        let suspended: SuspendedRun =
            serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
        let leaves: Vec<_> = suspended
            .pending
            .iter()
            .flat_map(|it| it.innermost_calls())
            .map(|it| it.call.id.clone())
            .collect();
        assert_eq!(leaves, [id]);
        let answers: Decisions = [(id.to_owned(), Decision::approved())].into();
        output = agent.run(RunInput::resume(suspended, answers)).await.unwrap();
    }
    let answer = output.into_answer().unwrap();
    assert_eq!(answer.text, "Done.");
    assert_eq!(answer.steps[0].result.model_text(), "The child is done.");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert_paired(&answer.transcript);
    expect![[r#"
        a/1 add
        a/2 say
        a steps
        a/2 say
        a/3 advise
        a steps
        a/3 advise
        a steps"#]]
    .assert_eq(&entries.lock().unwrap().join("\n"));
}

/// If a tool of a chain fails, the result names this tool and the tools that ran before it.
#[tokio::test]
async fn failure_of_a_part_is_in_the_result() {
    let model =
        ScriptedModel::new().reply_calls([("a", "both", r#"{"x": 1, "y": 2}"#)]).reply_text("A pity.");
    let broken = Say.with_definition(|it| {
        it.with_input_schema(json!({"properties": {"sum": {"maximum": 2}}, "required": ["sum"]}))
    });
    let both = chain("both", (add_tool(), broken)).unwrap();
    let agent = ReactAgent::new(model, Toolset::new().with_tool(both)).unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    expect![[r#"say: invalid arguments: /sum: invalid type: string "3", expected i64 (before it ran: add)"#]]
        .assert_eq(&answer.steps[0].result.model_text());
}
