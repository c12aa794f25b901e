use haft_core::tool;

struct Connection;

#[tool]
fn default_of_another_type(#[tool(default = 5.5)] n: u32) -> u32 {
    n
}

#[tool(timeout = 5)]
fn timeout_without_a_unit(n: u32) -> u32 {
    n
}

#[tool(schema = "{}")]
fn schema_as_text(n: u32) -> u32 {
    n
}

#[tool]
fn context_of_another_type(#[tool(context)] cx: &str) -> usize {
    cx.len()
}

#[tool]
fn state_that_cannot_be_cloned(#[tool(state)] connection: Connection) {
    drop(connection);
}

fn main() {}
