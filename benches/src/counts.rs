use std::{collections::BTreeMap, fs};

use crate::{Case, instructions};

/// The path of the file that contains the recorded instruction counts.
const COUNTS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json");

/// The maximum growth of an instruction count since it was recorded, as a fraction of the recorded
/// count. It applies to cases without a maximum ratio.
const MAX_GROWTH: f64 = 0.03;

/// The maximum number of times that a case is counted again if it exceeds its limit. The lowest
/// count is used. Counts vary, for example because a write to a socket does not always accept the
/// same number of bytes.
const RETRIES: u32 = 3;

/// Instruction counts per round, or per part if a round has parts. The outer key is the name of the
/// bench, and the inner key is the name of the case.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Counts the instructions of `cases` and compares the counts with their limits.
///
/// If a case has a maximum ratio, the ratio of its count to the count of its baseline is checked.
/// If it has none, the growth since the recorded count is checked, and a missing recorded count is
/// an error. Growth is also accepted if it is small relative to the growth of the baseline, because
/// another compiler, C library or processor changes all counts.
pub(crate) fn check(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let recorded = read()?.remove(bench).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for case in cases {
        counts.insert(case.name, instructions::count(case)?);
    }
    let mut exceeded = 0;
    for case in cases.iter().filter(|case| !case.is_by_hand) {
        let baseline = case.baseline.and_then(|name| Some((name, *counts.get(name)?)));
        let mut count = counts.get(case.name).copied().unwrap_or_default();
        let mut verdict = Verdict::new(case, count, baseline, &recorded);
        for _ in 0..RETRIES {
            if !verdict.is_exceeded {
                break;
            }
            count = count.min(instructions::count(case)?);
            verdict = Verdict::new(case, count, baseline, &recorded);
        }
        exceeded += u32::from(verdict.is_exceeded);
        let mark = if verdict.is_exceeded { "  <--" } else { "" };
        println!("{bench}: {}: {count} instructions, {}{mark}", case.name, verdict.text);
    }
    match exceeded {
        0 => Ok(()),
        _ => Err(format!(
            "{exceeded} cases exceed their limit; record intended counts with `cargo xtask bench --update`"
        )),
    }
}

/// The result of comparing the count of a case with its limit.
struct Verdict {
    is_exceeded: bool,
    text: String,
}

impl Verdict {
    fn new(case: &Case, count: u64, baseline: Option<(&str, u64)>, recorded: &BTreeMap<String, u64>) -> Self {
        if let (Some(bound), Some((name, baseline))) = (case.max_ratio, baseline) {
            let ratio = count as f64 / baseline as f64;
            let text = format!("{ratio:.2} x {name:?}, at most {bound:.2}");
            return Self { is_exceeded: ratio > bound, text };
        }
        let growth = |name: &str, count: u64| Some(count as f64 / *recorded.get(name)? as f64);
        let Some(own) = growth(case.name, count) else {
            return Self { is_exceeded: true, text: "no recorded count".to_owned() };
        };
        let of_baseline = baseline.and_then(|(name, count)| growth(name, count)).unwrap_or(1.0);
        let growths = [own - 1.0, own / of_baseline - 1.0];
        let text =
            format!("{:+.1} %, {:+.1} % relative to its baseline", growths[0] * 100.0, growths[1] * 100.0);
        Self { is_exceeded: growths.iter().all(|growth| *growth > MAX_GROWTH), text }
    }
}

/// Counts the instructions of `cases` and records the counts in `counts.json`.
pub(crate) fn update(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let mut all = read()?;
    let known = all.entry(bench.to_owned()).or_default();
    for case in cases {
        known.insert(case.name.to_owned(), instructions::count(case)?);
    }
    write(&all)
}

fn read() -> Result<Counts, String> {
    match fs::read_to_string(COUNTS_FILE) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|error| format!("cannot read {COUNTS_FILE}: {error}"))
        }
        Err(error) => Err(format!("cannot read {COUNTS_FILE}: {error}")),
    }
}

fn write(counts: &Counts) -> Result<(), String> {
    let text = serde_json::to_string_pretty(counts).map_err(|error| error.to_string())?;
    fs::write(COUNTS_FILE, text + "\n").map_err(|error| format!("cannot write {COUNTS_FILE}: {error}"))
}
