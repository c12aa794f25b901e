//! Formats the tables that the evaluation prints.

use haft_core::usage::Usage;

use crate::{case::Case, compare::Row, score::Score};

pub(crate) fn head() -> String {
    line("prompt", ["tool", "arguments", "answer", "seconds", "tokens"])
}

pub(crate) fn row(case: &Case, score: &Score) -> String {
    let row = line(
        case.prompt,
        [
            mark(score.has_right_tool),
            mark(score.has_right_arguments),
            mark(score.has_right_answer),
            &format!("{:.1}", score.took.as_secs_f64()),
            &score.usage.total_tokens().to_string(),
        ],
    );
    if score.has_right_tool && score.has_right_arguments && score.has_right_answer {
        row
    } else {
        format!("{row}\n    {}", score.summary)
    }
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
            &count(|score| score.has_right_tool),
            &count(|score| score.has_right_arguments),
            &count(|score| score.has_right_answer),
            &format!("{seconds:.1}"),
            &usage.total_tokens().to_string(),
        ],
    )
}

/// Returns the two header lines of the comparison table.
pub(crate) fn comparison_head() -> String {
    let head = comparison_line("", "", ["one call:", "", "", "two calls:", "", ""], "");
    let columns = ["tool", "arguments", "answer", "tools", "arguments", "answer"];
    format!("{}\n{}", head.trim_end(), comparison_line("model", "way", columns, "seconds"))
}

pub(crate) fn comparison_row(row: &Row) -> String {
    let of = |scores: &[Score], right: fn(&Score) -> bool| {
        format!("{}/{}", scores.iter().filter(|score| right(score)).count(), scores.len())
    };
    let kinds: [fn(&Score) -> bool; 3] =
        [|score| score.has_right_tool, |score| score.has_right_arguments, |score| score.has_right_answer];
    let [tool, arguments, answer] = kinds.map(|right| of(&row.one, right));
    let [tools, both, answers] = kinds.map(|right| of(&row.two, right));
    let seconds = format!("{:.0}", row.took().as_secs_f64());
    comparison_line(row.model, row.way, [&tool, &arguments, &answer, &tools, &both, &answers], &seconds)
}

fn comparison_line(model: &str, way: &str, cells: [&str; 6], seconds: &str) -> String {
    let [tool, arguments, answer, tools, both, answers] = cells;
    format!(
        "{model:20} {way:14} {tool:>9} {arguments:>9} {answer:>6}   {tools:>10} {both:>9} {answers:>6} {seconds:>8}"
    )
}

fn mark(right: bool) -> &'static str {
    if right { "yes" } else { "NO" }
}

fn line(prompt: &str, [tool, arguments, answer, seconds, tokens]: [&str; 5]) -> String {
    format!("{prompt:62} {tool:>5} {arguments:>9} {answer:>6} {seconds:>8} {tokens:>7}")
}
