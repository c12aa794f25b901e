// A shop with two agents, whose run is driven by this package instead of haft-react. The models are
// scripted, so no network is needed.
//
// cargo xtask example own-driver

use std::error::Error;

use haft_core::{
    Toolset,
    call::{Decision, PendingCall, PendingKind},
    tool,
    tool::RunContext,
};
use haft_testing::ScriptedModel;
use own_driver::{Member, Team, transfer_to};

/// Looks up the price of an item in cents.
#[tool(read_only)]
fn price(item: String) -> Result<u32, String> {
    if item == "paper" { Ok(499) } else { Err(format!("there is no {item}")) }
}

/// Orders boxes of an item.
#[tool(requires_approval)]
fn order(item: String, boxes: u32) -> String {
    format!("{boxes} boxes of {item} are ordered")
}

/// Approves orders of at most 5 boxes, and denies all other calls.
fn decide(pending: &PendingCall) -> Decision {
    println!("  to approve: {} {}", pending.call.name, pending.call.arguments);
    match &pending.pending.kind {
        PendingKind::Approval { arguments } if arguments["boxes"].as_u64() <= Some(5) => Decision::approved(),
        _ => Decision::denied("at most 5 boxes"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let reception = ScriptedModel::new()
        .reply_calls([("1", "price", r#"{"item": "paper"}"#), ("2", "transfer_to_orders", "{}")]);
    let orders = ScriptedModel::new()
        .reply_calls([("3", "order", r#"{"item": "paper", "boxes": 30}"#)])
        .reply_calls([("4", "order", r#"{"item": "paper", "boxes": 3}"#)])
        .reply_text("3 boxes of paper are on their way, for 14.97.");

    let tools = Toolset::new().with_tool(Price).with_tool(transfer_to("orders"));
    let team = Team::new([
        ("reception", Member::new(reception, "Find out what a customer wants.", tools, [])?),
        (
            "orders",
            Member::new(orders, "Order what the customer wants.", Toolset::new().with_tool(Order), [])?,
        ),
    ]);

    let mut run = team.begin("reception", "Paper, please: 30 boxes, or what you can give me.".into())?;
    let (agent, answer) = team.drive(&mut run, "reception", RunContext::default(), &decide).await?;
    for step in &answer.steps {
        println!("  {} {} -> {}", step.tool_name, step.tool_args, step.result.model_text());
    }
    println!("{agent}: {}", answer.text);
    Ok(())
}
