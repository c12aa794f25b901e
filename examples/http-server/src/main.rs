//! An axum application with a route of its own, and with haft under `/ai`: tools, chat, and runs that
//! wait for an approval in a file. Start it with `cargo xtask example http-server`:
//!
//! ```console
//! $ curl localhost:8080/stock
//! $ curl localhost:8080/ai/sessions/office/runs -d '{"messages": [{"role": "user", "content": "Order 3 boxes of paper."}]}'
//! $ curl -N localhost:8080/ai/runs/RUN/events
//! $ curl localhost:8080/ai/runs/RUN/decisions -d '{"call_id": "CALL", "decision": {"type": "approved"}}'
//! ```
//!
//! The program can end while the run waits, and at any other time: the next one continues the run.

use std::{env, error::Error, sync::Arc};

use axum::{Router, routing::get};
use haft_core::{Toolset, tool, tool::RunContext};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;
use haft_server::Server;
use haft_session::SqlStore;
use tokio::{net::TcpListener, signal::ctrl_c};

/// Returns the number of boxes of paper in stock.
#[tool]
fn stock() -> u32 {
    2
}

/// Orders boxes of paper. It costs money, so it needs an approval.
#[tool(requires_approval)]
fn order(
    /// Number of boxes.
    boxes: u32,
) -> String {
    format!("{boxes} boxes are ordered")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let model = ChatCompletions::from_env("gpt-5-mini")?;
    let agent = ReactAgent::builder(model)
        .tools(Toolset::new().with_tool(Stock).with_tool(Order))
        .instructions("You look after the office.");
    let store = SqlStore::open_file("http-server.db").await?;
    let server = Server::builder(agent).store(Arc::new(store)).build()?;
    let runs = server.stored().ok_or("the server has no store")?;

    let app = Router::new()
        .route("/stock", get(async || format!("{} boxes\n", stock())))
        .nest("/ai", server.router());
    let listener = TcpListener::bind(address).await?;
    println!("serving at http://{}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, app).into_future() => served?,
        // Continues the runs of an earlier process. It does not end.
        () = runs.keep_abandoned_running(|_tenant| RunContext::default()) => {}
        interrupted = ctrl_c() => interrupted?,
    }
    // Calls in progress end, and the next process continues the runs.
    runs.shut_down().await;
    Ok(())
}
