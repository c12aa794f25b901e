//! Tools for the tests in this crate.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_core::{
    Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolExt as _, ToolName, ToolSource, Toolset,
    export::{
        async_trait,
        schemars::{self, JsonSchema},
    },
    tool::{DynamicTool, IntoToolOutput, StateType, ToolPolicy},
    tool_fn,
    toolset::{ListContext, SourceError, ToolList},
};
use haft_react::{QueueHandle, RunHandle, run::Delivery};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Add {
    x: i64,
    y: i64,
}

/// Creates the tool `add(x, y)`, which returns the sum of `x` and `y`.
pub(crate) fn add_tool() -> DynamicTool {
    tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y })
}

/// Creates a toolset that contains only the tool of [`add_tool`].
pub(crate) fn calculator() -> Toolset {
    Toolset::new().with_tool(add_tool())
}

/// Creates a tool without parameters that calls `function`.
pub(crate) fn tool_without_parameters<F, Fut>(name: &str, function: F) -> DynamicTool
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoToolOutput,
{
    DynamicTool::new(ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object()), move |_, _| {
        function()
    })
}

/// Creates the tool `name` without parameters. Each call runs `push` with its queue handle.
pub(crate) fn pushing_tool<R: IntoToolOutput + Send + 'static>(
    name: &str,
    push: impl Fn(QueueHandle) -> Result<R, ToolError> + Send + Sync + 'static,
) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
    DynamicTool::new(definition.with_state_type(StateType::of::<QueueHandle>()), move |_, cx| {
        let pushed = cx.state::<QueueHandle>().and_then(&push);
        async move { pushed }
    })
}

/// Creates the tool `wait(millis)`, which returns `millis` after that many milliseconds.
pub(crate) fn waiting_tool() -> DynamicTool {
    let schema = Schema::for_arguments(json!({"properties": {"millis": {"type": "integer"}}})).unwrap();
    let definition = ToolDefinition::new(ToolName::new("wait").unwrap(), schema);
    DynamicTool::new(definition, |arguments, _| async move {
        let millis = arguments["millis"].as_u64().unwrap_or_default();
        sleep(Duration::from_millis(millis)).await;
        millis
    })
}

/// Creates the tool `hang()`, which never returns. Its calls time out after `timeout`.
pub(crate) fn hanging_tool(timeout: Duration) -> impl Tool + 'static {
    tool_without_parameters("hang", pending::<()>)
        .with_definition(|it| it.with_policy(ToolPolicy { timeout: Some(timeout), ..ToolPolicy::default() }))
}

/// Creates the tool `panic()`, which panics with a secret in the message.
pub(crate) fn panicking_tool() -> DynamicTool {
    tool_without_parameters("panic", || async {
        if true {
            panic!("with a secret")
        }
    })
}

/// Creates the tool `fail()`, whose calls always fail.
pub(crate) fn failing_tool() -> DynamicTool {
    tool_without_parameters("fail", || async { Err::<(), _>(ToolError::failed("no luck")) })
}

/// Creates the tool `retry()`. Each of its calls fails and requests a retry.
pub(crate) fn retrying_tool() -> DynamicTool {
    tool_without_parameters("retry", || async { Err::<(), _>(ToolError::retry("try again")) })
}

/// A source with one tool. The tool is listed only during a run, so it is unknown when an agent is
/// built.
pub(crate) struct DynamicSource(Arc<dyn Tool>);

impl DynamicSource {
    pub(crate) fn new(tool: impl Tool + 'static) -> Self {
        Self(Arc::new(tool))
    }
}

#[async_trait]
impl ToolSource for DynamicSource {
    fn label(&self) -> &str {
        "dynamic"
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        Ok(ToolList::new("dynamic", [Arc::clone(&self.0)]))
    }
}

/// Returns a copy of `tool`, and a counter of the calls to this copy.
pub(crate) fn with_call_counter(tool: &DynamicTool) -> (DynamicTool, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (tool, ran) = (tool.clone(), Arc::clone(&count));
    let counted = DynamicTool::new(tool.definition().clone(), move |arguments, cx| {
        ran.fetch_add(1, Ordering::Relaxed);
        let tool = tool.clone();
        async move { tool.call(arguments, &cx).await }
    });
    (counted, count)
}

/// Creates the tool `ask`, which enqueues `messages` through the run handle.
pub(crate) fn enqueueing_tool(messages: &'static [(&'static str, Delivery)]) -> DynamicTool {
    DynamicTool::new(
        tool_without_parameters("ask", || async {}).definition().clone(),
        move |_, cx: ToolContext| async move {
            let handle = cx.state::<RunHandle>()?;
            for (text, when) in messages {
                handle.enqueue(*text, *when).map_err(ToolError::failed)?;
            }
            Ok::<_, ToolError>("asked")
        },
    )
}
