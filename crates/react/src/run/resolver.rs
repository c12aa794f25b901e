//! References in messages and calls.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult, Transcript,
    agent::{AgentStep, RunAnswer},
};

use super::{Output, Run};

/// Resolves references to the results of [added calls](Run::add_calls) in messages, arguments and
/// outputs.
///
/// The transcript itself is never changed. [`PendingQueue`](crate::PendingQueue) implements it
/// for placeholders, as [`Placeholders`](crate::queue::Placeholders).
///
/// # Examples
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
///
/// use haft_core::{Message, ToolCall, ToolResult, Transcript};
/// use haft_react::run::{Output, Resolver, Selection};
///
/// /// Executes one added call at a time.
/// #[derive(Debug)]
/// struct OneByOne;
///
/// impl Resolver for OneByOne {
///     fn messages(&self, _: &Transcript) -> Arc<BTreeMap<usize, Arc<Message>>> {
///         Arc::default()
///     }
///
///     fn output(&self, _: &Transcript, output: Output) -> Output {
///         output
///     }
///
///     fn result(&self, _: &Transcript, _: &ToolResult) -> Option<ToolResult> {
///         None
///     }
///
///     fn select(&self, _: &Transcript, mut waiting: Vec<ToolCall>) -> Selection {
///         let ready = waiting.drain(..1).collect();
///         Selection { ready, waiting, ..Selection::default() }
///     }
/// }
/// ```
pub trait Resolver: Debug + Send + Sync {
    /// Returns the messages that replace messages of the transcript in a request, by index.
    fn messages(&self, transcript: &Transcript) -> Arc<BTreeMap<usize, Arc<Message>>>;

    /// Resolves the references in an output.
    fn output(&self, transcript: &Transcript, output: Output) -> Output;

    /// Returns the result of a call with its references resolved, or `None` if it has none.
    fn result(&self, transcript: &Transcript, result: &ToolResult) -> Option<ToolResult>;

    /// Selects the added calls that can be executed now, with the references in their arguments
    /// resolved. `waiting` is not empty.
    fn select(&self, transcript: &Transcript, waiting: Vec<ToolCall>) -> Selection;
}

/// Added calls, as a [`Resolver`] selects them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The calls to execute now.
    pub ready: Vec<ToolCall>,
    /// The calls to select from after the results of the others are known.
    pub waiting: Vec<ToolCall>,
    /// The calls that can never be executed, each with the reason.
    pub failed: Vec<(ToolCall, String)>,
}

impl Run {
    pub(super) fn resolved(&self, output: Output, resolver: Option<&dyn Resolver>) -> Output {
        match resolver {
            Some(resolver) => resolver.output(&self.transcript, output),
            None => output,
        }
    }

    pub(super) fn resolved_answer(
        &self,
        mut answer: RunAnswer,
        resolver: Option<&dyn Resolver>,
    ) -> RunAnswer {
        let Some(resolver) = resolver else { return answer };
        let RunAnswer { text, outputs, stop_reason, .. } = answer;
        let output = resolver.output(&self.transcript, Output { text, outputs, stop_reason });
        (answer.text, answer.outputs) = (output.text, output.outputs);
        if self.transcript.messages().iter().any(|message| super::call_results(message).is_some()) {
            let steps = answer.steps.iter().map(|step| {
                let result = resolver.result(&self.transcript, &step.result);
                AgentStep {
                    result: result.map_or_else(|| Arc::clone(&step.result), Arc::new),
                    ..step.clone()
                }
            });
            answer.steps = steps.collect();
        }
        answer
    }
}
