//! The inputs of a step: its tools, instructions, tool choice, settings, model and dialect.

use std::sync::Arc;

use haft_core::{Message, agent::AgentErrorKind, toolset::ListContext};

use super::{ReactAgent, drive::DriveScope, with_prices};
use crate::{Run, extension::StepInputs};

impl ReactAgent {
    /// Lists the tools and runs the hooks for the next request. `last` contains the instructions of
    /// the previous step. This message is reused if the text is unchanged, because a [`Message`]
    /// caches its rendered text.
    pub(super) async fn prepare_step(
        &self,
        run: &Run,
        scope: &DriveScope<'_>,
        last: Option<Arc<Message>>,
    ) -> Result<StepInputs, AgentErrorKind> {
        let (run_id, state) = (scope.context.run_id.clone(), scope.context.state.clone());
        let tools = self.0.tools.list(&ListContext { step: run.step(), run_id, state }).await;
        let tools = if self.0.handoff_conditions.is_empty() {
            tools
        } else {
            self.without_disabled_handoffs(tools, &scope.step_context(run)).await?
        };
        let mut inputs = StepInputs::new(tools, Arc::clone(&self.0.model), Arc::clone(&self.0.dialect));
        inputs.instructions.clone_from(&self.0.instructions);
        inputs.handoff_tools = Arc::clone(&self.0.handoff_tools);
        let mut inputs = self.0.extensions.prepare(inputs, run, &scope.step_context(run)).await?;
        // The agent's model already has the agent's prices. A model selected by a hook does not.
        if !Arc::ptr_eq(&inputs.model, &self.0.model) {
            inputs.model = with_prices(inputs.model, self.0.prices.as_ref());
        }
        if let (Some(instructions), Some(last)) = (&mut inputs.instructions, last)
            && !Arc::ptr_eq(instructions, &last)
            && instructions.text() == last.text()
        {
            *instructions = last;
        }
        Ok(inputs)
    }
}
