use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::{Expect, expect};

use super::broken;
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
    expected.assert_eq(&broken(&report));
}

#[tokio::test]
async fn our_own_sources_and_their_adaptors_have_no_findings() {
    let tools = || Toolset::new().with(tool("a")).with(tool("b"));
    conformance::source(tools()).await.assert();
    conformance::source(tools().prefixed("x_")).await.assert();
    conformance::source(tools().filtered(|it| it.name() == "a")).await.assert();
    conformance::source(tools().renamed([("a", "c")]).unwrap()).await.assert();
    conformance::source(tools().cached(Duration::from_secs(60))).await.assert();
    conformance::source(tools().combined(tools().prefixed("y_"))).await.assert();
    conformance::source(tools().approval_required(|_| true)).await.assert();
    let registry = ToolRegistry::new("registry");
    registry.register(tool("a")).unwrap();
    conformance::source(registry).await.assert();
    conformance::source(Toolset::new().with_source(tools().prefixed("z_"))).await.assert();
}

/// A source that does one thing wrong.
struct Broken {
    fault: &'static str,
    asked: AtomicUsize,
    busy: AtomicBool,
    kept: Mutex<Option<ToolList>>,
}

fn broken_by(fault: &'static str) -> Broken {
    Broken { fault, asked: AtomicUsize::new(0), busy: AtomicBool::new(false), kept: Mutex::default() }
}

#[async_trait]
impl ToolSource for Broken {
    fn label(&self) -> &str {
        match self.fault {
            "no label" => "",
            "other label" if self.asked.load(Ordering::Relaxed) > 0 => "other",
            _ => "broken",
        }
    }

    async fn tools(&self, _: &ListContext) -> Result<ToolList, SourceError> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            "fails" => return Err(SourceError::new("somebody", "no connection")),
            "hangs" => std::future::pending().await,
            "locks" => {
                if self.busy.swap(true, Ordering::Relaxed) {
                    return Err(SourceError::new("broken", "somebody else is listing"));
                }
                tokio::task::yield_now().await;
                self.busy.store(false, Ordering::Relaxed);
            }
            "new snapshot" => return Ok(ToolList::new("broken", [tool("a")])),
            "new tools" => return Ok(ToolList::new("broken", [tool(&format!("tool_{asked}"))])),
            _ => {}
        }
        let mut kept = self.kept.lock().unwrap();
        Ok(kept.get_or_insert_with(|| ToolList::new("broken", [tool("a")])).clone())
    }
}

#[tokio::test]
async fn a_label_that_names_nothing_is_found() {
    check(broken_by("no label"), expect!["the label names the source: it is empty"]).await;
    check(broken_by("other label"), expect![[r#"the label names the source: it is "other" later"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_list_is_found() {
    check(
        broken_by("fails"),
        expect![[r#"
            the label names the source: an error names "somebody"
            the source lists its tools in time: tool source somebody: no connection"#]],
    )
    .await;
    check(broken_by("hangs"), expect!["the source lists its tools in time: it does not answer in 5s"]).await;
}

#[tokio::test]
async fn a_snapshot_that_is_made_anew_is_found() {
    check(
        broken_by("new snapshot"),
        expect!["when nothing changed, the same snapshot comes back: listed twice, [a] is another one"],
    )
    .await;
    check(
        broken_by("new tools"),
        expect![[r#"
            listing changes nothing: listed again, it has [tool_1] and not [tool_0]
            listings side by side all get the tools: 0 of 8 do
            a listing that is dropped costs the next one nothing: then it has [tool_11]"#]],
    )
    .await;
}

#[tokio::test]
async fn listings_that_disturb_one_another_are_found() {
    check(
        broken_by("locks"),
        expect![[r#"
            listings side by side all get the tools: 1 of 8 do
            a listing that is dropped costs the next one nothing: tool source broken: somebody else is listing"#]],
    )
    .await;
}
