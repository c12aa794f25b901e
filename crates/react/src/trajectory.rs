//! ReAct trajectories: thoughts, tool names, arguments and observations, derived from a transcript.

use std::{fmt, sync::Arc};

use haft_core::{
    Message, Transcript,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, json};

use crate::{
    dialect::FINISH,
    transcript::{agent_steps, is_enqueued, is_extracted, is_from_user, is_unusable, reasoning_or_text},
};

/// The observation in the step that contains the answer, with the same text as in DSPy.
const COMPLETED_OBSERVATION: &str = "Completed.";

/// A ReAct trajectory. It has one step per tool call, and a last step for the answer.
///
/// The JSON form is a flat object, as in DSPy: `thought_0`, `tool_name_0`, `tool_args_0`,
/// `observation_0`, `thought_1` and so on.
///
/// # Examples
///
/// ```
/// use haft_core::{Message, message::AssistantMessage, ToolCall, ToolOutput, ToolResult, Transcript};
/// use haft_react::Trajectory;
/// use serde_json::json;
///
/// let call = AssistantMessage {
///     reasoning: Some("I add them.".into()),
///     tool_calls: vec![ToolCall::new("call_1", "add", r#"{"x":17,"y":25}"#)],
///     ..AssistantMessage::default()
/// };
/// let transcript: Transcript = [
///     Message::user("What is 17 plus 25?"),
///     Message::assistant(call),
///     Message::tool(ToolResult::done("call_1", "add", ToolOutput::from("42"))),
///     Message::assistant("It is 42."),
/// ]
/// .into_iter()
/// .collect();
///
/// assert_eq!(
///     serde_json::to_value(Trajectory::from_transcript(&transcript))?,
///     json!({
///         "thought_0": "I add them.", "tool_name_0": "add", "tool_args_0": {"x": 17, "y": 25}, "observation_0": "42",
///         "thought_1": "", "tool_name_1": "finish", "tool_args_1": {"answer": "It is 42."},
///         "observation_1": "Completed.",
///     })
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// The steps of the run, in order.
    pub steps: Vec<TrajectoryStep>,
}

/// A step of a [`Trajectory`]: a tool call or the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrajectoryStep {
    /// The reasoning of the reply. If a reply with a tool call has no reasoning, this is its text.
    /// May be empty.
    pub thought: String,
    /// The name of the called tool, or [`FINISH`] for the answer.
    pub tool_name: String,
    /// The arguments of the tool call. For the answer, the structured outputs, or the text as
    /// `{"answer": …}`. If the outputs were
    /// [extracted](crate::OutputStrategy::Extraction) afterwards, the arguments of the call to
    /// [`FINISH`], which are usually empty.
    pub tool_args: Value,
    /// The result of the tool call, as the text that the model receives. `Completed.` for the
    /// answer.
    pub observation: String,
}

impl Trajectory {
    /// Returns the trajectory of the last run in `transcript`. There is no step for the answer if
    /// the run is unfinished, if the model refused to answer, or if the answer is the result of a
    /// stop tool.
    pub fn from_transcript(transcript: &Transcript) -> Self {
        let messages = last_run_messages(transcript.messages());
        let calls = agent_steps(messages).into_iter().map(|step| TrajectoryStep {
            thought: step.reasoning.unwrap_or_default(),
            tool_name: step.tool_name,
            tool_args: Arc::unwrap_or_clone(step.tool_args),
            observation: step.result.model_text().into_owned(),
        });
        Self { steps: calls.chain(answer_step(messages)).collect() }
    }
}

/// Returns the messages of the last run in a conversation, starting with the last user message of
/// its input. Messages that the user enqueued during the run are not its input.
fn last_run_messages(messages: &[Arc<Message>]) -> &[Arc<Message>] {
    let start = messages
        .iter()
        .rposition(|message| is_from_user(message) && !is_enqueued(message))
        .unwrap_or_default();
    messages.get(start..).unwrap_or_default()
}

fn answer_step(messages: &[Arc<Message>]) -> Option<TrajectoryStep> {
    let last = messages.last().filter(|message| !is_unusable(message))?;
    if is_extracted(last) {
        return finish_step(messages);
    }
    let MessageBody::Assistant(reply) = last.body() else { return None };
    (reply.tool_calls.is_empty() && reply.refusal.is_none()).then(|| TrajectoryStep {
        thought: reply.reasoning.clone().unwrap_or_default(),
        tool_name: FINISH.to_owned(),
        tool_args: answer_arguments(reply),
        observation: COMPLETED_OBSERVATION.to_owned(),
    })
}

/// Returns the step that ended the work before the outputs were extracted. `None` if a limit ended
/// the work.
fn finish_step(messages: &[Arc<Message>]) -> Option<TrajectoryStep> {
    let mut replies = messages.iter().rev().skip(1).filter(|message| !is_unusable(message));
    let reply = replies.find_map(|message| match message.body() {
        MessageBody::Assistant(reply) => Some(reply),
        _ => None,
    })?;
    reply.tool_calls.is_empty().then(|| TrajectoryStep {
        thought: reasoning_or_text(reply)
            .filter(|_| !is_json(reply) || reply.reasoning.is_some())
            .unwrap_or_default(),
        tool_name: FINISH.to_owned(),
        // Without reasoning, the text is the thought.
        tool_args: if reply.reasoning.is_some() || is_json(reply) {
            answer_arguments(reply)
        } else {
            json!({})
        },
        observation: COMPLETED_OBSERVATION.to_owned(),
    })
}

fn is_json(reply: &AssistantMessage) -> bool {
    matches!(reply.content.as_slice(), [Content::Json { .. }])
}

fn answer_arguments(reply: &AssistantMessage) -> Value {
    match reply.content.as_slice() {
        [Content::Json { value }] => value.clone(),
        [] => json!({}),
        _ => json!({"answer": reply.text()}),
    }
}

impl Serialize for Trajectory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.steps.len() * 4))?;
        for (number, step) in self.steps.iter().enumerate() {
            map.serialize_entry(&format!("thought_{number}"), &step.thought)?;
            map.serialize_entry(&format!("tool_name_{number}"), &step.tool_name)?;
            map.serialize_entry(&format!("tool_args_{number}"), &step.tool_args)?;
            map.serialize_entry(&format!("observation_{number}"), &step.observation)?;
        }
        map.end()
    }
}

/// Formats each step as four lines: thought, tool name, arguments and observation.
impl fmt::Display for Trajectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "thought_{number}: {}", step.thought)?;
            writeln!(f, "tool_name_{number}: {}", step.tool_name)?;
            writeln!(f, "tool_args_{number}: {}", step.tool_args)?;
            writeln!(f, "observation_{number}: {}", step.observation)?;
        }
        Ok(())
    }
}
