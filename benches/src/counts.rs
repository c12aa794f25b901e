use std::{collections::BTreeMap, fs};

use crate::{Case, instructions};

/// Where they are written down.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json");

/// How much more a case may take before somebody has to look, as a part of what was written down.
const TOLERANCE: f64 = 0.03;

/// Instructions of one round, by bench and case.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Holds what cases take now against what was written down.
pub(crate) fn check(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let known = read()?.remove(bench).unwrap_or_default();
    let mut off = 0;
    for case in cases {
        let now = instructions::count(case)?;
        let Some(&then) = known.get(case.name) else {
            off += 1;
            println!("{bench}: {}: {now} instructions, none are written down", case.name);
            continue;
        };
        let change = now as f64 / then as f64 - 1.0;
        let is_off = change.abs() > TOLERANCE;
        off += u32::from(is_off);
        let mark = if is_off { "  <--" } else { "" };
        println!("{bench}: {}: {now} instructions, {:+.1} % of {then}{mark}", case.name, change * 100.0);
    }
    match off {
        0 => Ok(()),
        _ => Err(format!(
            "{off} cases take other than what is written down; where that is meant, `cargo xtask bench --update`"
        )),
    }
}

/// Writes down what cases take.
pub(crate) fn update(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let mut all = read()?;
    let known = all.entry(bench.to_owned()).or_default();
    for case in cases {
        known.insert(case.name.to_owned(), instructions::count(case)?);
    }
    write(&all)
}

fn read() -> Result<Counts, String> {
    match fs::read_to_string(FILE) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("cannot read {FILE}: {error}")),
        Err(error) => Err(format!("cannot read {FILE}: {error}")),
    }
}

fn write(counts: &Counts) -> Result<(), String> {
    let text = serde_json::to_string_pretty(counts).map_err(|error| error.to_string())?;
    fs::write(FILE, text + "\n").map_err(|error| format!("cannot write {FILE}: {error}"))
}
