use std::{fmt::Write as _, sync::Arc};

use haft_core::{Message, agent::AgentError, export::async_trait};

use super::{Classifier, Keyword, Route, RouteChoice, RouteTable, classifier::task_texts};

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
        let task = task_texts(conversation);
        let last = task.last().map(|last| choose_route(table, last)).filter(|choice| choice.route.is_some());
        Ok(last.unwrap_or_else(|| choose_route(table, &task.join("\n"))))
    }
}

/// The score of a route for a task. `found` contains the keywords of the route that occur in the
/// task, and `weight` is the sum of their weights.
struct Score<'t> {
    route: &'t Route,
    weight: f64,
    found: Vec<&'t Keyword>,
}

fn choose_route(table: &RouteTable, task: &str) -> RouteChoice {
    let words = split_words(task);
    let mut scores: Vec<_> = table.routes.iter().map(|route| score_route(route, &words)).collect();
    scores.retain(|score| score.weight > 0.0);
    scores.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    match scores.as_slice() {
        [] => RouteChoice { reason: "no keyword of a route was found".to_owned(), ..RouteChoice::default() },
        [best, second, ..] if has_equal_weight(best, second) => {
            let equal = scores.iter().filter(|score| has_equal_weight(best, score));
            let candidates: Vec<_> = equal.clone().map(|score| score.route.name.clone()).collect();
            let reasons: Vec<_> = equal.map(explain_score).collect();
            RouteChoice {
                reason: format!("equal: {}", reasons.join("; ")),
                candidates,
                ..RouteChoice::default()
            }
        }
        [best, others @ ..] => {
            let mut reason = explain_score(best);
            if let Some(second) = others.first() {
                let _ = write!(reason, "; before {}", explain_score(second));
            }
            RouteChoice { route: Some(best.route.name.clone()), reason, ..RouteChoice::default() }
        }
    }
}

fn score_route<'t>(route: &'t Route, words: &[String]) -> Score<'t> {
    let found: Vec<_> =
        route.keywords.iter().filter(|keyword| contains_phrase(&keyword.text, words)).collect();
    Score { route, weight: found.iter().map(|keyword| keyword.weight).sum(), found }
}

fn has_equal_weight(a: &Score<'_>, b: &Score<'_>) -> bool {
    (a.weight - b.weight).abs() < f64::EPSILON
}

fn explain_score(score: &Score<'_>) -> String {
    let found: Vec<_> = score.found.iter().map(|keyword| format!("{:?}", keyword.text)).collect();
    format!("{} has {} by {}", score.route.name, score.weight, found.join(", "))
}

/// Splits `text` into lower-case words of letters and digits. A trailing `+` or `#` and a leading
/// `.` are part of the word, as in `C++` and `.NET`. In scripts without spaces, each character is a
/// word.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in
        text.to_lowercase().split(|letter: char| !(letter.is_alphanumeric() || "+#.".contains(letter)))
    {
        let part = part.trim_end_matches('.');
        let signs = part.len() - part.trim_end_matches(['+', '#']).len();
        let (stem, signs) = part.split_at(part.len() - signs);
        let is_dotted = stem.starts_with('.') && !stem.starts_with("..");
        let first = words.len();
        words.extend(stem.split(|letter: char| !letter.is_alphanumeric()).flat_map(split_unspaced));
        if let (true, Some(word)) = (is_dotted, words.get_mut(first)) {
            word.insert(0, '.');
        }
        if let (true, Some(word)) = (words.len() > first, words.last_mut()) {
            word.push_str(signs);
        }
    }
    words
}

/// Splits `word` before and after each character of a script without spaces.
fn split_unspaced(word: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for letter in word.chars() {
        let is_word = is_unspaced(letter);
        match words.last_mut() {
            Some(last) if is_open && !is_word => last.push(letter),
            _ => words.push(letter.to_string()),
        }
        is_open = !is_word;
    }
    words
}

/// Returns `true` if `letter` belongs to a script without spaces, such as Thai, Lao, Burmese,
/// Khmer, Chinese or Japanese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9F}' | '\u{20000}'..='\u{3FFFF}')
}

/// Returns `true` if the words in `text` contain the phrase `keyword`. A trailing `*` matches any
/// word ending.
fn contains_phrase(keyword: &str, text: &[String]) -> bool {
    let (phrase, is_prefix) = keyword.strip_suffix('*').map_or((keyword, false), |prefix| (prefix, true));
    let phrase = split_words(phrase);
    let Some((last, first)) = phrase.split_last() else { return false };
    text.windows(phrase.len()).any(|window| {
        let Some((end, before)) = window.split_last() else { return false };
        before == first && if is_prefix { end.starts_with(last.as_str()) } else { end == last }
    })
}
