use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;

use crate::{
    AssistantMessage, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile, ToolCall, Usage,
};

/// A model that says what a test tells it to, one step a request.
///
/// A request without a step is answered by an error, and the last clone panics when it is dropped after such a
/// request, or with steps left: a test that passes has said all and only what it meant to. Clones share the script.
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, ChatRequest, Message, testing::ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model = ScriptedModel::new().calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).text("It is 42.");
/// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
/// assert_eq!(model.chat(&request).await?.message.tool_calls[0].name, "add");
/// assert_eq!(model.chat(&request).await?.message.text(), "It is 42.");
/// assert_eq!(model.requests().len(), 2);
/// # Ok::<(), haft_core::ModelError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    profile: ModelProfile,
    script: Arc<Script>,
}

type Step = Box<dyn FnOnce(&ChatRequest) -> Result<ChatResponse, ModelError> + Send>;

#[derive(Default)]
struct Script {
    steps: Mutex<VecDeque<Step>>,
    requests: Mutex<Vec<ChatRequest>>,
    unexpected: AtomicUsize,
}

impl Default for ScriptedModel {
    fn default() -> Self {
        Self { profile: ModelProfile::new("scripted"), script: Arc::default() }
    }
}

impl ScriptedModel {
    /// Makes a model without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the model says that it can do.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Then it answers with text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.reply(ChatResponse::new(text.into()))
    }

    /// Then it asks for calls: id, name and JSON text of the arguments of each.
    #[must_use]
    pub fn calls<const N: usize>(self, calls: [(&str, &str, &str); N]) -> Self {
        let tool_calls = calls.map(|(id, name, arguments)| ToolCall::new(id, name, arguments)).into();
        self.reply(ChatResponse::new(AssistantMessage { tool_calls, ..AssistantMessage::default() }))
    }

    /// Then it gives this reply. One without usage is counted as a request of no tokens.
    #[must_use]
    pub fn reply(self, mut response: ChatResponse) -> Self {
        if response.usage == Usage::default() {
            response.usage = Usage::of_request(0, 0);
        }
        self.step(move |_request| Ok(response))
    }

    /// Then it fails.
    #[must_use]
    pub fn fail(self, error: ModelError) -> Self {
        self.step(move |_request| Err(error))
    }

    /// Then it does what the function says, which may look at the request and assert what it likes.
    #[must_use]
    pub fn step(
        self,
        step: impl FnOnce(&ChatRequest) -> Result<ChatResponse, ModelError> + Send + 'static,
    ) -> Self {
        lock(&self.script.steps).push_back(Box::new(step));
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ChatRequest> {
        lock(&self.script.requests).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl ChatModel for ScriptedModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let number = {
            let mut requests = lock(&self.script.requests);
            requests.push(request.clone());
            requests.len()
        };
        let step = lock(&self.script.steps).pop_front();
        match step {
            Some(step) => step(request),
            None => {
                self.script.unexpected.fetch_add(1, Ordering::Relaxed);
                let last = request.messages.iter().last().map(|message| message.text()).unwrap_or_default();
                Err(ModelError::failed(format!(
                    "unexpected request {number}: the script has no step for {last:?}"
                )))
            }
        }
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let left = self.steps.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let asked = self.requests.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let unexpected = *self.unexpected.get_mut();
        if !std::thread::panicking() {
            assert!(left == 0, "the script has {left} steps left after {asked} requests");
            assert!(unexpected == 0, "{unexpected} of {asked} requests had no step in the script");
        }
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptedModel({} steps left)", lock(&self.script.steps).len())
    }
}
