use std::sync::Arc;

use haft_core::{Message, agent::AgentError, export::async_trait, message::MessageBody, usage::Usage};

use super::{RouteTable, clarify::is_clarification};
use crate::run::is_from_user;

/// A strategy for selecting the route of a task. [`KeywordClassifier`](super::KeywordClassifier)
/// and [`ModelClassifier`](super::ModelClassifier) implement this trait.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::{Message, agent::AgentError, export::async_trait};
/// use haft_react::router::{Classifier, Route, RouteChoice, RouteTable};
///
/// /// Selects the route that a message names at its beginning, as in `/sequence a login`.
/// struct Commands;
///
/// #[async_trait]
/// impl Classifier for Commands {
///     async fn classify(
///         &self,
///         table: &RouteTable,
///         conversation: &[Arc<Message>],
///     ) -> Result<RouteChoice, AgentError> {
///         let task = conversation.last().map(|message| message.text()).unwrap_or_default();
///         let command = task.strip_prefix('/').and_then(|task| task.split_whitespace().next());
///         let route = table.routes.iter().find(|route| Some(route.name.as_str()) == command);
///         Ok(RouteChoice {
///             route: route.map(|route| route.name.clone()),
///             reason: format!("the command is {command:?}"),
///             ..RouteChoice::default()
///         })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let table = RouteTable::new([Route::new("sequence", "a sequence diagram")]);
/// let choice = Commands.classify(&table, &[Message::user("/sequence a login").into()]).await?;
/// assert_eq!(choice.route.as_deref(), Some("sequence"));
/// # Ok::<(), AgentError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait Classifier: Send + Sync {
    /// Selects a route of `table` for the last task in `conversation`, or no route if the route is
    /// not clear.
    ///
    /// # Errors
    ///
    /// Fails if the classification is not possible, for example because a model request failed. The
    /// error contains the usage of the classifier so far.
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<RouteChoice, AgentError>;
}

#[async_trait]
impl<C: Classifier + ?Sized> Classifier for Arc<C> {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<RouteChoice, AgentError> {
        (**self).classify(table, conversation).await
    }
}

/// The decision of a [`Classifier`]: a route, or the candidates if the route is not clear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteChoice {
    /// The name of the selected route, or `None` if the route is not clear.
    pub route: Option<String>,
    /// A human-readable reason for the decision.
    pub reason: String,
    /// The names of the possible routes if `route` is `None`. Empty if all routes are possible.
    pub candidates: Vec<String>,
    /// The tokens used by the classifier, and their cost.
    pub usage: Usage,
}

/// Returns the texts of the current task: the user messages after the last answer, including
/// replies to clarifying questions.
pub(super) fn task_texts(conversation: &[Arc<Message>]) -> Vec<String> {
    let since = last_answer_index(conversation).map_or(0, |last| last + 1);
    let messages = conversation.iter().skip(since).filter(|message| is_from_user(message));
    messages.map(|message| message.text()).collect()
}

/// Returns the messages of the current task and its context. The context is the last answer, the
/// user message before that answer, and the clarifying questions after the answer.
pub(super) fn task_messages(conversation: &[Arc<Message>]) -> impl Iterator<Item = &Arc<Message>> {
    let answer = last_answer_index(conversation);
    let earlier = conversation.get(..answer.unwrap_or_default()).unwrap_or_default();
    let question = earlier.iter().rfind(|message| is_from_user(message));
    let since = conversation.iter().skip(answer.unwrap_or_default());
    let is_part = |message: &&Arc<Message>| is_from_user(message) || is_reply(message);
    question.into_iter().chain(since.filter(is_part))
}

fn last_answer_index(conversation: &[Arc<Message>]) -> Option<usize> {
    conversation.iter().rposition(|message| is_reply(message) && !is_clarification(message))
}

fn is_reply(message: &Message) -> bool {
    matches!(message.body(), MessageBody::Assistant(_))
}
