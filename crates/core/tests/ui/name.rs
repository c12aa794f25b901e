use haft_core::tool;

#[tool]
fn größe(n: i64) -> i64 {
    n
}

#[tool(name = "get.weather")]
fn weather(city: String) -> String {
    city
}

#[tool(name = 5)]
fn five() {}

fn main() {}
