use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;

use super::difference::{describe_differences, find_differences};
use super::exchange::{Exchange, RecordedReply};
use super::redaction::Redaction;
use super::{Cassette, CassetteError, CassetteMode};
use crate::scripted_reply::ScriptedReply;
use haft_core::{
    ChatModel,
    call::BoxError,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

/// A model that records the requests to another model with their replies, or replays a recorded
/// [`Cassette`] event by event.
///
/// # Replay
///
/// A request receives the reply of the first unused exchange that has an equal request. The order
/// of requests does not matter, so concurrent runs can be replayed. If no unused exchange has an
/// equal request, the request fails with an error that lists its differences from the most similar
/// unused exchange. In [`CassetteMode::Auto`], it is sent to the real model instead.
///
/// Clones share the cassette. In replay mode, dropping the last clone panics if a request was not
/// recorded or if a recorded exchange was not used. If the last clone may be dropped in a spawned
/// task, call [`verify`](Self::verify) in the test, because a panic in a task can go unnoticed.
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_testing::{Cassette, CassetteModel, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // Record once, with a real model, and save the text in a file beside the test.
/// let model = CassetteModel::record(ScriptedModel::new().reply_chunks(["It ", "is 42."]));
/// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
/// model.chat(&request).await?;
/// let text = model.recorded_text().unwrap();
///
/// // Replay the saved text in each test run.
/// let cassette: Cassette = text.parse()?;
/// let model = CassetteModel::replay(cassette);
/// assert_eq!(model.chat(&request).await?.message.text(), "It is 42.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CassetteModel {
    /// The model that replies to unrecorded requests. `None` in replay mode.
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    redaction: Redaction,
    tape: Arc<Tape>,
}

struct Tape {
    mode: CassetteMode,
    state: Mutex<TapeState>,
}

#[derive(Default)]
struct TapeState {
    /// The recorded exchanges that no request has used yet, each with its number (from 1) in the
    /// cassette.
    remaining: Vec<(usize, Exchange)>,
    /// The exchanges that were replayed or newly recorded, in the order of their requests. The
    /// reply of an exchange is empty while its request is in progress.
    exchanges: Vec<Exchange>,
    has_new: bool,
    /// The error messages of unrecorded requests. Only used in replay mode.
    unexpected: Vec<String>,
    /// `true` after a call to `verify`. Dropping the model then does not report the same mismatch
    /// again as a panic. A later unrecorded request clears the flag.
    is_reported: bool,
}

impl TapeState {
    /// Returns an error that describes the unrecorded requests or, if there are none, lists the
    /// unused exchanges. `None` if the requests match the cassette.
    fn find_mismatch(&self) -> Option<CassetteMismatch> {
        let unused: Vec<_> = self.remaining.iter().map(|(number, _)| number.to_string()).collect();
        if !self.unexpected.is_empty() {
            return Some(CassetteMismatch(self.unexpected.join("\n")));
        }
        let unused = (!unused.is_empty()).then(|| unused.join(", "));
        unused.map(|unused| CassetteMismatch(format!("exchange {unused} of the cassette was not requested")))
    }
}

/// The error returned by [`CassetteModel::verify`] if the requests of a replay differ from the
/// recorded requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CassetteMismatch(String);

impl CassetteModel {
    /// Creates a model that sends all requests to `model` and records them with their replies.
    pub fn record(model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Record, Cassette::new(), Some(Arc::new(model)))
    }

    /// Creates a model that replays `cassette`. Unrecorded requests fail.
    pub fn replay(cassette: Cassette) -> Self {
        Self::new(CassetteMode::Replay, cassette, None)
    }

    /// Creates a model that replays the exchanges of `cassette`. Requests that are not in the
    /// cassette are sent to `model` and recorded.
    pub fn auto(cassette: Cassette, model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Auto, cassette, Some(Arc::new(model)))
    }

    /// Creates a model that records or replays, according to `mode`. `recorded` is the text of the
    /// cassette, or `None` if there is no cassette yet. The function `model` creates the real
    /// model, and is not called in replay mode.
    ///
    /// The returned model does not access files. The caller reads the recorded text from a file,
    /// and writes the text that [`recorded_text`](Self::recorded_text) returns to that file.
    ///
    /// # Errors
    ///
    /// Returns an error if `recorded` is `None` in replay mode, if it is not a valid cassette, or
    /// if `model` returns an error. In the mode `record`, `recorded` is ignored.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::{fs, path::Path};
    ///
    /// use haft_testing::{CassetteMode, CassetteModel};
    /// # fn real_model() -> Result<haft_testing::TestModel, std::io::Error> { Ok(Default::default()) }
    ///
    /// let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes/sum.json");
    /// let recorded = fs::read_to_string(&path).ok();
    /// let model = CassetteModel::for_mode(CassetteMode::from_env()?, recorded.as_deref(), || real_model())?;
    /// // Run the test with a clone of the model, and then save the recording.
    /// if let Some(text) = model.recorded_text() {
    ///     fs::write(&path, text)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_mode<M: ChatModel + 'static, E: Into<BoxError>>(
        mode: CassetteMode,
        recorded: Option<&str>,
        model: impl FnOnce() -> Result<M, E>,
    ) -> Result<Self, CassetteError> {
        let model = || model().map_err(|error| CassetteError::CreateModel(error.into()));
        match (mode, recorded) {
            (CassetteMode::Replay, None) => Err(CassetteError::MissingCassette),
            (CassetteMode::Replay, Some(text)) => Ok(Self::replay(text.parse()?)),
            (CassetteMode::Auto, Some(text)) => Ok(Self::auto(text.parse()?, model()?)),
            (CassetteMode::Auto | CassetteMode::Record, _) => Ok(Self::record(model()?)),
        }
    }

    fn new(mode: CassetteMode, cassette: Cassette, model: Option<Arc<dyn ChatModel>>) -> Self {
        let recorded = cassette.profile;
        let profile = model.as_ref().map(|model| model.profile().clone()).or(recorded);
        let remaining = (1..).zip(cassette.exchanges).collect();
        let state = Mutex::new(TapeState { remaining, ..TapeState::default() });
        let profile = profile.unwrap_or_else(|| ModelProfile::new("cassette"));
        Self { model, profile, redaction: Redaction::default(), tape: Arc::new(Tape { mode, state }) }
    }

    /// Applies `change` to all strings in requests and replies before they are recorded or
    /// compared. The replies that the caller receives from the real model are not changed.
    ///
    /// Use it to remove secrets, paths and dates. If `change` modifies a text that is split between
    /// several events, the text is recorded as one event. Several functions are applied in the
    /// order in which they are added. Add them before the first request, and add the same functions
    /// for the replay.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_testing::{CassetteModel, TestModel};
    ///
    /// let model = CassetteModel::record(TestModel::new()).with_redaction(|text| text.replace("/home/ada", "~"));
    /// # drop(model);
    /// ```
    #[must_use]
    pub fn with_redaction(mut self, change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redaction.add(change);
        self
    }

    /// Returns the text of the new cassette, or `None` if there is no reason to save it: no request
    /// was recorded and, in the mode `auto`, every exchange of the old cassette was used. Always
    /// returns `None` in replay mode.
    pub fn recorded_text(&self) -> Option<String> {
        let state = self.tape.lock();
        let is_new = state.has_new || self.tape.mode == CassetteMode::Auto && !state.remaining.is_empty();
        let cassette = Cassette { profile: Some(self.profile.clone()), exchanges: state.exchanges.clone() };
        is_new.then(|| cassette.to_string())
    }

    /// Checks that the requests so far match the cassette: each request was recorded, and each
    /// recorded exchange was used.
    ///
    /// Always succeeds in the modes `record` and `auto`. After a call to `verify`, dropping the
    /// last clone panics only if a request after this call was not recorded.
    ///
    /// # Errors
    ///
    /// Returns an error with the differences of all unrecorded requests or, if there are none, with
    /// the numbers of the unused exchanges.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{ChatModel, Message, model::ChatRequest};
    /// use haft_testing::{CassetteModel, TestModel};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let request = ChatRequest::new([Message::user("Hi")]);
    /// let recorded = CassetteModel::record(TestModel::new());
    /// recorded.chat(&request).await?;
    ///
    /// let model = CassetteModel::replay(recorded.recorded_text().unwrap().parse()?);
    /// let worker = model.clone();
    /// tokio::spawn(async move { worker.chat(&request).await }).await??;
    /// model.verify()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self) -> Result<(), CassetteMismatch> {
        if self.tape.mode != CassetteMode::Replay {
            return Ok(());
        }
        let mut state = self.tape.lock();
        state.is_reported = true;
        state.find_mismatch().map_or(Ok(()), Err)
    }

    /// Selects the source of the reply to `request`: an unused exchange with an equal request or,
    /// if there is none, the real model. In replay mode, there is no real model, so an unrecorded
    /// request gets an error.
    fn take_reply_source(&self, request: &ChatRequest) -> ReplySource<'_> {
        let mut body = request.to_canonical_json();
        self.redaction.redact_value(&mut body);
        let mut state = self.tape.lock();
        let same = state.remaining.iter().position(|(_, exchange)| exchange.request == body);
        match (same, &self.model) {
            (Some(at), _) => {
                let (_, exchange) = state.remaining.remove(at);
                state.exchanges.push(exchange.clone());
                ReplySource::Tape(exchange.reply.into_scripted())
            }
            (None, Some(model)) => {
                state.has_new = true;
                state.exchanges.push(Exchange {
                    follows: None,
                    request: body,
                    reply: RecordedReply::default(),
                });
                let at = state.exchanges.len() - 1;
                ReplySource::Model(&**model, Box::new(ReplyRecorder::new(&self.tape, &self.redaction, at)))
            }
            (None, None) => {
                let problem = describe_unrecorded(&state, &body);
                state.unexpected.push(problem.clone());
                state.is_reported = false;
                ReplySource::Tape(ScriptedReply::Complete(Err(ModelError::failed(problem))))
            }
        }
    }
}

/// The source of the reply to a request: a recorded reply, an error for an unrecorded request, or
/// the real model with a recorder for its reply.
enum ReplySource<'m> {
    Tape(ScriptedReply),
    Model(&'m dyn ChatModel, Box<ReplyRecorder>),
}

/// Returns the error message for `request`, which was not recorded. The message lists the
/// differences between `request` and the most similar unused exchange, if there is one.
fn describe_unrecorded(state: &TapeState, request: &Value) -> String {
    let number = state.exchanges.len() + state.unexpected.len() + 1;
    let near =
        state.remaining.iter().map(|(of, exchange)| (of, find_differences(&exchange.request, request)));
    let remedy = format!(
        "\nif this is intended, record the cassette again with {}=record",
        CassetteMode::ENV_VARIABLE
    );
    match near.min_by_key(|(_, differences)| differences.len()) {
        None => format!("request {number} is not recorded, and all recorded exchanges were replayed{remedy}"),
        Some((of, differences)) => {
            let changes = describe_differences(&differences);
            format!("request {number} differs from exchange {of} of the cassette:{changes}{remedy}")
        }
    }
}

/// A recorder for the reply to one request. Dropping the recorder saves the reply in the [`Tape`],
/// even if the reply is incomplete because the caller dropped the request early.
struct ReplyRecorder {
    tape: Arc<Tape>,
    redaction: Redaction,
    exchange_index: usize,
    reply: RecordedReply,
}

impl ReplyRecorder {
    fn new(tape: &Arc<Tape>, redaction: &Redaction, exchange_index: usize) -> Self {
        let reply = RecordedReply { dropped: true, ..RecordedReply::default() };
        Self { tape: Arc::clone(tape), redaction: redaction.clone(), exchange_index, reply }
    }

    fn record_event(&mut self, event: &Result<ChatEvent, ModelError>) {
        match event {
            Ok(event) => {
                self.reply.dropped &= !matches!(event, ChatEvent::Finished(_));
                self.reply.events.push(event.clone());
            }
            Err(error) => (self.reply.error, self.reply.dropped) = (Some(error.into()), false),
        }
    }
}

impl Drop for ReplyRecorder {
    fn drop(&mut self) {
        let reply = self.redaction.redact_reply(std::mem::take(&mut self.reply));
        if let Some(exchange) = self.tape.lock().exchanges.get_mut(self.exchange_index) {
            exchange.reply = reply;
        }
    }
}

#[async_trait]
impl ChatModel for CassetteModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.take_reply_source(request) {
            ReplySource::Tape(reply) => reply.into_response().await,
            ReplySource::Model(model, mut recording) => {
                let reply = model.chat(request).await;
                recording.reply = RecordedReply::from_result(&reply);
                reply
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = stream::once(async move {
            match self.take_reply_source(request) {
                ReplySource::Tape(reply) => reply.into_stream(),
                ReplySource::Model(model, mut recording) => {
                    let events = model.stream(request).map(Some).chain(stream::once(async { None }));
                    let recorded = events.filter_map(move |event| {
                        match &event {
                            Some(event) => recording.record_event(event),
                            None => recording.reply.dropped = false,
                        }
                        async { event }
                    });
                    recorded.boxed()
                }
            }
        });
        events.flatten().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl Tape {
    fn lock(&self) -> MutexGuard<'_, TapeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.mode != CassetteMode::Replay || state.is_reported || std::thread::panicking() {
            return;
        }
        let problem = state.find_mismatch();
        assert!(problem.is_none(), "{}", problem.map(|it| it.to_string()).unwrap_or_default());
    }
}

impl fmt::Debug for CassetteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.tape.lock();
        write!(
            f,
            "CassetteModel({:?}, {} requests, {} left)",
            self.tape.mode,
            state.exchanges.len(),
            state.remaining.len()
        )
    }
}
