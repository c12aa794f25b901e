use expect_test::expect;
use futures::stream::{BoxStream, empty};

use super::*;

/// An agent whose runs have no events.
struct Silent;

impl Agent for Silent {
    fn stream(&self, _: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        Box::pin(empty())
    }
}

/// The saved state of a child run contains the usage that the parent run has already counted. A
/// state without this usage is rejected, because the usage would be counted twice.
#[tokio::test]
async fn saved_state_in_another_format_is_rejected() {
    let nested = PendingKind::Nested { pending: Vec::new() };
    for continuation in [json!({"format": 1}), json!({"child": {}}), json!({"child": {}, "told": {}})] {
        let pending = Pending::new(nested.clone()).with_continuation(continuation);
        let resumed = pending.resume(Decision::Nested { decisions: Decisions::new() }).unwrap();
        let cx = ToolContext::default().with_resumed(resumed);
        let error = Silent.into_tool("research", "").call(json!({"task": "…"}), &cx).await.unwrap_err();
        expect!["cannot read the saved state of the agent"].assert_eq(&error.to_string());
    }
}
