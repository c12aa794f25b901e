//! What the code that `#[tool]` writes needs. Not for anybody else, and not stable.

pub use schemars;
pub use serde;

use serde::Deserialize;
use serde_json::Value;
use tokio::{runtime::Handle, task::spawn_blocking};
use tokio_util::task::AbortOnDropHandle;
use tracing::Span;

use crate::{IntoToolOutput, Schema, ToolDefinition, ToolError, ToolOutcome};

/// The arguments of a function that takes none. Its schema is open: what a model adds is not looked at.
#[derive(Deserialize, schemars::JsonSchema)]
pub struct NoArguments {}

/// Defines a tool whose arguments are described by hand.
pub fn definition_with<R: IntoToolOutput>(name: &str, arguments: Value) -> ToolDefinition {
    ToolDefinition::inferred::<R>(name, Schema::arguments(arguments))
}

/// Runs a function on the pool of threads that may block.
///
/// A call that is dropped before its turn does not run.
pub async fn blocking<F>(call: F) -> Result<ToolOutcome, ToolError>
where
    F: FnOnce() -> Result<ToolOutcome, ToolError> + Send + 'static,
{
    if Handle::try_current().is_err() {
        return Err(ToolError::Fatal(
            "a blocking tool needs a tokio runtime, for its pool of threads".to_owned(),
        ));
    }
    let span = Span::current();
    let task = AbortOnDropHandle::new(spawn_blocking(move || span.in_scope(call)));
    match task.await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            // For whoever catches the panics of tools.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_shut_down) => Err(ToolError::Cancelled),
        },
    }
}
