// An office that orders paper. The journal of the run is the file `own-driver.jsonl`: kill the
// program at any time and start it again, and the run goes on. The model is a test model that calls
// each tool once, so no network is needed.
//
// cargo xtask example own-driver [yes|no]

use std::{env, path::Path, time::Duration};

use haft_core::{
    RunOutput, Toolset,
    call::{Decision, PendingCall},
    tool,
};
use haft_react::ReactAgent;
use haft_testing::TestModel;
use own_driver::drive;
use tokio::time::sleep;

/// Returns the number of boxes of paper in stock.
#[tool(idempotent)]
async fn stock() -> u32 {
    println!("  the boxes are counted");
    sleep(Duration::from_millis(200)).await;
    2
}

/// Orders a box of paper.
#[tool(requires_approval)]
async fn order() -> String {
    println!("  a box is ordered");
    sleep(Duration::from_millis(200)).await;
    "a box is on its way".to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> own_driver::Result<()> {
    let decision = match env::args().nth(1).as_deref() {
        Some("yes") => Some(Decision::approved()),
        Some("no") => Some(Decision::denied("not this month")),
        _ => None,
    };
    let agent = ReactAgent::new(TestModel::new(), Toolset::new().with_tool(Stock).with_tool(Order))?;
    let decide = move |_: &PendingCall| decision.clone();
    match drive(&agent, "Order paper.".into(), Path::new("own-driver.jsonl"), &decide).await? {
        RunOutput::Answer(answer) => println!("{}", answer.text),
        RunOutput::Suspended(suspended) => println!("{suspended}: start again with `yes` or `no`"),
    }
    Ok(())
}
