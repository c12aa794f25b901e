use std::time::Duration;

use tokio::runtime::Builder;

/// A function to measure. It repeats the measured work. Its argument is the number of repetitions,
/// which are called rounds.
pub type Work = Box<dyn FnMut(u32)>;

/// Converts an asynchronous function to [`Work`]. The function runs on a single-threaded tokio
/// runtime.
#[allow(clippy::expect_used, reason = "a benchmark needs a runtime")]
pub fn asynchronous(mut work: impl AsyncFnMut(u32) + 'static) -> Work {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    Box::new(move |rounds| runtime.block_on(work(rounds)))
}

/// A case of a bench: a function to measure, and the settings for the measurement.
pub struct Case {
    pub(crate) name: &'static str,
    pub(crate) rounds: u32,
    /// The number of equal parts in a round, such as the steps of a run. Times and instruction
    /// counts are reported per part.
    pub(crate) parts: u32,
    pub(crate) goal: Option<Duration>,
    pub(crate) baseline: Option<&'static str>,
    /// The maximum ratio of this case's instruction count to the instruction count of its baseline.
    pub(crate) max_ratio: Option<f64>,
    prepare: Box<dyn Fn() -> Work>,
}

impl Case {
    /// Creates a case. `prepare` returns the function to measure. Neither the time nor the
    /// instructions of `prepare` itself are measured.
    pub fn new(name: &'static str, prepare: impl Fn() -> Work + 'static) -> Self {
        Self {
            name,
            rounds: 100,
            parts: 1,
            goal: None,
            baseline: None,
            max_ratio: None,
            prepare: Box::new(prepare),
        }
    }

    /// Sets the goal for the duration of a round on a current machine. If a round has
    /// [parts](Self::with_parts_per_round), the goal applies to a part. The goal is printed, but
    /// not checked.
    #[must_use]
    pub fn with_goal(mut self, goal: Duration) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Sets the baseline of this case. `baseline` is the name of another case to compare with, such
    /// as a case that does the same work with minimal code.
    #[must_use]
    pub fn with_baseline(mut self, baseline: &'static str) -> Self {
        self.baseline = Some(baseline);
        self
    }

    /// Sets the maximum ratio of this case's instruction count to the instruction count of its
    /// [baseline](Self::with_baseline). `--check` fails if the ratio is exceeded.
    #[must_use]
    pub fn with_max_ratio(mut self, ratio: f64) -> Self {
        self.max_ratio = Some(ratio);
        self
    }

    /// Sets the number of rounds that are executed to count instructions. Default: 100.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the number of equal parts in a round, for example the steps of a run. Times and
    /// instruction counts are reported per part. Default: 1.
    #[must_use]
    pub fn with_parts_per_round(mut self, parts: u32) -> Self {
        self.parts = parts;
        self
    }

    /// Prepares the function to measure, executes one round to initialize lazy values, and returns
    /// the function.
    pub(crate) fn prepare_warm(&self) -> Work {
        let mut work = (self.prepare)();
        work(1);
        work
    }

    /// Executes the rounds with [`run_counted`], because callgrind counts only the instructions
    /// within that function.
    pub(crate) fn run_for_callgrind(&self) {
        run_counted(&mut self.prepare_warm(), self.rounds);
    }
}

/// Calls `work`. Callgrind finds this function by its name, so it must not be inlined.
#[inline(never)]
pub(crate) fn run_counted(work: &mut Work, rounds: u32) {
    work(rounds);
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}
