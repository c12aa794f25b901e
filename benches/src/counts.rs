use std::{collections::BTreeMap, fs};

use crate::{Case, instructions};

/// Where they are written down.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.json");

/// How much more a case may take before somebody has to look, as a part of what was written down.
const TOLERANCE: f64 = 0.03;

/// How often what is off is counted again, for the least: how much a socket takes at once is not always the same.
const AGAIN: u32 = 3;

/// Instructions of one round, by bench and case.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Holds what cases take now against what was written down.
///
/// Another compiler, C library or processor makes it another number, and of the same work by hand too: what changed no more than
/// that did has not changed.
pub(crate) fn check(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let known = read()?.remove(bench).unwrap_or_default();
    let mut counted = BTreeMap::new();
    for case in cases {
        counted.insert(case.name, instructions::count(case)?);
    }
    let change = |name: &str, now: u64| Some(now as f64 / *known.get(name)? as f64);
    let mut off = 0;
    for case in cases {
        let floor = case.floor.and_then(|floor| change(floor, *counted.get(floor)?)).unwrap_or(1.0);
        let mut now = counted.get(case.name).copied().unwrap_or_default();
        let mut again = if case.is_by_hand { 0 } else { AGAIN };
        let change = |now| change(case.name, now).map(|own| [own, own / floor].map(|change| change - 1.0));
        let is_off = |now| change(now).is_none_or(|it| it.iter().all(|change| *change > TOLERANCE));
        while is_off(now) && again > 0 {
            now = now.min(instructions::count(case)?);
            again -= 1;
        }
        let is_off = is_off(now) && !case.is_by_hand;
        off += u32::from(is_off);
        let mark = if is_off { "  <--" } else { "" };
        let change = change(now).map_or("none are written down".to_owned(), |[own, beside]| {
            format!("{:+.1} %, {:+.1} % beside its floor", own * 100.0, beside * 100.0)
        });
        println!("{bench}: {}: {now} instructions, {change}{mark}", case.name);
    }
    match off {
        0 => Ok(()),
        _ => Err(format!(
            "{off} cases take more than what is written down; where that is meant, `cargo xtask bench --update`"
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
