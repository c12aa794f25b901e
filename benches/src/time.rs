use std::time::{Duration, Instant};

use crate::{Case, Work};

/// The minimum duration of a batch of rounds, so that the time to read the clock is negligible.
const MIN_BATCH_TIME: Duration = Duration::from_micros(500);
/// The maximum number of batches in a measurement. With so many batches, a busy machine has little
/// effect on their median.
const MAX_BATCHES: usize = 201;
/// The duration after which no more batches are started in a measurement.
const MAX_TIME: Duration = Duration::from_secs(3);

/// The duration of a round in nanoseconds, or of a part if a round has parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) median: f64,
    /// The duration in the fastest batch, in which other processes interfered least.
    pub(crate) fastest: f64,
}

/// Measures several cases alternately, so that a temporary slowdown of the machine affects all of
/// them. Returns the durations in the order of `cases`.
pub(crate) fn measure<const N: usize>(cases: [&Case; N]) -> [Timing; N] {
    let mut series = cases.map(Series::new);
    let begun = Instant::now();
    while series.iter().all(|series| series.batches.len() < MAX_BATCHES) {
        series.iter_mut().for_each(Series::measure_batch);
        if begun.elapsed() > MAX_TIME {
            break;
        }
    }
    series.map(Series::into_timing)
}

struct Series {
    work: Work,
    rounds: u32,
    parts: u32,
    batches: Vec<Duration>,
}

impl Series {
    fn new(case: &Case) -> Self {
        let (work, parts) = (case.prepare_warm(), case.parts);
        let mut series = Self { work, rounds: 1, parts, batches: Vec::with_capacity(MAX_BATCHES) };
        while series.time_batch() < MIN_BATCH_TIME {
            series.rounds *= 2;
        }
        series
    }

    fn measure_batch(&mut self) {
        let took = self.time_batch();
        self.batches.push(took);
    }

    fn time_batch(&mut self) -> Duration {
        let begun = Instant::now();
        (self.work)(self.rounds);
        begun.elapsed()
    }

    fn into_timing(mut self) -> Timing {
        self.batches.sort();
        let parts = f64::from(self.rounds) * f64::from(self.parts);
        let of = |batch: Option<&Duration>| batch.map_or(0, Duration::as_nanos) as f64 / parts;
        Timing { median: of(self.batches.get(self.batches.len() / 2)), fastest: of(self.batches.first()) }
    }
}
