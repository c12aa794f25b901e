use crate::{Case, instructions, time};

/// Measures all cases, and prints a table of their times, ratios to their baselines, and
/// instruction counts.
pub(crate) fn measure_and_print(bench: &str, cases: &[&Case]) -> Result<(), String> {
    let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0).max(bench.len());
    let counts = instructions::can_be_counted();
    let head = ["median", "fastest", "goal", "ratio", "instructions"];
    println!("{}", line(bench, width, head.map(str::to_owned)));
    for case in cases {
        let baseline = cases.iter().find(|other| Some(other.name) == case.baseline);
        let (time, ratio) = match baseline {
            None => (time::measure([case])[0], None),
            Some(baseline) => {
                let [time, baseline] = time::measure([case, baseline]);
                (time, Some(time.median / baseline.median))
            }
        };
        let goal = case.goal.map(|goal| micros(goal.as_nanos() as f64));
        let ratio = ratio.map(|ratio| format!("× {ratio:.2}"));
        let count = if counts { Some(instructions::count(case)?.to_string()) } else { None };
        let cells = [Some(micros(time.median)), Some(micros(time.fastest)), goal, ratio, count];
        println!("{}", line(case.name, width, cells.map(Option::unwrap_or_default)));
    }
    if !counts {
        println!("{}", instructions::VALGRIND_MISSING);
    }
    Ok(())
}

fn line(name: &str, width: usize, cells: [String; 5]) -> String {
    let [median, fastest, goal, ratio, count] = cells;
    let line = format!("{name:width$}  {median:>12}  {fastest:>12}  {goal:>8}  {ratio:>7}  {count:>12}");
    line.trim_end().to_owned()
}

fn micros(nanos: f64) -> String {
    format!("{:.2} µs", nanos / 1_000.0)
}
