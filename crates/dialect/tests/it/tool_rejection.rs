//! Tests of errors that mean that a server has no tools.

use haft_core::model::ModelError;
use haft_dialect::rejects_tools;

fn rejected(status: u16, body: &str) -> ModelError {
    ModelError::Rejected { status, body: body.to_owned() }
}

#[test]
fn server_without_tools_is_recognized() {
    let failed =
        |body: &str| ModelError::Server { status: Some(500), body: body.to_owned(), retry_after: None };
    for error in [
        rejected(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        rejected(
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        ),
        rejected(404, "No endpoints found that support tool use."),
        failed("tools param requires --jinja flag"),
        ModelError::Unsupported("tools are not supported".to_owned()),
    ] {
        assert!(rejects_tools(&error), "{error}");
    }
}

#[test]
fn other_rejections_are_not_about_tools() {
    for error in [
        rejected(400, "temperature is not supported"),
        rejected(400, "invalid tool schema"),
        rejected(400, "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."),
        rejected(400, "tool_choice is not supported"),
        ModelError::EmptyResponse,
    ] {
        assert!(!rejects_tools(&error), "{error}");
    }
}
