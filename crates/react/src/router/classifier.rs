use std::sync::Arc;

use haft_core::{Message, agent::AgentError, export::async_trait, message::MessageBody, usage::Usage};

use super::{RouteTable, clarify::is_clarification};
use crate::run::is_from_user;

/// A classifier of tasks: [`Keywords`](super::Keywords), a [model](super::ModelClassifier), or your
/// own.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// Chooses a route for the last task of a conversation, or no route if it is not clear.
    ///
    /// # Errors
    ///
    /// Fails if the classifier fails, for example its model. The error contains the usage.
    async fn classify(&self, table: &RouteTable, conversation: &[Arc<Message>])
    -> Result<Choice, AgentError>;
}

#[async_trait]
impl<C: Classifier + ?Sized> Classifier for Arc<C> {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<Choice, AgentError> {
        (**self).classify(table, conversation).await
    }
}

/// The decision of a [`Classifier`]: a route, or candidates, with the reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The name of the route, or `None` if it is not clear.
    pub route: Option<String>,
    /// The reason, for a user.
    pub reason: String,
    /// The possible routes if none is chosen; empty if all are possible.
    pub candidates: Vec<String>,
    /// The usage of the classifier.
    pub usage: Usage,
}

/// Returns the current task: the user messages since the last answer, including replies to
/// clarifying questions.
pub(super) fn task(conversation: &[Arc<Message>]) -> Vec<String> {
    let since = last_answer(conversation).map_or(0, |last| last + 1);
    let messages = conversation.iter().skip(since).filter(|message| is_from_user(message));
    messages.map(|message| message.text()).collect()
}

/// Returns the current task with its context: the last answer, the user message before it, and the
/// clarifying questions.
pub(super) fn exchange(conversation: &[Arc<Message>]) -> impl Iterator<Item = &Arc<Message>> {
    let answer = last_answer(conversation);
    let earlier = conversation.get(..answer.unwrap_or_default()).unwrap_or_default();
    let question = earlier.iter().rfind(|message| is_from_user(message));
    let since = conversation.iter().skip(answer.unwrap_or_default());
    let is_part = |message: &&Arc<Message>| is_from_user(message) || is_reply(message);
    question.into_iter().chain(since.filter(is_part))
}

fn last_answer(conversation: &[Arc<Message>]) -> Option<usize> {
    conversation.iter().rposition(|message| is_reply(message) && !is_clarification(message))
}

fn is_reply(message: &Message) -> bool {
    matches!(message.body(), MessageBody::Assistant(_))
}
