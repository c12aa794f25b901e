use std::{iter, sync::Arc};

use haft_core::{Schema, ToolName, schema::SchemaError, tool::StateType, toolset::ToolsetError};

use super::{AgentInner, ReactAgent, ReactAgentBuilder, input_output_fields, with_prices};
use crate::{
    QueueHandle,
    dialect::dialect_for,
    extension::{Entries, ExtensionSet},
};

/// An error in the configuration of an agent, returned by [`ReactAgentBuilder::build`] and
/// [`ExtensionSet::new`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentBuildError {
    /// Two tools of the agent have the same name, or a tool is invalid.
    #[error(transparent)]
    InvalidTools(#[from] ToolsetError),
    /// A tool has a name, such as `finish`, that the dialect reserves for the end of a run.
    #[error(
        "no tool can be named {name:?}: the dialect {dialect} ends a run by this name; rename or prefix the tool"
    )]
    ReservedName {
        /// The name of the tool.
        name: &'static str,
        /// The name of the dialect.
        dialect: &'static str,
    },
    /// A tool needs state that is neither set with [`state`](ReactAgentBuilder::state) nor declared
    /// with [`state_per_run`](ReactAgentBuilder::state_per_run).
    #[error(
        "the tool \"{tool}\" needs state of type {state}: set it with `state`, or declare with `state_per_run` that each \
         run has it"
    )]
    MissingState {
        /// The name of the tool.
        tool: ToolName,
        /// The name of the Rust type of the missing state.
        state: &'static str,
    },
    /// An extension has an empty name, or the same name as another extension.
    #[error("an extension cannot be named {0:?}: the name is empty or used by another extension")]
    InvalidExtensionName(String),
    /// The schema of the inputs does not describe an object.
    #[error("cannot build the tool parameters from the agent's inputs")]
    InvalidInputs(#[source] SchemaError),
    /// The schema of the outputs does not describe an object, or no schema can be generated for the
    /// output type.
    #[error("cannot build the output schema")]
    InvalidOutputs(#[source] SchemaError),
    /// A subschema of the outputs rejects the field `reasoning`, which
    /// [`chain_of_thought`](ReactAgentBuilder::chain_of_thought) adds.
    #[error(
        "the outputs do not allow the field `reasoning`: the subschema at {pointer} has no additional properties; declare \
         `reasoning` there, or build the agent without `chain_of_thought`"
    )]
    ReasoningNotAllowed {
        /// The JSON Pointer to the subschema that rejects `reasoning`.
        pointer: String,
    },
}

impl ReactAgentBuilder {
    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// Fails with the first [`AgentBuildError`] found in the settings or in a tool added directly
    /// to the toolset. Tools of sources, such as MCP servers, are not checked here. A run withholds
    /// unusable tools of sources from the model.
    pub fn build(self) -> Result<ReactAgent, AgentBuildError> {
        let Self { model, tools, dialect, instructions, config, state, .. } = self;
        let extensions = ExtensionSet::new(iter::once(self.own_hooks).chain(self.extensions))?
            .with_hook_timeout(self.hook_timeout);
        if let Some(error) = self.output_error {
            return Err(AgentBuildError::InvalidOutputs(error));
        }
        let (state_per_run, chain_of_thought) = (self.state_per_run, self.chain_of_thought);
        let model = with_prices(extensions.adapt_model(model), self.prices.as_ref());
        let tools = extensions.adapt_tools(tools);
        let mut config = extensions.configure(config);
        config.context.compaction |= self.compactor.is_some();
        let compactor =
            self.compactor.map_or_else(|| Arc::clone(&model), |it| with_prices(it, self.prices.as_ref()));
        let dialect = dialect.unwrap_or_else(|| dialect_for(model.profile()));
        config.inputs =
            config.inputs.map(Schema::into_arguments).transpose().map_err(AgentBuildError::InvalidInputs)?;
        let mut outputs = config.outputs.map(Schema::into_arguments).transpose();
        if chain_of_thought {
            if let Ok(Some(at)) =
                outputs.as_ref().map(|it| it.as_ref().and_then(input_output_fields::find_closed_subschema))
            {
                return Err(AgentBuildError::ReasoningNotAllowed { pointer: at });
            }
            outputs = outputs.and_then(input_output_fields::add_reasoning_field).map(Some);
        }
        config.outputs = outputs.map_err(AgentBuildError::InvalidOutputs)?;
        let instructions =
            extensions.instructions(input_output_fields::append_field_lists(instructions, &config));
        tools.check()?;
        let tools = if self.traces_content {
            let pipeline = tools.pipeline().clone().with_traced_content(true);
            tools.with_pipeline(pipeline)
        } else {
            tools
        };
        if let Some(name) = dialect.reserved_name(config.outputs.as_ref())
            && tools.static_tools().any(|tool| *tool.definition().name() == *name)
        {
            return Err(AgentBuildError::ReservedName { name, dialect: dialect.name() });
        }
        let queue = StateType::of::<QueueHandle>();
        let entries = StateType::of::<Entries>();
        let has_queue = self.has_queue
            || tools.static_tools().any(|tool| tool.definition().state_types().contains(&queue));
        for tool in tools.static_tools() {
            let definition = tool.definition();
            let mut missing = state
                .missing_types(definition.state_types())
                .filter(|it| **it != queue && **it != entries && !state_per_run.contains(it));
            if let Some(missing) = missing.next() {
                return Err(AgentBuildError::MissingState {
                    tool: definition.name().clone(),
                    state: missing.name(),
                });
            }
        }
        Ok(ReactAgent(Arc::new(AgentInner {
            model,
            compactor,
            tools,
            dialect,
            instructions,
            config,
            state,
            extensions: extensions.into(),
            prices: self.prices,
            traces_content: self.traces_content,
            has_queue,
            handoff_tools: Arc::default(),
        })))
    }
}
