//! Driving a run by hand.

use haft_core::agent::AgentErrorKind;
use haft_react::{Effect, Run, Step};

/// The next effect after the inputs of `step` are prepared.
pub(crate) fn advance(run: &mut Run, step: &Step<'_>) -> Result<Effect, AgentErrorKind> {
    loop {
        match run.next(step) {
            Ok(Effect::Prepare) => {}
            other => return other,
        }
    }
}
