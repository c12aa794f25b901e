use crate::{call::ToolError, tool::ToolContext};

/// A valid type of host state. Implemented automatically.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the state of a tool",
    label = "not something that each call can have of its own",
    note = "each call is given a clone, on whatever thread: use `Arc<{Self}>`",
    note = "what an `Arc` shares between threads is `Send` and `Sync`: keep what changes in a `Mutex`"
)]
pub trait HostState: Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + Sync + 'static> HostState for T {}

/// Returns the value of a parameter with `#[tool(state)]`.
pub async fn state<T: HostState>(cx: &ToolContext) -> Result<T, ToolError> {
    cx.ready_state().await
}
