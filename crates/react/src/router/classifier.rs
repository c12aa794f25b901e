//! Classifiers, which select the route of a task.

use std::sync::Arc;

use haft_core::{Message, agent::AgentError, export::async_trait, message::MessageBody, usage::Usage};

use super::{Keyword, Route, RouteTable, is_clarification};
use crate::transcript::is_from_user;

/// A strategy for selecting the route of a task. [`KeywordClassifier`]
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

/// Returns the index of the last answer in `conversation`. A clarifying question is not an answer.
pub(super) fn last_answer_index(conversation: &[Arc<Message>]) -> Option<usize> {
    let is_answer = |message: &Arc<Message>| {
        matches!(message.body(), MessageBody::Assistant(_)) && !is_clarification(message)
    };
    conversation.iter().rposition(is_answer)
}

/// A classifier that searches the task for the keywords of each route. It selects the route with
/// the highest total weight of the keywords that were found.
///
/// No route is selected if no route has a positive weight, or if the two highest weights are equal.
///
/// The latest user message of the task is classified first, because it may be the reply to a
/// clarifying question. If this message selects no route, all user messages of the task are
/// classified together.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeywordClassifier;

#[async_trait]
impl Classifier for KeywordClassifier {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<RouteChoice, AgentError> {
        let since = last_answer_index(conversation).map_or(0, |last| last + 1);
        let task = conversation.iter().skip(since).filter(|message| is_from_user(message));
        let task: Vec<_> = task.map(|message| message.text()).collect();
        let last = task.last().map(|last| choose_route(table, last)).filter(|choice| choice.route.is_some());
        Ok(last.unwrap_or_else(|| choose_route(table, &task.join("\n"))))
    }
}

fn choose_route(table: &RouteTable, task: &str) -> RouteChoice {
    let task = normalize(task);
    let found = |keyword: &&Keyword| contains(&task, &keyword.text);
    let score = |route: &Route| route.keywords.iter().filter(found).map(|it| it.weight).sum::<f64>();
    let mut scores: Vec<_> = table.routes.iter().map(|route| (route, score(route))).collect();
    scores.retain(|(_, score)| *score > 0.0);
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let explain = |(route, score): &(&Route, f64)| {
        let found: Vec<_> = route.keywords.iter().filter(found).map(|it| format!("{:?}", it.text)).collect();
        format!("{} has {score} by {}", route.name, found.join(", "))
    };
    let equal = |a: f64, b: f64| (a - b).abs() < f64::EPSILON;
    match scores.as_slice() {
        [] => RouteChoice { reason: "no keyword of a route was found".to_owned(), ..RouteChoice::default() },
        [best, second, ..] if equal(best.1, second.1) => {
            let tied = || scores.iter().filter(|(_, score)| equal(*score, best.1));
            let reasons: Vec<_> = tied().map(explain).collect();
            let candidates = tied().map(|(route, _)| route.name.clone()).collect();
            let reason = format!("equal: {}", reasons.join("; "));
            RouteChoice { reason, candidates, ..RouteChoice::default() }
        }
        [best, others @ ..] => {
            let before = others.first().map(|second| format!("; before {}", explain(second)));
            let reason = explain(best) + &before.unwrap_or_default();
            RouteChoice { route: Some(best.0.name.clone()), reason, ..RouteChoice::default() }
        }
    }
}

/// Returns `true` if the [normalized](normalize) `text` contains the phrase `keyword`. A trailing
/// `*` matches any word ending.
fn contains(text: &str, keyword: &str) -> bool {
    let phrase = normalize(keyword);
    let phrase = if keyword.ends_with('*') { phrase.trim_end() } else { &phrase };
    !phrase.trim().is_empty() && text.contains(phrase)
}

/// Converts `text` to lower-case words of letters and digits, with one space before and after each
/// word. A trailing `+` or `#` and a leading `.` are part of the word, as in `C++` and `.NET`. In
/// scripts without spaces, each character is a word.
fn normalize(text: &str) -> String {
    let mut words = String::new();
    let is_part = |letter: char| letter.is_alphanumeric() || "+#.".contains(letter);
    for part in text.to_lowercase().split(|letter| !is_part(letter)) {
        let part = part.trim_end_matches('.');
        let stem = part.trim_end_matches(['+', '#']);
        let undotted = stem.strip_prefix('.').filter(|rest| rest.starts_with(char::is_alphanumeric));
        words.push_str(if undotted.is_some() { " ." } else { " " });
        for letter in undotted.unwrap_or(stem).chars() {
            match letter {
                _ if !letter.is_alphanumeric() => words.push(' '),
                _ if is_unspaced(letter) => words.extend([' ', letter, ' ']),
                _ => words.push(letter),
            }
        }
        words.push_str(part.strip_prefix(stem).filter(|_| !stem.is_empty()).unwrap_or_default());
    }
    format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns `true` if `letter` belongs to a script without spaces, such as Thai, Lao, Burmese,
/// Khmer, Chinese or Japanese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9F}' | '\u{20000}'..='\u{3FFFF}')
}
