use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::{Expect, expect};

use super::format_violations;
use crate::conformance;
use haft_core::{
    Schema, ToolDefinition, ToolError, ToolName, ToolOutput, ToolSource, Toolset,
    tool::DynamicTool,
    toolset::{ListContext, SourceError, ToolList},
};
use haft_middleware::ToolRegistry;

fn tool(name: &str) -> DynamicTool {
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), Schema::object());
    DynamicTool::new(definition, |_, _| async { Ok::<ToolOutput, ToolError>("done".into()) })
}

async fn check(source: impl ToolSource + 'static, expected: Expect) {
    let report = conformance::source(source).await;
    expected.assert_eq(&format_violations(&report));
}

#[tokio::test]
async fn own_sources_and_adaptors_have_no_findings() {
    let tools = || Toolset::new().with_tool(tool("a")).with_tool(tool("b"));
    conformance::source(tools()).await.assert_conforms();
    conformance::source(tools().prefixed("x_")).await.assert_conforms();
    conformance::source(tools().filtered(|it| it.name() == "a")).await.assert_conforms();
    conformance::source(tools().renamed([("a", "c")]).unwrap()).await.assert_conforms();
    conformance::source(tools().cached(Duration::from_secs(60))).await.assert_conforms();
    conformance::source(tools().combined(tools().prefixed("y_"))).await.assert_conforms();
    conformance::source(tools().approval_required(|_| true)).await.assert_conforms();
    let registry = ToolRegistry::new("registry");
    registry.register(tool("a")).unwrap();
    conformance::source(registry).await.assert_conforms();
    conformance::source(Toolset::new().with_source(tools().prefixed("z_"))).await.assert_conforms();
}

/// A tool source with the fault named by `fault`, for example `no label`.
struct FaultySource {
    fault: &'static str,
    listings: AtomicUsize,
    busy: AtomicBool,
    list: Mutex<Option<ToolList>>,
}

fn faulty(fault: &'static str) -> FaultySource {
    FaultySource {
        fault,
        listings: AtomicUsize::new(0),
        busy: AtomicBool::new(false),
        list: Mutex::default(),
    }
}

#[async_trait]
impl ToolSource for FaultySource {
    fn label(&self) -> &str {
        match self.fault {
            "no label" => "",
            "other label" if self.listings.load(Ordering::Relaxed) > 0 => "other",
            _ => "broken",
        }
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        let number = self.listings.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            "fails" => return Err(SourceError::new("other", "no connection")),
            "hangs" => std::future::pending().await,
            "locks" => {
                if self.busy.swap(true, Ordering::Relaxed) {
                    return Err(SourceError::new("broken", "another listing is in progress"));
                }
                tokio::task::yield_now().await;
                self.busy.store(false, Ordering::Relaxed);
            }
            "new snapshot while busy" => {
                let is_busy = self.busy.swap(true, Ordering::Relaxed);
                tokio::task::yield_now().await;
                self.busy.store(false, Ordering::Relaxed);
                if is_busy {
                    return Ok(ToolList::new("broken", [tool("a")]));
                }
            }
            "new snapshot after a drop" if self.busy.swap(true, Ordering::Relaxed) => {
                return Ok(ToolList::new("broken", [tool("a")]));
            }
            "new snapshot after a drop" => {
                if number > 0 {
                    tokio::task::yield_now().await;
                }
                self.busy.store(false, Ordering::Relaxed);
            }
            "new snapshot" => return Ok(ToolList::new("broken", [tool("a")])),
            "new tools" => return Ok(ToolList::new("broken", [tool(&format!("tool_{number}"))])),
            _ => {}
        }
        let mut list = self.list.lock().unwrap();
        Ok(list.get_or_insert_with(|| ToolList::new("broken", [tool("a")])).clone())
    }
}

#[tokio::test]
async fn empty_or_changing_label_is_found() {
    check(faulty("no label"), expect!["the label names the source: it is empty"]).await;
    check(faulty("other label"), expect![[r#"the label names the source: it changed to "other""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn failing_or_hanging_source_is_found() {
    check(faulty("fails"), expect!["the source lists its tools in time: tool source other: no connection"])
        .await;
    check(faulty("hangs"), expect!["the source lists its tools in time: no list in 5s"]).await;
}

#[tokio::test]
async fn new_snapshot_per_listing_is_found() {
    check(
        faulty("new snapshot"),
        expect![
            "an unchanged source returns the same snapshot: a later listing returns another snapshot of [a]"
        ],
    )
    .await;
    check(
        faulty("new snapshot while busy"),
        expect![
            "an unchanged source returns the same snapshot: a later listing returns another snapshot of [a]"
        ],
    )
    .await;
    check(
        faulty("new snapshot after a drop"),
        expect![
            "an unchanged source returns the same snapshot: a later listing returns another snapshot of [a]"
        ],
    )
    .await;
    check(
        faulty("new tools"),
        expect![
            "an unchanged source returns the same snapshot: a later listing returns another snapshot of [tool_2]"
        ],
    )
    .await;
}

#[tokio::test]
async fn listings_that_block_each_other_are_found() {
    check(
        faulty("locks"),
        expect!["concurrent and dropped listings do not affect others: tool source broken: another listing is in progress"],
    )
    .await;
}
