use crate::{call::ToolError, tool::ToolContext};

/// A type that can be the host state of a tool. Implemented for all types that satisfy the bounds.
/// The trait exists for the error message that the compiler prints for other types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the state of a tool",
    label = "not `Clone + Send + Sync + 'static`",
    note = "each call receives a clone, on any thread: use `Arc<{Self}>`",
    note = "the value in an `Arc` must be `Send` and `Sync`: put mutable data into a `Mutex`"
)]
pub trait StateValue: Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + Sync + 'static> StateValue for T {}

/// Returns the host state of type `T`, for a parameter with `#[tool(state)]`. Lazy state is
/// initialized on its first use.
pub async fn state<T: StateValue>(cx: &ToolContext) -> Result<T, ToolError> {
    cx.state_or_init().await
}
