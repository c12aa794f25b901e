//! A driver of an agent with a journal in a file. It can be killed at any point. Started again with
//! the same input and the same file, it continues the run.
//!
//! The driver writes each of its steps to the journal before it makes the step. The next process
//! makes the steps in the journal again, on a new run. No effect is performed again, and the run is
//! the same: a [`Run`](haft_react::Run) depends only on its input, its outcomes and their times.
//! The last line of the journal shows what was in progress at the kill:
//!
//! - A part of a line: the step was not made. The part is removed.
//! - `Next`: the effect may have been performed. [`RunScope::new`] recovers the run: it repeats a
//!   model request and the calls of idempotent tools. Other calls fail as unconfirmed.
//! - `Apply`: the effect has ended, or only its calls without an outcome were in progress.
//!
//! If calls wait and `decide` returns no decision, the driver returns [`RunOutput::Suspended`]. The
//! program can end, and start again when a decision is made.

use std::{fs::File, io::prelude::*, path::Path};

use futures::{StreamExt as _, stream};
use haft_core::{RunInput, RunOutput, Timestamp, call};
use haft_react::{Effect, Outcome, ReactAgent, RunScope};

/// The result of the driver.
pub type Result<T, E = call::BoxError> = std::result::Result<T, E>;

/// A function that returns the decision about a call, or `None` if there is none yet.
pub type Decide = dyn Fn(&call::PendingCall) -> Option<call::Decision> + Sync;

/// A step of the driver. It is a line of the journal, with its time.
#[derive(serde::Serialize, serde::Deserialize)]
enum Event<O> {
    /// A process takes over the run.
    Start,
    /// The run returns its next effect, which is performed afterwards.
    Next,
    /// The run applies an outcome.
    Apply(O),
}

/// Starts the run of `agent` with `input`, or continues the run whose journal is at `path`. Returns
/// the answer, or the suspended run. After an error, the run can be continued in the same way.
pub async fn drive(agent: &ReactAgent, input: RunInput, path: &Path, decide: &Decide) -> Result<RunOutput> {
    let mut journal = File::options().read(true).append(true).create(true).open(path)?;
    journal.try_lock()?;
    let (context, mut run) = (input.context.clone(), agent.create_run(input)?);
    for (time, event) in read(&mut journal)? {
        match event {
            Event::Start => drop(RunScope::new(&mut run, context.clone())),
            // The earlier process returned the same error. It leaves the run valid.
            Event::Next => drop(run.next(time)),
            Event::Apply(outcome) => drop(run.apply(outcome, time)),
        }
    }
    append(&mut journal, Timestamp::now(), Event::Start)?;
    let scope = RunScope::new(&mut run, context);
    loop {
        let now = scope.now();
        append(&mut journal, now, Event::Next)?;
        let mut outcomes = match run.next(now)? {
            Effect::Done(answer) => return Ok(RunOutput::Answer(answer)),
            Effect::Wait(pending) => {
                let open = pending.iter().flat_map(call::PendingCall::innermost_calls);
                let decided: Vec<_> = open.filter_map(|it| Some((it.call.id.clone(), decide(it)?))).collect();
                if decided.is_empty() {
                    return Ok(RunOutput::Suspended(run.to_suspended()?));
                }
                stream::iter(decided).map(|(id, decision)| Ok(Outcome::Decided { id, decision })).boxed()
            }
            effect => agent.perform(&run, effect, &scope),
        };
        while let Some(outcome) = outcomes.next().await {
            let (outcome, now) = (outcome?, scope.now());
            append(&mut journal, now, Event::Apply(&outcome))?;
            run.apply(outcome, now)?;
        }
        // This driver does not report events.
        run.take_events();
    }
}

/// Reads the journal, and removes the part of a line at its end.
fn read(journal: &mut File) -> Result<Vec<(Timestamp, Event<Outcome>)>> {
    let mut text = Vec::new();
    journal.read_to_end(&mut text)?;
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    journal.set_len(end.try_into()?)?;
    Ok(serde_json::Deserializer::from_slice(&text[..end]).into_iter().collect::<Result<_, _>>()?)
}

/// Writes a line to the disk.
fn append(journal: &mut File, time: Timestamp, event: Event<&Outcome>) -> Result<()> {
    let line = serde_json::to_string(&(time, event))? + "\n";
    journal.write_all(line.as_bytes())?;
    Ok(journal.sync_data()?)
}
