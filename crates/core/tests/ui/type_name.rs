use haft_core::{export::schemars::{self, JsonSchema}, tool, tools};

#[derive(serde::Deserialize, JsonSchema)]
struct Order {
    amount: u32,
}

#[tool]
fn order(order: Order) -> u32 {
    order.amount
}

#[tool]
fn result(n: i64) -> Result<i64, String> {
    Ok(n)
}

#[tool(type = "Quoted")]
fn quoted(n: i64) -> i64 {
    n
}

#[tool(type = a::Path)]
fn path(n: i64) -> i64 {
    n
}

#[tool(type)]
fn missing(n: i64) -> i64 {
    n
}

#[tool]
#[allow(non_snake_case)]
fn Pascal(n: i64) -> i64 {
    n
}

struct Shop;

#[tools]
impl Shop {
    #[tool(type = Named)]
    fn open(&self) {}
}

struct Taken;

#[tool(type = Taken)]
fn taken(n: i64) -> i64 {
    n
}

fn main() {}
