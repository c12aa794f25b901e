//! Tests of `#[tools]` on `impl` blocks, and of lazily initialized state.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use expect_test::expect;
use haft_core::{
    Tool, ToolContext, ToolError, ToolExt, Toolset, call::FailureKind, tool, tool::HostState, tools,
};
use serde_json::json;

#[derive(Default)]
struct Counter {
    count: AtomicUsize,
}

#[tools]
impl Counter {
    const STEP: usize = 2;

    /// Adds to the count.
    ///
    /// # Arguments
    ///
    /// * `n` - The amount.
    #[tool]
    fn add(&self, #[tool(default = Self::STEP, range = 1..=10)] n: usize) -> usize {
        self.count.fetch_add(n, Ordering::Relaxed) + n
    }

    /// Reads the count.
    #[tool(name = "read", read_only)]
    async fn get(&self, #[tool(context)] cx: &ToolContext) -> String {
        std::future::ready(()).await;
        format!("{} for {:?}", self.count(), cx.call_id())
    }

    /// Reads the count on a blocking thread.
    #[tool(blocking)]
    fn block(self: Arc<Self>) -> Result<usize, ToolError> {
        Ok(self.count())
    }

    /// Has the name of a method of `Arc`.
    #[tool]
    fn clone(&self) -> usize {
        self.count()
    }

    /// Returns the step; needs no counter.
    #[tool]
    fn step() -> usize {
        Self::STEP
    }

    #[cfg(any())]
    #[tool]
    fn never(&self) -> Missing {}

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// All tools from an `impl` block share one value.
#[tokio::test]
async fn methods_of_a_value_are_tools() {
    let counter = Arc::new(Counter::default());
    let tools = Toolset::new().with_tools(Arc::clone(&counter));
    tools.check().unwrap();
    assert_eq!(tools.names().await, ["add", "read", "block", "clone", "step"]);

    assert_eq!(tools.call("add", json!({})).await.model_text(), "2");
    assert_eq!(tools.call("add", json!({"n": 5})).await.model_text(), "7");
    assert_eq!(
        tools.call("add", json!({"n": 11})).await.failure().unwrap().kind,
        FailureKind::InvalidArguments
    );
    assert_eq!(tools.call("read", json!({})).await.model_text(), r#"7 for """#);
    assert_eq!(tools.call("block", json!({})).await.model_text(), "7");
    assert_eq!(tools.call("clone", json!({})).await.model_text(), "7");
    assert_eq!(tools.call("step", json!({})).await.model_text(), "2");
    // The methods can still be called directly, on the value that the tools share.
    assert_eq!((counter.add(1), Counter::step()), (8, 2));

    let add = tools.get("add").await.unwrap();
    expect![[r#"add: Adds to the count. Arguments: {"type":"object","properties":{"n":{"type":"integer","default":2,"minimum":1,"maximum":10,"description":"The amount."}},"additionalProperties":false}"#]]
        .assert_eq(&add.definition().to_string());
    let two = Toolset::new().with_tools(Counter::default()).with_tools(Counter::default());
    assert!(two.check().unwrap_err().to_string().contains("two tools are named \"add\""));
}

/// The first call that needs a lazy value initializes it, and later calls share it. If the
/// initialization fails, the next call tries it again.
#[tokio::test]
async fn lazy_state_is_initialized_once() {
    #[derive(Clone)]
    struct Connection(usize);

    #[tool]
    async fn number(#[tool(state)] connection: Connection) -> usize {
        connection.0
    }

    #[tool]
    fn without_waiting(#[tool(context)] cx: &ToolContext) -> Result<usize, ToolError> {
        cx.state::<Connection>().map(|connection| connection.0)
    }

    let attempts = Arc::new(AtomicUsize::new(0));
    let state =
        HostState::new().with_lazy_value({
            let attempts = Arc::clone(&attempts);
            move || {
                let attempt = attempts.fetch_add(1, Ordering::Relaxed);
                async move {
                    if attempt == 0 { Err("no such host: secret.example") } else { Ok(Connection(attempt)) }
                }
            }
        });
    let cx = ToolContext::new(Arc::new(tool::RunContext { state, ..Default::default() }), "");
    let call = async |tool: &dyn Tool| tool.invoke_with(json!({}), &cx).await.into_result();

    let first = call(&Number).await;
    assert_eq!(first.failure().unwrap().kind, FailureKind::Failed);
    expect!["a value needed by the tool could not be initialized; a later call may succeed"]
        .assert_eq(&first.model_text());
    let uninitialized = call(&WithoutWaiting).await.model_text().into_owned();
    assert!(uninitialized.ends_with("is not initialized yet: use `state_or_init`"), "{uninitialized}");
    let (second, third) = futures::join!(call(&Number), call(&Number));
    assert_eq!((&*second.model_text(), &*third.model_text()), ("1", "1"));
    assert_eq!(call(&WithoutWaiting).await.model_text(), "1");
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}
