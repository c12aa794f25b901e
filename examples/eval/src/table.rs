//! The table that is printed.

use haft_core::Usage;

use crate::{case::Case, score::Score};

pub(crate) fn head() -> String {
    line("prompt", ["tool", "arguments", "answer", "seconds", "tokens"])
}

pub(crate) fn row(case: &Case, score: &Score) -> String {
    let row = line(
        case.prompt,
        [
            mark(score.tool),
            mark(score.arguments),
            mark(score.answer),
            &format!("{:.1}", score.took.as_secs_f64()),
            &score.usage.total_tokens().to_string(),
        ],
    );
    if score.tool && score.arguments && score.answer { row } else { format!("{row}\n    {}", score.went) }
}

pub(crate) fn totals(scores: &[Score]) -> String {
    let count = |right: fn(&Score) -> bool| {
        format!("{}/{}", scores.iter().filter(|score| right(score)).count(), scores.len())
    };
    let seconds: f64 = scores.iter().map(|score| score.took.as_secs_f64()).sum();
    let usage = scores.iter().fold(Usage::default(), |sum, score| sum + score.usage);
    line(
        "total",
        [
            &count(|score| score.tool),
            &count(|score| score.arguments),
            &count(|score| score.answer),
            &format!("{seconds:.1}"),
            &usage.total_tokens().to_string(),
        ],
    )
}

fn mark(right: bool) -> &'static str {
    if right { "yes" } else { "NO" }
}

fn line(prompt: &str, [tool, arguments, answer, seconds, tokens]: [&str; 5]) -> String {
    format!("{prompt:62} {tool:>5} {arguments:>9} {answer:>6} {seconds:>8} {tokens:>7}")
}
