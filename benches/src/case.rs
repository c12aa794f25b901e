use std::time::Duration;

use tokio::runtime::Builder;

/// A function that does its work for a number of rounds.
pub type Work = Box<dyn FnMut(u32)>;

/// Runs an asynchronous function in a runtime on this thread.
#[allow(clippy::expect_used, reason = "a benchmark needs a runtime")]
pub fn asynchronous(mut work: impl AsyncFnMut(u32) + 'static) -> Work {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    Box::new(move |rounds| runtime.block_on(work(rounds)))
}

/// A measured case.
pub struct Case {
    pub(crate) name: &'static str,
    pub(crate) rounds: u32,
    /// The number of equal parts of a round. Results are reported per part.
    pub(crate) parts: u32,
    pub(crate) goal: Option<Duration>,
    pub(crate) floor: Option<&'static str>,
    /// The largest allowed ratio of instructions to those of the floor.
    pub(crate) bound: Option<f64>,
    /// Set for baselines without haft.
    pub(crate) is_by_hand: bool,
    prepare: Box<dyn Fn() -> Work>,
}

impl Case {
    /// Creates a case. `prepare` runs once and returns the work.
    pub fn new(name: &'static str, prepare: impl Fn() -> Work + 'static) -> Self {
        Self {
            name,
            rounds: 100,
            parts: 1,
            goal: None,
            floor: None,
            bound: None,
            is_by_hand: false,
            prepare: Box::new(prepare),
        }
    }

    /// Sets the goal for the time of a round, on a current machine.
    #[must_use]
    pub fn within(mut self, goal: Duration) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Sets the floor: the case with the minimal version of the same work.
    #[must_use]
    pub fn above(mut self, floor: &'static str) -> Self {
        self.floor = Some(floor);
        self
    }

    /// Bounds the instructions by those of the [floor](Self::above), as a ratio. `--check` fails
    /// above it.
    #[must_use]
    pub fn at_most(mut self, ratio: f64) -> Self {
        self.bound = Some(ratio);
        self
    }

    /// Marks the case as a baseline without haft.
    #[must_use]
    pub fn by_hand(mut self) -> Self {
        self.is_by_hand = true;
        self
    }

    /// Sets the number of rounds of an instruction count. Default: 100.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the number of equal parts of a round, for example the steps of a run. Results are
    /// reported per part.
    #[must_use]
    pub fn in_parts(mut self, parts: u32) -> Self {
        self.parts = parts;
        self
    }

    /// Prepares the work and runs one round, to initialise lazy values.
    pub(crate) fn warm(&self) -> Work {
        let mut work = (self.prepare)();
        work(1);
        work
    }

    /// Runs the work inside the function that callgrind counts.
    pub(crate) fn run_for_callgrind(&self) {
        counted(&mut self.warm(), self.rounds);
    }
}

/// The function that callgrind counts, selected by its name.
#[inline(never)]
pub(crate) fn counted(work: &mut Work, rounds: u32) {
    work(rounds);
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}
