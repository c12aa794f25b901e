//! The extensions of an agent, in order.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_core::{
    ChatModel, Toolset,
    agent::{AgentErrorKind, RunLimits},
    limits,
};

use super::{
    Extension, StepContext, StepRequest,
    hook::{HookError, within},
};
use crate::{Output, OutputError, dialect::Reply, extension::request::PreparedLists};

/// The extensions of an agent, in order. The first contains the hooks of the builder.
pub(crate) struct Extensions {
    pub(crate) own: Extension,
    added: Vec<Extension>,
    /// The timeout of each hook.
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

    /// Returns `true` without an added extension: no code uses entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Extension> {
        [&self.own].into_iter().chain(&self.added)
    }

    /// The first name that is empty or used twice.
    pub(crate) fn invalid_name(&self) -> Option<&str> {
        let mut names = BTreeSet::new();
        let mut added = self.added.iter().map(|extension| extension.name.as_str());
        added.find(|name| name.is_empty() || !names.insert(*name))
    }

    pub(crate) fn adapt_tools(&self, tools: Toolset) -> Toolset {
        let adaptors = self.iter().rev().flat_map(|extension| extension.tools.iter().rev());
        adaptors.fold(tools, |tools, adapt| adapt(tools))
    }

    pub(crate) fn adapt_model(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        let adaptors = self.iter().rev().flat_map(|extension| extension.models.iter().rev());
        adaptors.fold(model, |model, adapt| adapt(model))
    }

    /// The paragraphs of the instructions that do not depend on the run.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        self.iter().flat_map(|extension| extension.paragraphs.iter().cloned()).collect()
    }

    pub(crate) fn limits(&self, own: RunLimits) -> RunLimits {
        self.iter().fold(own, |limits, extension| lowest(limits, extension.limits))
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

    /// The paragraphs of the instructions that depend on the run.
    pub(crate) async fn dynamic_instructions(&self, cx: &StepContext) -> Result<Vec<String>, AgentErrorKind> {
        let mut paragraphs = Vec::new();
        for extension in self.iter() {
            let cx = cx.of(&extension.name);
            for hook in &extension.instructions {
                let hook = Arc::clone(hook);
                let text = within(self.timeout, &cx, move |cx| hook(cx)).await;
                paragraphs.push(HookError::flat(text, "dynamic instructions")?);
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
            let cx = cx.of(&extension.name);
            for hook in &extension.prepare {
                let hook = Arc::clone(hook);
                let prepared = within(self.timeout, &cx, move |cx| hook(request, cx)).await;
                request = HookError::flat(prepared, "prepare hook")?;
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
            let cx = cx.of(&extension.name);
            for hook in extension.replies.iter().rev() {
                let hook = Arc::clone(hook);
                let changed = within(self.timeout, &cx, move |cx| hook(reply, cx)).await;
                reply = HookError::flat(changed, "reply hook")?;
            }
        }
        Ok(reply)
    }

    pub(crate) async fn validate(&self, mut output: Output, cx: &StepContext) -> Result<Output, OutputError> {
        for extension in self.iter() {
            let cx = cx.of(&extension.name);
            for validator in &extension.validators {
                let validator = Arc::clone(validator);
                let checked = within(self.timeout, &cx, move |cx| validator(output, cx)).await;
                output = checked.map_err(|error| OutputError::Failed(error.into()))??;
            }
        }
        Ok(output)
    }
}

fn lowest(one: RunLimits, other: RunLimits) -> RunLimits {
    fn low<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other < one { other } else { one }),
            (one, other) => one.or(other),
        }
    }
    RunLimits {
        requests: low(one.requests, other.requests),
        tool_calls: low(one.tool_calls, other.tool_calls),
        total_tokens: low(one.total_tokens, other.total_tokens),
        input_tokens: low(one.input_tokens, other.input_tokens),
        output_tokens: low(one.output_tokens, other.output_tokens),
        cost: low(one.cost, other.cost),
        time: low(one.time, other.time),
    }
}
