use std::{
    mem,
    sync::{Arc, Mutex},
};

use futures::executor::block_on;
use haft_core::{
    Pipeline, Schema, ToolCall, ToolContext, ToolDefinition, ToolName,
    call::FailureKind,
    pipeline::CallOutcome,
    schema::{self, RepairPolicy},
    tool::DynamicTool,
    toolset::ToolList,
};
use serde_json::{Value, json};

use super::replay::replayed;
use crate::Case;

/// Checks the execution of a tool call with arbitrary text as its arguments:
///
/// - If the arguments are valid, possibly after repairs, the tool is called once. If they are
///   invalid, the tool is not called, and the model receives an error.
/// - The tool receives the arguments that the model wrote, with only the recorded repairs applied.
/// - A repeated call gives the tool the same arguments, and the model the same text.
///
/// # Panics
///
/// Panics if the law is violated.
pub fn check_arguments(input: &[u8]) {
    let Some(case) = Case::parse(input) else { return };
    let Ok(schema) = Schema::for_arguments(case.schema) else { return };
    for policy in [RepairPolicy::Default, RepairPolicy::Strict] {
        check_call(&schema, &case.values_text, policy);
    }
}

fn check_call(schema: &Schema, text: &str, policy: RepairPolicy) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let definition = ToolDefinition::new(ToolName::sanitize("tool"), schema.clone());
    let tool = DynamicTool::new(definition, {
        let calls = Arc::clone(&calls);
        move |arguments, _| {
            calls.lock().unwrap().push(arguments);
            async { "done" }
        }
    });
    let pipeline = Pipeline::new().with_repair(policy);
    let (tools, call) = (ToolList::new("fuzz", [tool]), ToolCall::new("1", "tool", text));
    let call_tool = || {
        let outcome = block_on(pipeline.call(&tools, &call, &ToolContext::default()));
        let CallOutcome::Finished(result) = outcome else { panic!("the call is suspended: {outcome:?}") };
        (result, mem::take(&mut *calls.lock().unwrap()))
    };
    let (result, calls) = call_tool();
    let (repeated, repeated_calls) = call_tool();
    assert_eq!((repeated.model_text(), repeated_calls), (result.model_text(), calls.clone()));
    match (&calls[..], result.failure()) {
        ([arguments], None) => {
            assert!(schema.is_valid(arguments), "{arguments}");
            let written = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            assert_eq!(&replayed(written, &result.repairs), arguments, "{:?}", result.repairs);
        }
        ([], Some(failure)) => {
            assert_eq!(failure.kind, FailureKind::InvalidArguments, "{}", failure.message);
            assert!((1..=8 << 10).contains(&failure.message.len()), "{}", failure.message);
            assert!(result.repairs.is_empty());
            if let Ok(written) = serde_json::from_str::<Value>(text) {
                let (repaired, _) = schema::repair(schema, written, policy);
                assert!(!schema.is_valid(&repaired), "valid arguments were rejected: {repaired}");
            }
        }
        (calls, failure) => panic!("{calls:?} {failure:?}"),
    }
}
