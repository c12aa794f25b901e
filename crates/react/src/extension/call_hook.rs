//! Runs the hooks that [`Extension::around_calls`](super::Extension::around_calls) adds.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use haft_core::{
    Tool, ToolContext, ToolDefinition, ToolError, call::ToolResponse, export::async_trait, toolset::Adaptor,
};
use serde_json::Value;

/// The rest of a tool call: the inner hooks and the tool. Each hook that is added with
/// [`Extension::around_calls`](super::Extension::around_calls) receives a `Next` as its second
/// argument.
#[derive(Clone)]
pub struct Next {
    tool: Arc<dyn Tool>,
    context: ToolContext,
}

impl Next {
    /// Returns the definition of the called tool.
    pub fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    /// Returns the context of the call, with the principal, the state and the deadline.
    pub fn context(&self) -> &ToolContext {
        &self.context
    }

    /// Runs the inner hooks and the tool with `arguments`. If the hook does not call this method,
    /// the tool does not run.
    ///
    /// # Errors
    ///
    /// Fails if the tool or an inner hook returns an error.
    pub async fn run(&self, arguments: Value) -> Result<ToolResponse, ToolError> {
        self.tool.call(arguments, &self.context).await
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("tool", self.definition().name())
            .field("call", &self.context.call_id())
            .finish_non_exhaustive()
    }
}

pub(super) type CallHook =
    dyn Fn(Value, Next) -> BoxFuture<'static, Result<ToolResponse, ToolError>> + Send + Sync;

/// An adaptor that wraps each tool in a [`HookedTool`].
pub(super) struct AroundCalls(pub(super) Arc<CallHook>);

impl Adaptor for AroundCalls {
    fn adapt(&self, tool: &Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        Some(Arc::new(HookedTool { tool: Arc::clone(tool), hook: Arc::clone(&self.0) }))
    }
}

/// A tool with a hook around its calls.
struct HookedTool {
    tool: Arc<dyn Tool>,
    hook: Arc<CallHook>,
}

#[async_trait]
impl Tool for HookedTool {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        (self.hook)(arguments, Next { tool: Arc::clone(&self.tool), context: cx.clone() }).await
    }
}
