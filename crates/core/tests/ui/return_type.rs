use std::time::Duration;

use haft_core::{Json, tool};

#[tool]
fn uptime() -> Duration {
    Duration::from_secs(1)
}

#[tool]
fn find(n: i64) -> Option<i64> {
    Some(n)
}

#[tool]
fn check(n: i64) -> Result<(), ()> {
    if n > 0 { Ok(()) } else { Err(()) }
}

#[tool]
fn bytes() -> Vec<u8> {
    vec![1, 2]
}

#[tool]
fn perhaps(n: i64) -> Result<Option<Json<i64>>, String> {
    Ok(Some(Json(n)))
}

struct Opaque;

#[tool]
async fn hide() -> Json<Opaque> {
    Json(Opaque)
}

fn main() {}
