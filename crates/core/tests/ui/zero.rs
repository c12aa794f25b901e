use haft_core::tool;

#[tool(timeout = std::time::Duration::ZERO)]
fn add(x: i64) -> i64 {
    x
}

#[tool(timeout = std::time::Duration::from_secs(0), max_calls = 0, output_limit = 0)]
fn negate(x: i64) -> i64 {
    -x
}

#[tool(timeout = std::time::Duration::from_secs_f64(0.0))]
fn double(x: i64) -> i64 {
    2 * x
}

fn main() {}
