use std::sync::Arc;

use haft_core::{AgentError, Message, MessageBody, Usage, async_trait};

use super::{RouteTable, clarify::is_clarification};
use crate::run::is_from_user;

/// Decides which route a task takes.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// Chooses one of the routes for what was said last in a conversation, or none.
    ///
    /// # Errors
    ///
    /// Fails when the model that was asked does; the error says what that cost.
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

/// Where a task goes, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The name of the route; none where it is not clear.
    pub route: Option<String>,
    /// Why, in words for a person.
    pub reason: String,
    /// The routes that it might be where none is chosen; empty for any of them.
    pub candidates: Vec<String>,
    /// What the choice cost.
    pub usage: Usage,
}

/// What a person wants now: what was said since the last answer that was one, answers to questions back included.
pub(super) fn task(conversation: &[Arc<Message>]) -> Vec<String> {
    let since = last_answer(conversation).map_or(0, |last| last + 1);
    let said = conversation.iter().skip(since).filter(|message| is_from_user(message));
    said.map(|message| message.text()).collect()
}

/// The same with what it is said to: the last answer and what was said before it, and the questions back.
pub(super) fn exchange(conversation: &[Arc<Message>]) -> impl Iterator<Item = &Arc<Message>> {
    let answer = last_answer(conversation);
    let earlier = conversation.get(..answer.unwrap_or_default()).unwrap_or_default();
    let asked = earlier.iter().rfind(|message| is_from_user(message));
    let since = conversation.iter().skip(answer.unwrap_or_default());
    let is_part = |message: &&Arc<Message>| is_from_user(message) || is_reply(message);
    asked.into_iter().chain(since.filter(is_part))
}

fn last_answer(conversation: &[Arc<Message>]) -> Option<usize> {
    conversation.iter().rposition(|message| is_reply(message) && !is_clarification(message))
}

fn is_reply(message: &Message) -> bool {
    matches!(message.body(), MessageBody::Assistant(_))
}
