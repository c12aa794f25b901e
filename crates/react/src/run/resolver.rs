//! Replacement of references to the results of added calls.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use haft_core::{
    Message, ToolCall, ToolResult, Transcript,
    agent::{AgentStep, RunAnswer},
};

use super::{Output, Run};

/// A resolver that replaces references to the results of [added calls](Run::add_calls), such as
/// placeholders, with the results themselves. References can occur in messages, arguments and
/// outputs.
///
/// The transcript itself is never changed. For a [`PendingQueue`](crate::PendingQueue), use
/// [`QueueResolver`](crate::queue::QueueResolver) as the resolver.
///
/// # Examples
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
///
/// use haft_core::{Message, ToolCall, ToolResult, Transcript};
/// use haft_react::run::{Output, Resolver, CallSelection};
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
///     fn select(&self, _: &Transcript, mut waiting: Vec<ToolCall>) -> CallSelection {
///         let ready = waiting.drain(..1).collect();
///         CallSelection { ready, waiting, ..CallSelection::default() }
///     }
/// }
/// ```
pub trait Resolver: Debug + Send + Sync {
    /// Returns a copy of each message that contains references, in which all references are
    /// replaced. The keys are the transcript indices of the original messages. In a model request,
    /// the copies replace the original messages.
    fn messages(&self, transcript: &Transcript) -> Arc<BTreeMap<usize, Arc<Message>>>;

    /// Returns `output` with all references replaced.
    fn output(&self, transcript: &Transcript, output: Output) -> Output;

    /// Returns a copy of `result` in which all references are replaced, or `None` if `result`
    /// contains no references.
    fn result(&self, transcript: &Transcript, result: &ToolResult) -> Option<ToolResult>;

    /// Selects the added calls that can be executed now, and resolves the references in their
    /// arguments. `waiting` contains all added calls that have not been executed yet, and is not
    /// empty.
    fn select(&self, transcript: &Transcript, waiting: Vec<ToolCall>) -> CallSelection;
}

/// The added calls, divided by [`Resolver::select`] into calls to execute now, calls to delay, and
/// calls that can never be executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSelection {
    /// The calls to execute now, with resolved arguments.
    pub ready: Vec<ToolCall>,
    /// The calls that need the results of other calls first. They are passed to
    /// [`Resolver::select`] again.
    pub waiting: Vec<ToolCall>,
    /// The calls that can never be executed, each with the reason as text.
    pub failed: Vec<(ToolCall, String)>,
}

impl Run {
    pub(super) fn resolve_output(&self, output: Output, resolver: Option<&dyn Resolver>) -> Output {
        match resolver {
            Some(resolver) => resolver.output(&self.transcript, output),
            None => output,
        }
    }

    pub(super) fn resolve_answer(&self, mut answer: RunAnswer, resolver: Option<&dyn Resolver>) -> RunAnswer {
        let Some(resolver) = resolver else { return answer };
        let RunAnswer { text, outputs, value, stop_reason, .. } = answer;
        let output = Output { text, outputs, value, ..Output::empty(stop_reason) };
        let output = resolver.output(&self.transcript, output);
        (answer.text, answer.outputs, answer.value) = (output.text, output.outputs, output.value);
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
