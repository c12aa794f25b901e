//! The hand-off tools of an agent in a [`HandoffGroup`](crate::HandoffGroup).

use std::{collections::BTreeSet, future::Future, sync::Arc};

use futures::future::BoxFuture;
use haft_core::{Tool, agent::AgentErrorKind, call::BoxError, tool::RunContext, toolset::ToolList};

use super::{AgentBuildError, AgentInner, ReactAgent};
use crate::{
    Run,
    extension::{Entries, StepContext},
    handoff::HandoffContext,
    queue::with_queues,
};

/// A condition under which a hand-off tool is offered in a step.
pub(crate) type HandoffCondition =
    Arc<dyn Fn(StepContext) -> BoxFuture<'static, Result<bool, BoxError>> + Send + Sync>;

impl ReactAgent {
    /// Returns the names of the agent's hand-off tools.
    pub(crate) fn handoff_tools(&self) -> &BTreeSet<String> {
        &self.0.handoff_tools
    }

    /// Returns a copy of this agent with the hand-off tools `tools` and their conditions added.
    /// Fails if the resulting toolset has a duplicate name or an invalid tool.
    pub(crate) fn with_handoff_tools<T: Tool + 'static>(
        &self,
        tools: impl IntoIterator<Item = T>,
        conditions: Vec<(String, HandoffCondition)>,
    ) -> Result<Self, AgentBuildError> {
        let mut inner = AgentInner::clone(&self.0);
        for tool in tools {
            Arc::make_mut(&mut inner.handoff_tools).insert(tool.definition().name().to_string());
            inner.own_tools = inner.own_tools.with_tool(tool);
        }
        inner.tools = with_queues(inner.own_tools.clone());
        inner.handoff_conditions.extend(conditions);
        inner.tools.check()?;
        Ok(Self(Arc::new(inner)))
    }

    /// Returns `tools` without the hand-off tools whose condition is not met in this step.
    pub(super) async fn without_disabled_handoffs(
        &self,
        tools: ToolList,
        cx: &StepContext,
    ) -> Result<ToolList, AgentErrorKind> {
        let mut disabled = BTreeSet::new();
        for (tool, condition) in &self.0.handoff_conditions {
            let condition = Arc::clone(condition);
            let hook = move |cx| condition(cx);
            if !self.0.extensions.run_hook("hand-off condition", cx, hook).await? {
                disabled.insert(tool.as_str());
            }
        }
        if disabled.is_empty() {
            return Ok(tools);
        }
        let is_offered = |tool: &Arc<dyn Tool>| !disabled.contains(tool.definition().name().as_str());
        Ok(tools.filter_map(|tool| is_offered(tool).then(|| Arc::clone(tool))))
    }

    /// Runs the hook of a hand-off from the agent `from` to the agent `to`. Fails if the hook
    /// fails, panics or exceeds the timeout, or if the run is cancelled.
    pub(crate) async fn run_handoff_hook<F>(
        &self,
        run: &mut Run,
        context: &RunContext,
        (from, to): (String, String),
        hook: impl FnOnce(HandoffContext) -> F + Send + 'static,
    ) -> Result<(), AgentErrorKind>
    where
        F: Future<Output = Result<(), BoxError>> + Send,
    {
        let entries = Entries::new(run.extension_entries().clone());
        let step = StepContext::new(run, &Arc::new(context.clone()), &entries).for_builder();
        let hook = move |step| hook(HandoffContext { step, from, to });
        let result = self.0.extensions.run_hook("hand-off hook", &step, hook).await;
        if let Some(changed) = entries.take_if_changed() {
            run.set_extension_entries(changed);
        }
        result
    }
}
