use haft_core::tool;

#[tool(nmae = "sum", title = "Sum", title = "Total")]
fn add(x: i64) -> i64 {
    x
}

#[tool(description, sequential = true, crate = "haft_core")]
fn negate(x: i64) -> i64 {
    -x
}

#[tool(default = 5, context)]
fn double(x: i64) -> i64 {
    2 * x
}

#[tool("halve")]
fn halve(x: i64) -> i64 {
    x / 2
}

fn main() {}
