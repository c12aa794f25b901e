use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};

use super::said::Said;
use haft_core::{
    ChatModel, ToolCall,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    usage::Usage,
};

/// A model that says what a test tells it to, one step a request.
///
/// A request without a step is answered by an error, and the last clone panics when it is dropped after such a
/// request, or with steps left: a test that passes has said all and only what it meant to. Clones share the script.
///
/// [`requests`](Self::requests) has what it was asked, for a test to look at afterwards; [`step`](Self::step) looks at a request
/// when it comes. A reply is streamed in one piece, unless it is given in [chunks](Self::chunks) or as [events](Self::events).
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_testing::ScriptedModel;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model = ScriptedModel::new().calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).text("It is 42.");
/// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
/// assert_eq!(model.chat(&request).await?.message.tool_calls[0].name, "add");
/// assert_eq!(model.chat(&request).await?.message.text(), "It is 42.");
/// assert_eq!(model.requests().len(), 2);
/// # Ok::<(), haft_core::model::ModelError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    profile: ModelProfile,
    script: Arc<Script>,
}

type Step = Box<dyn FnOnce(&ChatRequest) -> Said + Send>;

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

    /// Then it gives this reply. One without usage is a request of which nobody says what it used.
    #[must_use]
    pub fn reply(self, response: ChatResponse) -> Self {
        let response = counted(response);
        self.step(move |_request| Ok(response))
    }

    /// Then it answers with text that comes in these pieces.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt as _;
    /// use haft_core::{ChatModel, Message, model::{ChatEvent, ChatRequest}};
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let model = ScriptedModel::new().chunks(["It ", "is ", "42."]);
    /// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
    /// let mut events = model.stream(&request);
    /// assert_eq!(events.next().await.unwrap()?, ChatEvent::TextDelta { text: "It ".to_owned() });
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn chunks<T: Into<String>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let finished = ChatEvent::Finished(counted(ChatResponse::new(texts.concat())).into());
        let deltas = texts.into_iter().map(|text| ChatEvent::TextDelta { text });
        self.events(deltas.chain([finished]).map(Ok).collect::<Vec<_>>())
    }

    /// Then it gives exactly these events, which may be such as a broken server gives. Who asks for the whole reply gets
    /// that of the [last event](ChatEvent::Finished), or the first error.
    #[must_use]
    pub fn events(self, events: impl IntoIterator<Item = Result<ChatEvent, ModelError>>) -> Self {
        let events = events.into_iter().collect();
        self.say(move |_request| Said::Events(events))
    }

    /// Then it says nothing until the request is dropped.
    #[must_use]
    pub fn hang(self) -> Self {
        self.say(|_request| Said::Hangs(Vec::new()))
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
        self.say(|request| Said::Reply(step(request).map(Box::new)))
    }

    fn say(self, step: impl FnOnce(&ChatRequest) -> Said + Send + 'static) -> Self {
        lock(&self.script.steps).push_back(Box::new(step));
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ChatRequest> {
        lock(&self.script.requests).clone()
    }
}

/// Each reply is one request.
fn counted(mut response: ChatResponse) -> ChatResponse {
    if response.usage == Usage::default() {
        response.usage = Usage::of_request(0, 0);
    }
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    fn next(&self, request: &ChatRequest) -> Said {
        let number = {
            let mut requests = lock(&self.requests);
            requests.push(request.clone());
            requests.len()
        };
        let step = lock(&self.steps).pop_front();
        let Some(step) = step else {
            self.unexpected.fetch_add(1, Ordering::Relaxed);
            let last = request.messages.iter().last().map(|message| message.text()).unwrap_or_default();
            return Said::Reply(Err(ModelError::failed(format!(
                "unexpected request {number}: the script has no step for {last:?}"
            ))));
        };
        step(request)
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.script.next(request).whole().await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        // Nothing is asked before the stream is: a stream that nobody reads takes no step.
        stream::once(async { self.script.next(request).stream() }).flatten().boxed()
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

#[cfg(test)]
mod tests;
