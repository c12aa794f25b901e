use std::{sync::Arc, time::Duration};

use haft_core::{Pipeline, Toolset, pipeline::Recorder};

/// The settings of an agent for the calls to all its tools. They apply after those of the toolset.
#[derive(Default)]
pub(super) struct CallSettings {
    pub(super) timeout: Option<Duration>,
    pub(super) cancel_grace: Option<Duration>,
    pub(super) traces_content: bool,
    pub(super) recorders: Vec<Arc<dyn Recorder>>,
}

impl CallSettings {
    /// Returns `tools` with these settings. A toolset without changes keeps its pipeline.
    pub(super) fn apply(self, tools: Toolset) -> Toolset {
        let Self { timeout, cancel_grace, traces_content, recorders } = self;
        if timeout.is_none() && cancel_grace.is_none() && !traces_content && recorders.is_empty() {
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
        tools.with_pipeline(recorders.into_iter().fold(pipeline, Pipeline::with_recorder))
    }
}
