//! Tests that kill the driver at any point, and start it again.

use std::{
    collections::BTreeMap,
    fs,
    future::{pending, poll_fn},
    ops::Range,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use haft_core::{
    RunOutput, Schema, ToolDefinition, ToolName, Toolset,
    call::{Decision, PendingCall},
    model::ChatSettings,
    tool::{DynamicTool, ToolPolicy},
};
use haft_react::{Guardrail, ReactAgent, Verdict};
use haft_testing::TestModel;
use own_driver::{Decide, drive};
use serde_json::Value;
use tokio::{task::yield_now, time::timeout};

/// The results of a run, by the name of the tool.
type Results = BTreeMap<String, String>;

/// What survives a kill: the journal, and the world in which the tools act.
#[derive(Clone)]
struct World {
    journal: PathBuf,
    /// The executed calls: the name of the tool, and the size of the journal when the call started.
    calls: Arc<Mutex<Vec<(&'static str, usize)>>>,
    /// `true` if calls do not end.
    hangs: Arc<AtomicBool>,
}

impl World {
    fn new(name: &str) -> Self {
        let journal = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
        let _ = fs::remove_file(&journal);
        Self { journal, calls: Arc::default(), hangs: Arc::default() }
    }

    fn tool(&self, name: &'static str, policy: ToolPolicy) -> DynamicTool {
        let world = self.clone();
        let definition = ToolDefinition::new(ToolName::sanitize(name), Schema::object()).with_policy(policy);
        DynamicTool::new(definition, move |_, _| {
            let size = fs::read(&world.journal).unwrap().len();
            world.calls.lock().unwrap().push((name, size));
            let hangs = world.hangs.load(Ordering::Relaxed);
            async move {
                yield_now().await;
                if hangs {
                    pending::<()>().await;
                }
                format!("{name}: done")
            }
        })
    }

    /// Creates the agent of a new process. Its model calls each tool once, in one reply or in one
    /// reply each, and answers with the results. The first answer is rejected.
    fn agent(&self, calls_in_parallel: bool) -> ReactAgent {
        let tools = Toolset::new()
            .with_tool(self.tool("look", ToolPolicy::default().with_idempotent_calls()))
            .with_tool(self.tool("order", ToolPolicy::default()))
            .with_tool(self.tool("pay", ToolPolicy::default().with_approval()))
            .with_tool(self.tool("ship", ToolPolicy::default().with_approval()));
        let settings =
            ChatSettings { parallel_tool_calls: Some(calls_in_parallel), ..ChatSettings::default() };
        let agent = ReactAgent::builder(TestModel::new()).tools(tools).settings(settings);
        let agent = agent.guardrail(Guardrail::call("calls", |_, cx| async move {
            cx.set_information("seen");
            Ok(Verdict::Pass)
        }));
        let agent = agent.output_validator(|_, cx| async move {
            let is_first = cx.entries.get::<bool>("is_checked")?.is_none();
            cx.entries.set("is_checked", &true)?;
            Ok(if is_first { Verdict::retry("answer again") } else { Verdict::Pass })
        });
        agent.build().unwrap()
    }

    async fn drive(&self, decide: &Decide) -> own_driver::Result<RunOutput> {
        drive(&self.agent(true), "Go.".into(), &self.journal, decide).await
    }

    /// Drives the run to its end, and approves all calls.
    async fn finish(&self, calls_in_parallel: bool) -> Results {
        let agent = self.agent(calls_in_parallel);
        results(&drive(&agent, "Go.".into(), &self.journal, &approve).await.unwrap())
    }

    /// Returns how often the tool `name` was called.
    fn times(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|(tool, _)| *tool == name).count()
    }

    /// Asserts that each completed call ran once, except calls to the idempotent tool `look`, and
    /// that only calls to the other tools are unconfirmed.
    #[track_caller]
    fn assert_each_ran_once(&self, results: &Results) {
        assert!(results.keys().eq(["look", "order", "pay", "ship"]), "{results:?}");
        for (tool, text) in results {
            let times = self.times(tool);
            if text.starts_with("unconfirmed") {
                assert!(tool != "look" && times <= 1, "{tool} ran {times} times: {text}");
            } else {
                assert_eq!(*text, format!("{tool}: done"));
                assert!(times == 1 || (tool == "look" && times > 0), "{tool} ran {times} times");
            }
        }
    }

    /// Kills the driver at each step and in the middle of each line, and at each byte of the last
    /// outcome. Asserts that only a call in progress has another result or runs again.
    async fn assert_survives_kills(&self, calls_in_parallel: bool) {
        let expected = self.finish(calls_in_parallel).await;
        self.assert_each_ran_once(&expected);
        let (journal, calls) = (fs::read(&self.journal).unwrap(), self.calls.lock().unwrap().clone());
        let in_progress = calls_in_progress(&journal);
        assert_eq!(in_progress.len(), 6, "each call is executed, two of them again after an approval");
        for size in kill_points(&journal) {
            fs::write(&self.journal, &journal[..size]).unwrap();
            *self.calls.lock().unwrap() = calls.iter().filter(|(_, at)| *at <= size).copied().collect();
            let results = self.finish(calls_in_parallel).await;
            self.assert_each_ran_once(&results);
            for (tool, text) in &results {
                let is_in_progress =
                    in_progress.iter().any(|(name, sizes)| name == tool && sizes.contains(&size));
                let is_unconfirmed = is_in_progress && tool != "look";
                assert_eq!(*text != expected[tool], is_unconfirmed, "{tool} at {size}: {text}");
                assert!(self.times(tool) < 2 || is_in_progress, "{tool} ran again at {size}");
            }
        }
    }
}

fn approve(_: &PendingCall) -> Option<Decision> {
    Some(Decision::approved())
}

fn wait(_: &PendingCall) -> Option<Decision> {
    None
}

#[track_caller]
fn results(output: &RunOutput) -> Results {
    serde_json::from_str(output.text().unwrap()).unwrap()
}

/// Returns the calls that are executed in `journal`: the tool, and the sizes of the journal while
/// the call is in progress. A call that waits is executed before and after its decision.
fn calls_in_progress(journal: &[u8]) -> Vec<(String, Range<usize>)> {
    let (mut start, mut end, mut calls) = (0, 0, Vec::new());
    for line in journal.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        let line: Value = serde_json::from_slice(line).unwrap();
        let outcome = &line[1]["Apply"];
        let tool = match outcome["type"].as_str() {
            Some("called") => &outcome["data"]["result"]["name"],
            Some("pending") => &outcome["data"]["call"]["name"],
            Some(_) => continue,
            None => {
                start = end;
                continue;
            }
        };
        calls.push((tool.as_str().unwrap().to_owned(), start..end));
    }
    calls
}

/// Returns sizes of `journal` at which the driver is killed.
fn kill_points(journal: &[u8]) -> Vec<usize> {
    let (mut sizes, mut end, mut last_outcome) = (Vec::new(), 0, 0..0);
    for line in journal.split_inclusive(|byte| *byte == b'\n') {
        let start = end;
        end += line.len();
        sizes.extend([start, start + line.len() / 2, end - 1]);
        if String::from_utf8_lossy(line).contains("Apply") {
            last_outcome = start..end;
        }
    }
    sizes.into_iter().chain(last_outcome).chain([end]).collect()
}

#[tokio::test]
async fn run_with_parallel_calls_survives_a_kill_at_any_point() {
    World::new("parallel-calls").assert_survives_kills(true).await;
}

#[tokio::test]
async fn run_with_many_steps_survives_a_kill_at_any_point() {
    World::new("many-steps").assert_survives_kills(false).await;
}

/// Each process is killed after a few more polls than the one before.
#[tokio::test]
async fn run_survives_any_number_of_kills() {
    for calls_in_parallel in [true, false] {
        let world = World::new(&format!("many-kills-{calls_in_parallel}"));
        let mut polls = 1;
        let output = loop {
            let agent = world.agent(calls_in_parallel);
            let driver = drive(&agent, "Go.".into(), &world.journal, &approve);
            match poll_times(driver, polls).await {
                Some(output) => break output.unwrap(),
                None => polls += 1,
            }
        };
        assert!(polls > 3, "the first process was not killed");
        world.assert_each_ran_once(&results(&output));
    }
}

/// Polls `future` at most `times` times, and then drops it. Returns its output if it is ready.
async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(output);
        }
        yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn only_idempotent_calls_are_repeated() {
    let world = World::new("in-progress");
    world.hangs.store(true, Ordering::Relaxed);
    assert!(timeout(Duration::from_millis(1), world.drive(&approve)).await.is_err());
    world.hangs.store(false, Ordering::Relaxed);
    let results = world.finish(true).await;
    world.assert_each_ran_once(&results);
    assert_eq!((world.times("look"), results["look"].as_str()), (2, "look: done"));
    assert!(results["order"].starts_with("unconfirmed"), "{results:?}");
    assert_eq!(results["pay"], "pay: done");
}

#[tokio::test]
async fn any_later_process_can_decide() {
    let world = World::new("decisions");
    for _ in 0..3 {
        let RunOutput::Suspended(suspended) = world.drive(&wait).await.unwrap() else {
            panic!("there is no decision yet")
        };
        let names: Vec<_> = suspended.undecided_calls().iter().map(|it| it.call.name.clone()).collect();
        assert_eq!(names, ["pay", "ship"]);
    }
    let pay = |it: &PendingCall| (it.call.name == "pay").then(Decision::approved);
    assert!(matches!(world.drive(&pay).await, Ok(RunOutput::Suspended(_))));
    assert_eq!(world.times("pay"), 1);

    let deny = |_: &PendingCall| Some(Decision::denied("too late"));
    let answer = results(&world.drive(&deny).await.unwrap());
    assert_eq!((answer["pay"].as_str(), answer["ship"].as_str()), ("pay: done", "denied: too late"));
    // The answer is in the journal.
    assert_eq!(results(&world.drive(&wait).await.unwrap()), answer);
    let times: Vec<_> = ["look", "order", "pay", "ship"].into_iter().map(|tool| world.times(tool)).collect();
    assert_eq!(times, [1, 1, 1, 0]);
}

#[tokio::test]
async fn two_processes_cannot_drive_a_run() {
    let world = World::new("two-processes");
    world.hangs.store(true, Ordering::Relaxed);
    let mut first = pin!(world.drive(&approve));
    while world.times("order") == 0 {
        assert!(poll_times(first.as_mut(), 1).await.is_none());
    }
    let journal = fs::read(&world.journal).unwrap();
    assert!(world.drive(&approve).await.is_err());
    assert_eq!(fs::read(&world.journal).unwrap(), journal);
}

#[tokio::test]
async fn damaged_journal_is_an_error() {
    let world = World::new("damaged");
    world.finish(true).await;
    let mut journal = fs::read(&world.journal).unwrap();
    journal[0] = b'#';
    fs::write(&world.journal, &journal).unwrap();
    assert!(world.drive(&approve).await.is_err());
    assert_eq!(fs::read(&world.journal).unwrap(), journal);
}

#[test]
fn driver_has_at_most_60_lines_of_code() {
    let lines = include_str!("../src/lib.rs").lines().map(str::trim);
    assert!(lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count() <= 60);
}
