use std::time::Duration;

use tokio::runtime::Builder;

/// Does its work as many times as it is told.
pub type Work = Box<dyn FnMut(u32)>;

/// Makes work of an asynchronous function, in a runtime on this thread.
#[allow(clippy::expect_used, reason = "without a runtime there is nothing to measure")]
pub fn asynchronous(mut work: impl AsyncFnMut(u32) + 'static) -> Work {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    Box::new(move |rounds| runtime.block_on(work(rounds)))
}

/// Something that is measured.
pub struct Case {
    pub(crate) name: &'static str,
    pub(crate) rounds: u32,
    /// How many equal parts a round has. What is told is for one of them.
    pub(crate) parts: u32,
    pub(crate) goal: Option<Duration>,
    pub(crate) floor: Option<&'static str>,
    /// The largest allowed ratio of instructions to those of the floor.
    pub(crate) bound: Option<f64>,
    /// Whether it is none of ours.
    pub(crate) is_by_hand: bool,
    prepare: Box<dyn Fn() -> Work>,
}

impl Case {
    /// Makes a case of what has to be prepared once and the work itself.
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

    /// Says in what time the work is to be done on a machine of today.
    #[must_use]
    pub fn within(mut self, goal: Duration) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Names the case that does the least of the same work, to be compared with.
    #[must_use]
    pub fn above(mut self, floor: &'static str) -> Self {
        self.floor = Some(floor);
        self
    }

    /// Bounds the instructions by those of the [floor](Self::above), as a ratio. `--check` fails above it.
    #[must_use]
    pub fn at_most(mut self, ratio: f64) -> Self {
        self.bound = Some(ratio);
        self
    }

    /// Says that it is none of ours, but what ours is compared with.
    #[must_use]
    pub fn by_hand(mut self) -> Self {
        self.is_by_hand = true;
        self
    }

    /// Says for how many rounds instructions are counted. Default: 100.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Says that a round consists of so many equal parts, such as the steps of a run. What is told is for one of them.
    #[must_use]
    pub fn in_parts(mut self, parts: u32) -> Self {
        self.parts = parts;
        self
    }

    /// Prepares the work and does it once, so that what is made only once is there.
    pub(crate) fn warm(&self) -> Work {
        let mut work = (self.prepare)();
        work(1);
        work
    }

    /// Does the work where callgrind counts.
    pub(crate) fn run_for_callgrind(&self) {
        counted(&mut self.warm(), self.rounds);
    }
}

/// Callgrind counts between its begin and its end, and knows it by its name.
#[inline(never)]
pub(crate) fn counted(work: &mut Work, rounds: u32) {
    work(rounds);
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}
