use std::{sync::Arc, time::Duration};

use haft_core::{Toolset, pipeline::RepairHook, tool::FailureHook};

/// The settings of an agent for the calls to all its tools. They apply after those of the toolset.
#[derive(Default)]
pub(super) struct CallSettings {
    pub(super) timeout: Option<Duration>,
    pub(super) failure_hooks: Vec<FailureHook>,
    pub(super) repair_hooks: Vec<Arc<dyn RepairHook>>,
    pub(super) cancel_grace: Option<Duration>,
    pub(super) traces_content: bool,
}

impl CallSettings {
    /// Returns `tools` with these settings. A toolset without changes keeps its pipeline.
    pub(super) fn apply(self, tools: Toolset) -> Toolset {
        let Self { timeout, failure_hooks, repair_hooks, cancel_grace, traces_content } = self;
        let has_hooks = !failure_hooks.is_empty() || !repair_hooks.is_empty();
        if timeout.is_none() && !has_hooks && cancel_grace.is_none() && !traces_content {
            return tools;
        }
        let mut pipeline = tools.pipeline().clone();
        if let Some(timeout) = timeout.filter(|_| pipeline.timeout().is_none()) {
            pipeline = pipeline.with_timeout(timeout);
        }
        for hook in failure_hooks {
            pipeline = pipeline.with_failure_hook(move |failed| hook.replacement(failed));
        }
        for hook in repair_hooks {
            pipeline = pipeline.with_repair_hook(hook);
        }
        if let Some(grace) = cancel_grace {
            pipeline = pipeline.with_cancel_grace(grace);
        }
        if traces_content {
            pipeline = pipeline.with_traced_content(true);
        }
        tools.with_pipeline(pipeline)
    }
}
