use std::sync::Arc;

use haft_core::{Message, MessageBody, ModelError, Usage, async_trait};

use super::{RouteTable, clarify::is_clarification};
use crate::is_hint;

/// Decides which route a task takes.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// Chooses one of the routes for what was said last in a conversation, or none.
    ///
    /// # Errors
    ///
    /// Fails when the model that was asked does.
    async fn classify(&self, table: &RouteTable, conversation: &[Arc<Message>])
    -> Result<Choice, ModelError>;
}

#[async_trait]
impl<C: Classifier + ?Sized> Classifier for Arc<C> {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<Choice, ModelError> {
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
    let since = conversation.iter().rposition(|message| {
        matches!(message.body(), MessageBody::Assistant(_)) && !is_clarification(message)
    });
    let new = conversation.iter().skip(since.map_or(0, |last| last + 1));
    let said = new.filter(|message| matches!(message.body(), MessageBody::User { .. }) && !is_hint(message));
    said.map(|message| message.text()).collect()
}
