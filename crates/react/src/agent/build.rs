use std::{collections::BTreeSet, iter, sync::Arc, time::Duration};

use haft_core::{
    ChatModel, Schema, ToolDefinition, ToolName, Toolset, agent::RunLimits, schema::SchemaError,
    tool::StateType, toolset::ToolsetError,
};

use super::{AgentInner, ReactAgent, ReactAgentBuilder, signature, with_prices};
use crate::{
    Extension, RunConfig,
    dialect::{Dialect, dialect_for},
    entries::Entries,
    hook::{HookSet, join_instructions},
    host_panic::{HostPanic, catch_panic, profile_of},
    queue::with_queues,
};

/// An error in the configuration of an agent, returned by [`ReactAgentBuilder::build`].
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
    /// A timeout of the builder is zero.
    #[error(
        "`{setting}` is zero, so each {subject} would time out: set a positive duration, or leave it out"
    )]
    ZeroTimeout {
        /// The name of the builder method.
        setting: &'static str,
        /// The operation with the timeout, such as `hook`.
        subject: &'static str,
    },
    /// Code of the host program panicked: the profile of the model, the dialect, an adaptor of an
    /// extension, or a closure that adapts a toolset, such as the closure of
    /// [`filtered`](haft_core::Toolset::filtered) (`Adaptor::adapt`). The panic message is logged
    /// at the level `debug`.
    #[error("`{method}` panicked")]
    Panicked {
        /// The method, such as `ChatModel::profile`.
        method: &'static str,
    },
}

impl From<HostPanic> for AgentBuildError {
    fn from(HostPanic { method }: HostPanic) -> Self {
        Self::Panicked { method }
    }
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
        let hosted_tools = self.hosted_tools.into();
        let Self { model, tools, dialect, instructions, config, state, .. } = self;
        let zero_timeout = |setting, subject| Err(AgentBuildError::ZeroTimeout { setting, subject });
        if self.call_settings.timeout == Some(Duration::ZERO) {
            return zero_timeout("tool_timeout", "tool call");
        }
        if self.hook_timeout.is_zero() {
            return zero_timeout("hook_timeout", "hook");
        }
        if let Some(error) = self.output_error {
            return Err(AgentBuildError::InvalidOutputs(error));
        }
        let extensions: Vec<_> = iter::once(self.own).chain(self.extensions).collect();
        check_names(&extensions)?;
        let hooks = extensions.iter().flat_map(|extension| extension.hooks.iter().cloned()).collect();
        let hooks = HookSet::new(hooks, self.hook_timeout);
        let model = catch_panic("Extension::adapt_model", || adapt_model(&extensions, model))?;
        let model = with_prices(model, self.prices.as_ref());
        let tools = catch_panic("Extension::adapt_tools", || adapt_tools(&extensions, tools))?;
        let limits = extensions.iter().map(|extension| extension.limits);
        let limits = limits.fold(config.limits, lowest_limits);
        let mut config = RunConfig { limits, checks: hooks.checks(), ..config };
        config.context.compaction |= self.compactor.is_some();
        let compactor =
            self.compactor.map_or_else(|| Arc::clone(&model), |it| with_prices(it, self.prices.as_ref()));
        let dialect = match dialect {
            Some(dialect) => dialect,
            None => dialect_for(profile_of(&*model)?),
        };
        config.inputs =
            config.inputs.map(Schema::into_arguments).transpose().map_err(AgentBuildError::InvalidInputs)?;
        declare_outputs(&mut config, self.chain_of_thought)?;
        let instructions = signature::append_field_lists(instructions, &config);
        let paragraphs = extensions.iter().flat_map(|extension| extension.paragraphs.iter());
        let instructions = join_instructions(instructions, paragraphs);
        let traces_content = self.call_settings.traces_content;
        let own_tools = self.call_settings.apply(tools);
        let tools = with_queues(own_tools.clone());
        let reserved = || dialect.reserved_name(config.outputs.as_ref());
        let reserved = catch_panic("Dialect::reserved_name", reserved)?;
        let given: Vec<_> = iter::once(StateType::of::<Entries>()).chain(self.state_per_run).collect();
        let missing_state = |definition: &ToolDefinition| {
            let missing = state.missing_types(definition.state_types()).find(|it| !given.contains(it));
            missing.map(|it| it.name())
        };
        // The static tools are adapted by closures of the host program.
        catch_panic("Adaptor::adapt", || check_tools(&tools, reserved, &dialect, missing_state))??;
        Ok(ReactAgent(Arc::new(AgentInner {
            model,
            compactor,
            own_tools,
            tools,
            hosted_tools,
            dialect,
            instructions,
            config,
            state,
            hooks,
            prepared_lists: Arc::default(),
            prices: self.prices,
            traces_content,
            handoff_conditions: Vec::new(),
        })))
    }
}

/// Checks that the names of `extensions` are unique. The first one has the empty name.
fn check_names(extensions: &[Extension]) -> Result<(), AgentBuildError> {
    let mut names = BTreeSet::new();
    match extensions.iter().find(|extension| !names.insert(extension.name.as_str())) {
        Some(duplicate) => Err(AgentBuildError::InvalidExtensionName(duplicate.name.clone())),
        None => Ok(()),
    }
}

/// Returns `tools` with the tools and the adaptors of `extensions`.
fn adapt_tools(extensions: &[Extension], tools: Toolset) -> Toolset {
    extensions.iter().rev().fold(tools, |tools, extension| {
        let tools = extension.tools.iter().cloned().fold(tools, Toolset::with_source);
        extension.tool_adaptors.iter().rev().fold(tools, |tools, adapt| adapt(tools))
    })
}

/// Returns `model` with the adaptors of `extensions`.
fn adapt_model(extensions: &[Extension], model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
    let adaptors = extensions.iter().rev().flat_map(|extension| extension.model_adaptors.iter().rev());
    adaptors.fold(model, |model, adapt| adapt(model))
}

fn lowest_limits(a: RunLimits, b: RunLimits) -> RunLimits {
    fn min_limit<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (a, b) => a.or(b),
        }
    }
    RunLimits {
        requests: min_limit(a.requests, b.requests),
        tool_calls: min_limit(a.tool_calls, b.tool_calls),
        total_tokens: min_limit(a.total_tokens, b.total_tokens),
        input_tokens: min_limit(a.input_tokens, b.input_tokens),
        output_tokens: min_limit(a.output_tokens, b.output_tokens),
        request_input_tokens: min_limit(a.request_input_tokens, b.request_input_tokens),
        request_output_tokens: min_limit(a.request_output_tokens, b.request_output_tokens),
        cost: min_limit(a.cost, b.cost),
        time: min_limit(a.time, b.time),
    }
}

/// Checks the static tools of `tools`. `reserved` is the name that the dialect reserves.
/// `missing_state` returns the name of a type of state that the agent does not have.
fn check_tools(
    tools: &Toolset,
    reserved: Option<&'static str>,
    dialect: &Arc<dyn Dialect>,
    missing_state: impl Fn(&ToolDefinition) -> Option<&'static str>,
) -> Result<(), AgentBuildError> {
    tools.check()?;
    let all: Vec<_> = tools.static_tools().collect();
    if let Some(name) = reserved.filter(|name| all.iter().any(|tool| *tool.definition().name() == **name)) {
        return Err(AgentBuildError::ReservedName { name, dialect: dialect.name() });
    }
    for definition in all.iter().map(|tool| tool.definition()) {
        if let Some(state) = missing_state(definition) {
            return Err(AgentBuildError::MissingState { tool: definition.name().clone(), state });
        }
    }
    Ok(())
}

/// Wraps non-object outputs of `config` in an object, and adds the field `reasoning`.
fn declare_outputs(config: &mut RunConfig, chain_of_thought: bool) -> Result<(), AgentBuildError> {
    if let Some(schema) = config.outputs.take() {
        let declared = match (&config.output_property, chain_of_thought) {
            // An extension has declared the outputs.
            (Some(_), _) => schema.into_arguments().map(|schema| config.outputs = Some(schema)),
            (None, true) => config.declare_structured_output(schema),
            (None, false) => config.declare_output(schema),
        };
        declared.map_err(AgentBuildError::InvalidOutputs)?;
    }
    if chain_of_thought {
        if let Some(pointer) = config.outputs.as_ref().and_then(signature::find_closed_subschema) {
            return Err(AgentBuildError::ReasoningNotAllowed { pointer });
        }
        let outputs = signature::add_reasoning_field(config.outputs.take());
        config.outputs = Some(outputs.map_err(AgentBuildError::InvalidOutputs)?);
    }
    Ok(())
}
