use std::{fmt::Write as _, sync::Arc};

use haft_core::{Message, ModelError, async_trait};

use super::{Choice, Classifier, Keyword, Route, RouteTable, classifier::task};

/// Chooses the route whose keywords weigh most in what a person wants. Where none is found, or two routes weigh the same, none
/// is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keywords;

#[async_trait]
impl Classifier for Keywords {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<Choice, ModelError> {
        let task = task(conversation);
        // The answer to a question back decides; where it does not, all that was said is one task.
        let last = task.last().map(|last| choose(table, last)).filter(|choice| choice.route.is_some());
        Ok(last.unwrap_or_else(|| choose(table, &task.join("\n"))))
    }
}

/// What speaks for one route.
struct Score<'t> {
    route: &'t Route,
    weight: f64,
    found: Vec<&'t Keyword>,
}

fn choose(table: &RouteTable, task: &str) -> Choice {
    let words = words(task);
    let mut scores: Vec<_> = table.routes.iter().map(|route| score(route, &words)).collect();
    scores.retain(|score| score.weight > 0.0);
    scores.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    match scores.as_slice() {
        [] => Choice { reason: "no keyword of a route was found".to_owned(), ..Choice::default() },
        [best, second, ..] if is_equal(best, second) => {
            let equal = scores.iter().filter(|score| is_equal(best, score));
            let candidates: Vec<_> = equal.clone().map(|score| score.route.name.clone()).collect();
            let reasons: Vec<_> = equal.map(explain).collect();
            Choice { reason: format!("equal: {}", reasons.join("; ")), candidates, ..Choice::default() }
        }
        [best, others @ ..] => {
            let mut reason = explain(best);
            if let Some(second) = others.first() {
                let _ = write!(reason, "; before {}", explain(second));
            }
            Choice { route: Some(best.route.name.clone()), reason, ..Choice::default() }
        }
    }
}

fn score<'t>(route: &'t Route, words: &[String]) -> Score<'t> {
    let found: Vec<_> = route.keywords.iter().filter(|keyword| is_in(&keyword.text, words)).collect();
    Score { route, weight: found.iter().map(|keyword| keyword.weight).sum(), found }
}

fn is_equal(one: &Score<'_>, other: &Score<'_>) -> bool {
    (one.weight - other.weight).abs() < f64::EPSILON
}

fn explain(score: &Score<'_>) -> String {
    let found: Vec<_> = score.found.iter().map(|keyword| format!("{:?}", keyword.text)).collect();
    format!("{} has {} by {}", score.route.name, score.weight, found.join(", "))
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Whether a phrase stands in these words.
fn is_in(keyword: &str, text: &[String]) -> bool {
    let (phrase, is_start) = keyword.strip_suffix('*').map_or((keyword, false), |start| (start, true));
    let phrase = words(phrase);
    let Some((last, first)) = phrase.split_last() else { return false };
    text.windows(phrase.len()).any(|window| {
        let Some((end, before)) = window.split_last() else { return false };
        before == first && if is_start { end.starts_with(last.as_str()) } else { end == last }
    })
}
