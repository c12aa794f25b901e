use std::time::Duration;

use haft_core::Toolset;

/// The settings of an agent for the calls to all its tools. They apply after those of the toolset.
#[derive(Default)]
pub(super) struct CallSettings {
    pub(super) timeout: Option<Duration>,
    pub(super) cancel_grace: Option<Duration>,
    pub(super) traces_content: bool,
}

impl CallSettings {
    /// Returns `tools` with these settings. A toolset without changes keeps its pipeline.
    pub(super) fn apply(self, tools: Toolset) -> Toolset {
        let Self { timeout, cancel_grace, traces_content } = self;
        if timeout.is_none() && cancel_grace.is_none() && !traces_content {
            return tools;
        }
        let mut pipeline = tools.pipeline().clone();
        if let Some(timeout) = timeout.filter(|_| pipeline.timeout().is_none()) {
            pipeline = pipeline.with_timeout(timeout);
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
