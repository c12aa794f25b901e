//! The purpose of a model request.

use haft_core::agent::{Limit, StopReason};
use serde::{Deserialize, Serialize};

/// The purpose of a model request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestPurpose {
    /// A normal step: the model makes tool calls or answers.
    #[default]
    Step,
    /// A separate request after the last step, in which the model returns the declared outputs
    /// ([`OutputStrategy::Extraction`](super::OutputStrategy::Extraction)).
    Outputs {
        /// The reached limit that makes this request the final one. `None` if no limit was reached.
        limit: Option<Limit>,
    },
    /// A final request after `limit` was reached, in which the model must answer.
    FinalAnswer { limit: Limit },
}

impl RequestPurpose {
    pub(super) fn is_step(&self) -> bool {
        matches!(self, Self::Step)
    }

    /// Returns `true` if the model must answer without tool calls.
    pub(super) fn must_answer(self) -> bool {
        !matches!(self, Self::Step)
    }

    /// Returns the reached limit that makes the request the final one. `None` if no limit was
    /// reached.
    pub(super) fn limit(self) -> Option<Limit> {
        match self {
            Self::Step => None,
            Self::Outputs { limit } => limit,
            Self::FinalAnswer { limit } => Some(limit),
        }
    }

    /// Returns the stop reason of a run that ends with the reply to the request.
    pub(super) fn stop_reason(self) -> StopReason {
        self.limit().map_or(StopReason::Finished, |_| StopReason::LimitReached)
    }

    pub(super) fn with_limit(self, limit: Limit) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: Some(limit) },
            Self::Step | Self::FinalAnswer { .. } => Self::FinalAnswer { limit },
        }
    }

    pub(super) fn without_limit(self) -> Self {
        match self {
            Self::Outputs { .. } => Self::Outputs { limit: None },
            Self::Step | Self::FinalAnswer { .. } => Self::Step,
        }
    }
}
