use std::collections::BTreeMap;

use crate::{Case, instructions};

/// The maximum number of times that a case is counted again if it exceeds its limit. The lowest
/// count is used. Counts vary, for example because a write to a socket does not always accept the
/// same number of bytes.
const RETRIES: u32 = 3;

/// Counts the instructions of `cases` and compares their ratios to the counts of the baselines with
/// the maximum ratios. Prints the count of each case. Returns an error if a ratio is exceeded.
pub(crate) fn check(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let mut counts = BTreeMap::new();
    for case in cases {
        counts.insert(case.name, instructions::count(case)?);
    }
    let mut exceeded = 0;
    for case in cases {
        let mut count = counts.get(case.name).copied().unwrap_or_default();
        let baseline = case.baseline.and_then(|name| Some((name, *counts.get(name)?)));
        let Some((bound, (name, baseline))) = case.max_ratio.zip(baseline) else {
            println!("{bench}: {}: {count} instructions", case.name);
            continue;
        };
        let ratio = |count: u64| count as f64 / baseline as f64;
        for _ in 0..RETRIES {
            if ratio(count) <= bound {
                break;
            }
            count = count.min(instructions::count(case)?);
        }
        let is_exceeded = ratio(count) > bound;
        exceeded += u32::from(is_exceeded);
        let mark = if is_exceeded { "  <--" } else { "" };
        println!(
            "{bench}: {}: {count} instructions, {:.3} x {name:?}, at most {bound}{mark}",
            case.name,
            ratio(count)
        );
    }
    match exceeded {
        0 => Ok(()),
        _ => Err(format!("{exceeded} cases exceed their limit")),
    }
}
