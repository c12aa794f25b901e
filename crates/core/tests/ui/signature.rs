use std::future::Future;

use haft_core::tool;

#[tool]
fn generic<T: ToString, const N: usize>(values: Vec<T>) -> String {
    values.iter().take(N).map(T::to_string).collect()
}

#[tool]
unsafe fn free(address: usize) {
    let _ = address;
}

#[tool(blocking)]
async fn fetch(url: String) -> String {
    url
}

#[tool]
fn later(n: i64) -> impl Future<Output = i64> {
    async move { n }
}

fn main() {}
