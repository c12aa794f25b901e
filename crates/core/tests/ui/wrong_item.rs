use haft_core::tool;

#[tool]
struct Weather;

#[tool]
impl Weather {}

fn main() {}
