//! Runs an agent with each case and counts the right calls and answers.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use haft_core::{ChatModel, RunInput, Toolset, agent::RunLimits, message::Transcript, tool::DynamicTool};
use haft_react::LimitAction;

use crate::{
    Dialect, builder,
    cases::{Case, CaseFile, Group, to_text},
    matching::{MadeCall, are_calls_right, is_answer_right, is_right_call},
};

/// The explanation that is printed above the table.
pub(crate) const ABOUT: &str = "Requests with exactly the right calls, in percent. `answer` counts the right answers among the cases with right calls that
check the answer. Wrong results are printed to standard error.";

/// The options that select cases.
#[derive(Args)]
pub(crate) struct CaseSelection {
    /// Only this group of cases.
    #[arg(long, value_enum)]
    group: Option<Group>,
    /// A case file in the format of `examples/eval/cases.json`, instead of this file.
    #[arg(long, value_name = "PATH")]
    cases: Option<PathBuf>,
    /// Only the case with this id.
    #[arg(long, value_name = "ID")]
    case: Option<String>,
}

/// The counts of a group.
#[derive(Clone, Copy, Default)]
struct Counts {
    cases: u32,
    right_calls: u32,
    answers: u32,
    right_answers: u32,
}

/// The result of one case.
struct Outcome {
    calls_are_right: bool,
    /// `None` if the case does not check the answer.
    answer_is_right: Option<bool>,
    summary: String,
}

/// Runs the selected cases with `model`, and prints a row of the table.
pub(crate) async fn run(
    name: &str,
    model: &Arc<dyn ChatModel>,
    dialect: Dialect,
    selection: &CaseSelection,
) -> Result<(), Box<dyn Error>> {
    let file = selection.read()?;
    let started = Instant::now();
    let mut counts: HashMap<Group, Counts> = HashMap::new();
    for case in file.cases.iter().filter(|case| selection.contains(case)) {
        let outcome = ask(model, dialect, &file, case).await?;
        if !outcome.calls_are_right || outcome.answer_is_right == Some(false) {
            eprintln!("    {name}, {}: {}\n        {}", case.id, case.question, outcome.summary);
        }
        counts.entry(case.group).or_default().add(&outcome);
    }
    println!("{}", row(name, &counts, started.elapsed()));
    Ok(())
}

impl CaseSelection {
    fn read(&self) -> Result<CaseFile, Box<dyn Error>> {
        let Some(path) = &self.cases else { return Ok(CaseFile::built_in()?) };
        let text = fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    fn contains(&self, case: &Case) -> bool {
        self.group.is_none_or(|group| group == case.group)
            && self.case.as_ref().is_none_or(|id| *id == case.id)
    }
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        self.cases += 1;
        self.right_calls += u32::from(outcome.calls_are_right);
        if let (true, Some(is_right)) = (outcome.calls_are_right, outcome.answer_is_right) {
            self.answers += 1;
            self.right_answers += u32::from(is_right);
        }
    }
}

/// Runs an agent with the tools of `case`, which return the results in the case.
async fn ask(
    model: &Arc<dyn ChatModel>,
    dialect: Dialect,
    file: &CaseFile,
    case: &Case,
) -> Result<Outcome, Box<dyn Error>> {
    let expected = Arc::new(case.calls.clone());
    let tools = file.tools(case)?.into_iter().fold(Toolset::new(), |tools, definition| {
        let (name, expected) = (definition.name().to_string(), Arc::clone(&expected));
        tools.with_tool(DynamicTool::new(definition, move |arguments, _cx| {
            let call = expected.iter().find(|call| is_right_call(call, &name, &arguments));
            let text = call.map_or_else(|| "no result".to_owned(), |call| to_text(&call.result));
            async move { text }
        }))
    });
    // A run with more replies than expected calls and an answer is wrong, and ends early.
    let limits = RunLimits { requests: Some(case.calls.len() as u32 + 1), ..RunLimits::NONE };
    let agent = builder(Arc::clone(model), dialect)
        .tools(tools)
        .limits(limits)
        .limit_action(LimitAction::Fail)
        .build()?;
    let history = case.transcript();
    let earlier = history.len();
    let input = RunInput::new(case.question.as_str()).with_history(history);
    let (transcript, answer) = match agent.run(input).await {
        Ok(output) => (
            output.transcript().cloned().unwrap_or_default(),
            Ok(output.text().unwrap_or_default().to_owned()),
        ),
        Err(error) => (error.transcript.clone(), Err(error.to_string())),
    };
    Ok(Outcome::of(case, &calls_of(&transcript, earlier), answer))
}

/// Returns the calls of the messages after the first `earlier` messages.
fn calls_of(transcript: &Transcript, earlier: usize) -> Vec<MadeCall> {
    let messages = transcript.messages().iter().enumerate().skip(earlier);
    let calls = messages.flat_map(|(index, message)| {
        message.tool_calls().iter().map(move |call| MadeCall {
            tool: call.name.clone(),
            arguments: (*call.arguments.value_or_string()).clone(),
            reply: index,
        })
    });
    calls.collect()
}

impl Outcome {
    /// Scores a run with the calls `made`, and with its answer or the reason why it has none.
    fn of(case: &Case, made: &[MadeCall], answer: Result<String, String>) -> Self {
        let calls: String = made.iter().map(|call| format!("{}{}; ", call.tool, call.arguments)).collect();
        let checks_answer = !case.answer.is_empty();
        Self {
            calls_are_right: are_calls_right(case, made),
            answer_is_right: checks_answer
                .then(|| answer.as_deref().is_ok_and(|answer| is_answer_right(case, answer))),
            summary: match &answer {
                Ok(text) => format!("{calls}{text:?}"),
                Err(reason) => format!("{calls}{reason}"),
            },
        }
    }
}

/// Returns the header line of the table.
pub(crate) fn head() -> String {
    let groups = ["one call", "several tools", "several calls", "no tool", "multi-turn"];
    line("model", groups, ["answer", "seconds"])
}

fn row(model: &str, counts: &HashMap<Group, Counts>, took: Duration) -> String {
    let percent = |right: u32, all: u32| match all {
        0 => "-".to_owned(),
        _ => format!("{:.0}", f64::from(right) * 100.0 / f64::from(all)),
    };
    let of = |group: Group| counts.get(&group).copied().unwrap_or_default();
    let groups = Group::ALL.map(|group| percent(of(group).right_calls, of(group).cases));
    let all = Group::ALL.map(of);
    let sum = |count: fn(&Counts) -> u32| all.iter().map(count).sum();
    let answer = percent(sum(|counts| counts.right_answers), sum(|counts| counts.answers));
    let seconds = format!("{:.0}", took.as_secs_f64());
    line(model, groups.each_ref().map(String::as_str), [&answer, &seconds])
}

fn line(model: &str, groups: [&str; 5], [answer, seconds]: [&str; 2]) -> String {
    let [one, tools, calls, none, turns] = groups;
    format!("{model:24} {one:>8} {tools:>14} {calls:>14} {none:>8} {turns:>11} {answer:>7} {seconds:>8}")
}
