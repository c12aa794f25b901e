//! The list of an agent's extensions, and the execution of their hooks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_core::{
    ChatModel, Toolset,
    agent::{AgentErrorKind, RunLimits},
    limits,
};

use super::{
    Extension, StepContext, StepRequest,
    hook::{HookError, run_hook, with_extension_name},
};
use crate::{Output, OutputError, dialect::Reply, extension::request::PreparedLists};

/// The extensions of an agent, in the order in which they were added. `own` comes first and
/// contains the hooks of the agent builder.
pub(crate) struct Extensions {
    pub(crate) own: Extension,
    added: Vec<Extension>,
    /// The maximum duration of each call to a hook.
    pub(crate) timeout: Duration,
    pub(crate) prepared: PreparedLists,
}

impl Default for Extensions {
    fn default() -> Self {
        Self {
            own: Extension::new(""),
            added: Vec::new(),
            timeout: limits::HOOK_TIMEOUT,
            prepared: PreparedLists::default(),
        }
    }
}

impl Extensions {
    pub(crate) fn add(&mut self, extension: Extension) {
        self.added.push(extension);
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Extension> {
        [&self.own].into_iter().chain(&self.added)
    }

    /// Returns the first extension name that is empty or already in use, or `None` if all names are
    /// valid.
    pub(crate) fn invalid_name(&self) -> Option<&str> {
        let mut names = BTreeSet::new();
        let mut added = self.added.iter().map(|extension| extension.name.as_str());
        added.find(|name| name.is_empty() || !names.insert(*name))
    }

    pub(crate) fn adapt_tools(&self, tools: Toolset) -> Toolset {
        self.iter().rev().fold(tools, |tools, extension| {
            let tools = extension.toolsets.iter().cloned().fold(tools, Toolset::with_source);
            extension.tools.iter().rev().fold(tools, |tools, adapt| adapt(tools))
        })
    }

    pub(crate) fn adapt_model(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        let adaptors = self.iter().rev().flat_map(|extension| extension.models.iter().rev());
        adaptors.fold(model, |model, adapt| adapt(model))
    }

    /// Returns the paragraphs that the extensions add to the instructions of every model request.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        self.iter().flat_map(|extension| extension.paragraphs.iter().cloned()).collect()
    }

    pub(crate) fn limits(&self, own: RunLimits) -> RunLimits {
        self.iter().fold(own, |limits, extension| lowest_limits(limits, extension.limits))
    }

    pub(crate) fn has_validators(&self) -> bool {
        self.iter().any(|extension| !extension.validators.is_empty())
    }

    pub(crate) fn change_requests(&self) -> bool {
        self.iter().any(|extension| !extension.instructions.is_empty() || !extension.prepare.is_empty())
    }

    pub(crate) fn change_replies(&self) -> bool {
        self.iter().any(|extension| !extension.replies.is_empty())
    }

    /// Runs the hooks for dynamic instructions. Returns one paragraph per hook.
    pub(crate) async fn dynamic_instructions(&self, cx: &StepContext) -> Result<Vec<String>, AgentErrorKind> {
        let mut paragraphs = Vec::new();
        for extension in self.iter() {
            let cx = cx.for_extension(&extension.name);
            for hook in &extension.instructions {
                let hook = Arc::clone(hook);
                let text = run_hook(self.timeout, &cx, move |cx| hook(cx)).await;
                paragraphs.push(HookError::flatten(text, &extension.name, "dynamic instructions")?);
            }
        }
        Ok(paragraphs)
    }

    pub(crate) async fn prepare(
        &self,
        mut request: StepRequest,
        cx: &StepContext,
    ) -> Result<StepRequest, AgentErrorKind> {
        for extension in self.iter() {
            let cx = cx.for_extension(&extension.name);
            for hook in &extension.prepare {
                let hook = Arc::clone(hook);
                let prepared = run_hook(self.timeout, &cx, move |cx| hook(request, cx)).await;
                request = HookError::flatten(prepared, &extension.name, "prepare hook")?;
            }
        }
        Ok(request)
    }

    pub(crate) async fn after_reply(
        &self,
        mut reply: Reply,
        cx: &StepContext,
    ) -> Result<Reply, AgentErrorKind> {
        for extension in self.iter().rev() {
            let cx = cx.for_extension(&extension.name);
            for hook in extension.replies.iter().rev() {
                let hook = Arc::clone(hook);
                let changed = run_hook(self.timeout, &cx, move |cx| hook(reply, cx)).await;
                reply = HookError::flatten(changed, &extension.name, "reply hook")?;
            }
        }
        Ok(reply)
    }

    pub(crate) async fn validate(&self, mut output: Output, cx: &StepContext) -> Result<Output, OutputError> {
        for extension in self.iter() {
            let cx = cx.for_extension(&extension.name);
            for validator in &extension.validators {
                let validator = Arc::clone(validator);
                let checked = run_hook(self.timeout, &cx, move |cx| validator(output, cx)).await;
                let checked = checked.map_err(|error| OutputError::Failed(error.into())).and_then(|it| it);
                output = checked.map_err(|error| match error {
                    OutputError::Failed(source) => {
                        OutputError::Failed(with_extension_name(&extension.name, source))
                    }
                    OutputError::Retry(problem) => OutputError::Retry(problem),
                })?;
            }
        }
        Ok(output)
    }
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
        cost: min_limit(a.cost, b.cost),
        time: min_limit(a.time, b.time),
    }
}
