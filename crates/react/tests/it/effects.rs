//! A helper for tests that drive a run without an agent.

use haft_core::agent::AgentErrorKind;
use haft_react::{Effect, Run, Step};

/// Advances `run` to its next effect other than `Effect::Prepare`, and returns this effect.
pub(crate) fn advance(run: &mut Run, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
    loop {
        match run.next(step) {
            Ok(Effect::Prepare) => {}
            other => return other,
        }
    }
}
