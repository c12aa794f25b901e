use haft_core::tool;

#[tool]
fn distance((x, y): (f64, f64), _: f64) -> f64 {
    x.hypot(y)
}

fn main() {}
