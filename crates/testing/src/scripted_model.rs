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

use super::scripted_reply::ScriptedReply;
use haft_core::{
    ChatModel, ToolCall,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    usage::Usage,
};

/// A model that replies from a script. Each request takes the next step of the script.
///
/// A request fails if no step is left. Clones share the script. Dropping the last clone panics if a
/// request found no step or if a step was not used, so a test that does not follow the script
/// fails.
///
/// A test can inspect all requests afterwards with [`requests`](Self::requests), or check each
/// request as it arrives with [`reply_with`](Self::reply_with). A streamed reply has its whole text
/// in one event, unless its step was added with [`reply_chunks`](Self::reply_chunks) or
/// [`reply_events`](Self::reply_events).
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_testing::ScriptedModel;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
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

type ScriptStep = Box<dyn FnOnce(&ChatRequest) -> ScriptedReply + Send>;

#[derive(Default)]
struct Script {
    steps: Mutex<VecDeque<ScriptStep>>,
    requests: Mutex<Vec<ChatRequest>>,
    unexpected_count: AtomicUsize,
}

impl Default for ScriptedModel {
    fn default() -> Self {
        Self { profile: ModelProfile::new("scripted"), script: Arc::default() }
    }
}

impl ScriptedModel {
    /// Creates a model with an empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the profile of the model. The default profile has the name `scripted` and supports
    /// native tools and JSON schemas.
    #[must_use]
    pub fn with_profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Adds a step that replies with `text`.
    #[must_use]
    pub fn reply_text(self, text: impl Into<String>) -> Self {
        self.reply(ChatResponse::new(text.into()))
    }

    /// Adds a step that replies with `calls`: an array, a vector or another iterator. Each tool
    /// call is a [`ToolCall`], or a tuple of its id, the tool name, and the arguments as JSON text
    /// or as a [`Value`](haft_core::export::serde_json::Value).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, Message, model::ChatRequest};
    /// use haft_testing::ScriptedModel;
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let calls = (1..=3).map(|n| (format!("call_{n}"), "double", json!({"n": n})));
    /// let model = ScriptedModel::new().reply_calls(calls);
    /// let reply = model.chat(&ChatRequest::new([Message::user("Double 1, 2 and 3.")])).await?;
    /// assert_eq!(reply.message.tool_calls[2].arguments.as_str(), r#"{"n":3}"#);
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reply_calls(self, calls: impl IntoIterator<Item: Into<ToolCall>>) -> Self {
        self.reply_message(AssistantMessage::default(), calls)
    }

    /// Adds a step that replies with `text` and `calls` in one message. `calls` are as for
    /// [`reply_calls`](Self::reply_calls).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_testing::ScriptedModel;
    /// use serde_json::json;
    ///
    /// let model = ScriptedModel::new()
    ///     .reply_text_and_calls("Let me add them.", [("call_1", "add", json!({"x": 1, "y": 2}))]);
    /// # use haft_core::{ChatModel, model::ChatRequest};
    /// # let reply = futures::executor::block_on(model.chat(&ChatRequest::default())).unwrap();
    /// # assert_eq!(reply.message.text(), "Let me add them.");
    /// # assert_eq!(reply.message.tool_calls.len(), 1);
    /// ```
    #[must_use]
    pub fn reply_text_and_calls(
        self,
        text: impl Into<String>,
        calls: impl IntoIterator<Item: Into<ToolCall>>,
    ) -> Self {
        self.reply_message(AssistantMessage::from(text.into()), calls)
    }

    fn reply_message(
        self,
        message: AssistantMessage,
        calls: impl IntoIterator<Item: Into<ToolCall>>,
    ) -> Self {
        let tool_calls = calls.into_iter().map(Into::into).collect();
        self.reply(ChatResponse::new(AssistantMessage { tool_calls, ..message }))
    }

    /// Adds a step that replies with `response`. If `response.usage` has its default value, it is
    /// set to one request without tokens.
    #[must_use]
    pub fn reply(self, response: ChatResponse) -> Self {
        self.reply_with(move |_request| Ok(response))
    }

    /// Adds a step that replies with the concatenation of `texts`. A stream yields one
    /// [`ChatEvent::TextDelta`] for each text.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt as _;
    /// use haft_core::{ChatModel, Message, model::{ChatEvent, ChatRequest}};
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_chunks(["It ", "is ", "42."]);
    /// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
    /// let mut events = model.stream(&request);
    /// assert_eq!(events.next().await.unwrap()?, ChatEvent::TextDelta { text: "It ".to_owned() });
    /// # Ok::<(), haft_core::model::ModelError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reply_chunks<T: Into<String>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let finished = ChatEvent::Finished(with_default_usage(ChatResponse::new(texts.concat())).into());
        let deltas = texts.into_iter().map(|text| ChatEvent::TextDelta { text });
        self.reply_events(deltas.chain([finished]).map(Ok).collect::<Vec<_>>())
    }

    /// Adds a step that streams exactly `events`, for example the events of a faulty server. If the
    /// request is sent with [`chat`](ChatModel::chat), it returns the response of the first
    /// [`ChatEvent::Finished`] or the first error, whichever comes first. If `events` contains
    /// neither, or if a server error, a connection error or a temporary rate limit follows another
    /// event, it fails with [`ModelError::Truncated`], like an agent that reads the stream.
    #[must_use]
    pub fn reply_events(self, events: impl IntoIterator<Item = Result<ChatEvent, ModelError>>) -> Self {
        let events = events.into_iter().collect();
        self.push_step(move |_request| ScriptedReply::Events(events))
    }

    /// Adds a step that never replies. The request stays pending until the caller drops it.
    #[must_use]
    pub fn hang(self) -> Self {
        self.push_step(|_request| ScriptedReply::Hangs(Vec::new()))
    }

    /// Adds a step that fails with `error`.
    #[must_use]
    pub fn fail(self, error: ModelError) -> Self {
        self.reply_with(move |_request| Err(error))
    }

    /// Adds a step that calls `step` with the request and returns its result. `step` may contain
    /// assertions about the request. If the usage of the response has its default value, it is set
    /// to one request without tokens, as in [`reply`](Self::reply).
    #[must_use]
    pub fn reply_with(
        self,
        step: impl FnOnce(&ChatRequest) -> Result<ChatResponse, ModelError> + Send + 'static,
    ) -> Self {
        self.push_step(|request| {
            ScriptedReply::Complete(step(request).map(|response| with_default_usage(response).into()))
        })
    }

    fn push_step(self, step: impl FnOnce(&ChatRequest) -> ScriptedReply + Send + 'static) -> Self {
        lock(&self.script.steps).push_back(Box::new(step));
        self
    }

    /// Returns all requests received by the model, including requests that failed because no step
    /// was left.
    pub fn requests(&self) -> Vec<ChatRequest> {
        lock(&self.script.requests).clone()
    }
}

/// Returns `response` with its usage set to one request without tokens, if the usage has its
/// default value.
fn with_default_usage(mut response: ChatResponse) -> ChatResponse {
    if response.usage == Usage::default() {
        response.usage = Usage::one_request(0, 0);
    }
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    fn next_reply(&self, request: &ChatRequest) -> ScriptedReply {
        let number = {
            let mut requests = lock(&self.requests);
            requests.push(request.clone());
            requests.len()
        };
        let step = lock(&self.steps).pop_front();
        let Some(step) = step else {
            self.unexpected_count.fetch_add(1, Ordering::Relaxed);
            let last = request.messages.iter().last().map(|message| message.text()).unwrap_or_default();
            return ScriptedReply::Complete(Err(ModelError::failed(format!(
                "unexpected request {number}: the script has no step for {last:?}"
            ))));
        };
        step(request)
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.script.next_reply(request).into_response().await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        // The step is taken at the first poll, so a stream that is never polled uses no step.
        stream::once(async { self.script.next_reply(request).into_stream() }).flatten().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let left = self.steps.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let requests = self.requests.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let unexpected = *self.unexpected_count.get_mut();
        if !std::thread::panicking() {
            assert!(left == 0, "the script has {left} steps left after {requests} requests");
            assert!(unexpected == 0, "{unexpected} of {requests} requests had no step in the script");
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
