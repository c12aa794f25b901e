use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;

use super::difference::{describe, differences};
use super::exchange::{Exchange, RecordedReply};
use super::redaction::Redaction;
use super::{Cassette, CassetteError, CassetteMode};
use crate::scripted_reply::ScriptedReply;
use haft_core::{
    ChatModel,
    call::BoxError,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

/// A model that records a conversation with another model, or replays it event by event.
///
/// # Replay
///
/// A request gets the reply of the first equal and unused recorded request. The order of requests
/// does not matter, so concurrent runs can be replayed. An unrecorded request fails with its
/// differences to the most similar recorded one.
///
/// Clones share the cassette. When the last clone is dropped, it panics if a request was not
/// recorded, or if recorded exchanges were not requested. A panic in a spawned task can go
/// unnoticed: if the last clone may be dropped there, call [`verify`](Self::verify) in the test.
///
/// # Examples
///
/// ```
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_testing::{Cassette, CassetteModel, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // Once, with a real model; the text goes to a file beside the test.
/// let model = CassetteModel::record(ScriptedModel::new().chunks(["It ", "is 42."]));
/// let request = ChatRequest::new([Message::user("What is 17 plus 25?")]);
/// model.chat(&request).await?;
/// let text = model.recording().unwrap();
///
/// // From then on.
/// let cassette: Cassette = text.parse()?;
/// let model = CassetteModel::replay(cassette);
/// assert_eq!(model.chat(&request).await?.message.text(), "It is 42.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CassetteModel {
    /// The model for unrecorded requests.
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
    /// Unused recorded exchanges, with their numbers.
    remaining: Vec<(usize, Exchange)>,
    /// Exchanges of this run, in order. The reply is empty while it is in progress.
    exchanges: Vec<Exchange>,
    has_new: bool,
    /// Error messages of unrecorded requests.
    unexpected: Vec<String>,
    /// Set by `verify`: the panic on drop would repeat its error.
    is_reported: bool,
}

impl TapeState {
    /// The mismatch between the requests and the cassette, if there is one.
    fn problem(&self) -> Option<CassetteMismatch> {
        let unused: Vec<_> = self.remaining.iter().map(|(number, _)| number.to_string()).collect();
        if !self.unexpected.is_empty() {
            return Some(CassetteMismatch(self.unexpected.join("\n")));
        }
        let unused = (!unused.is_empty()).then(|| unused.join(", "));
        unused.map(|unused| CassetteMismatch(format!("exchange {unused} of the cassette was not requested")))
    }
}

/// The requests of a program differ from the recorded ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CassetteMismatch(String);

impl CassetteModel {
    /// Records all requests to a model.
    pub fn record(model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Record, Cassette::new(), Some(Arc::new(model)))
    }

    /// Replays a cassette without a model.
    pub fn replay(cassette: Cassette) -> Self {
        Self::new(CassetteMode::Replay, cassette, None)
    }

    /// Replays recorded requests, and records other requests to a model.
    pub fn auto(cassette: Cassette, model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Auto, cassette, Some(Arc::new(model)))
    }

    /// Records or replays, according to the mode. `model` is called only if the mode needs a model.
    ///
    /// This crate opens no files: the program reads the text of the cassette and writes
    /// [`recording`](Self::recording).
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a valid cassette, if the mode is `replay` and there is
    /// no text, or if the model cannot be created.
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
    /// let model = CassetteModel::open(CassetteMode::from_env()?, recorded.as_deref(), || real_model())?;
    /// // Run the test with a clone of the model. Then:
    /// if let Some(text) = model.recording() {
    ///     fs::write(&path, text)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open<M: ChatModel + 'static, E: Into<BoxError>>(
        mode: CassetteMode,
        recorded: Option<&str>,
        model: impl FnOnce() -> Result<M, E>,
    ) -> Result<Self, CassetteError> {
        let model = || model().map_err(|error| CassetteError::Model(error.into()));
        match (mode, recorded) {
            (CassetteMode::Replay, None) => Err(CassetteError::Missing),
            (CassetteMode::Replay, Some(text)) => Ok(Self::replay(text.parse()?)),
            (CassetteMode::Auto, Some(text)) => Ok(Self::auto(text.parse()?, model()?)),
            (CassetteMode::Auto | CassetteMode::Record, _) => Ok(Self::record(model()?)),
        }
    }

    fn new(mode: CassetteMode, cassette: Cassette, model: Option<Arc<dyn ChatModel>>) -> Self {
        let recorded = cassette.profile.map(ModelProfile::from);
        let profile = model.as_ref().map(|model| model.profile().clone()).or(recorded);
        let remaining = (1..).zip(cassette.exchanges).collect();
        let state = Mutex::new(TapeState { remaining, ..TapeState::default() });
        let profile = profile.unwrap_or_else(|| ModelProfile::new("cassette"));
        Self { model, profile, redaction: Redaction::default(), tape: Arc::new(Tape { mode, state }) }
    }

    /// Applies a function to all texts of requests and replies before they are recorded or
    /// compared.
    ///
    /// Use it to remove secrets, paths and dates. If it changes a text that spans several events,
    /// the text is recorded as one event. Add the functions before the first request, and use the
    /// same functions for the replay.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_testing::{CassetteModel, TestModel};
    ///
    /// let model = CassetteModel::record(TestModel::new()).redacting(|text| text.replace("/home/ada", "~"));
    /// # drop(model);
    /// ```
    #[must_use]
    pub fn redacting(mut self, change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redaction.add(change);
        self
    }

    /// Returns the text of the cassette if it has changed, otherwise `None`.
    pub fn recording(&self) -> Option<String> {
        let state = self.tape.lock();
        let is_new = state.has_new || self.tape.mode == CassetteMode::Auto && !state.remaining.is_empty();
        let cassette = Cassette { profile: Some((&self.profile).into()), exchanges: state.exchanges.clone() };
        is_new.then(|| cassette.to_string())
    }

    /// Checks that the requests match the cassette: all exchanges are used, and no request was
    /// unrecorded.
    ///
    /// Always succeeds in the modes `record` and `auto`. After a check, dropping the model panics
    /// only for later unrecorded requests.
    ///
    /// # Errors
    ///
    /// Returns the unrecorded requests with their differences, or else the unused exchanges.
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
    /// let model = CassetteModel::replay(recorded.recording().unwrap().parse()?);
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
        state.problem().map_or(Ok(()), Err)
    }

    /// Finds a recorded reply, or starts to record a reply of the model.
    fn reply_source(&self, request: &ChatRequest) -> ReplySource<'_> {
        let mut body = request.to_canonical_json();
        self.redaction.value(&mut body);
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
                ReplySource::Model(&**model, Box::new(ReplyRecording::new(&self.tape, &self.redaction, at)))
            }
            (None, None) => {
                let problem = unexpected(&state, &body);
                state.unexpected.push(problem.clone());
                state.is_reported = false;
                ReplySource::Tape(ScriptedReply::Complete(Err(ModelError::failed(problem))))
            }
        }
    }
}

enum ReplySource<'m> {
    Tape(ScriptedReply),
    Model(&'m dyn ChatModel, Box<ReplyRecording>),
}

/// Describes the differences to the most similar recorded request.
fn unexpected(state: &TapeState, request: &Value) -> String {
    let number = state.exchanges.len() + state.unexpected.len() + 1;
    let near = state.remaining.iter().map(|(of, exchange)| (of, differences(&exchange.request, request)));
    let remedy =
        format!("\nif this is intended, record the cassette again with {}=record", CassetteMode::VARIABLE);
    match near.min_by_key(|(_, differences)| differences.len()) {
        None => format!("request {number} is not recorded, and all recorded exchanges were replayed{remedy}"),
        Some((of, differences)) => {
            let changes = describe(&differences);
            format!("request {number} differs from exchange {of} of the cassette:{changes}{remedy}")
        }
    }
}

/// A reply in progress. It is recorded on drop, so a dropped request is recorded too.
struct ReplyRecording {
    tape: Arc<Tape>,
    redaction: Redaction,
    at: usize,
    reply: RecordedReply,
}

impl ReplyRecording {
    fn new(tape: &Arc<Tape>, redaction: &Redaction, at: usize) -> Self {
        let reply = RecordedReply { dropped: true, ..RecordedReply::default() };
        Self { tape: Arc::clone(tape), redaction: redaction.clone(), at, reply }
    }

    fn push(&mut self, event: &Result<ChatEvent, ModelError>) {
        match event {
            Ok(event) => {
                self.reply.dropped &= !matches!(event, ChatEvent::Finished(_));
                self.reply.events.push(event.clone());
            }
            Err(error) => (self.reply.error, self.reply.dropped) = (Some(error.into()), false),
        }
    }
}

impl Drop for ReplyRecording {
    fn drop(&mut self) {
        let reply = self.redaction.reply(std::mem::take(&mut self.reply));
        if let Some(exchange) = self.tape.lock().exchanges.get_mut(self.at) {
            exchange.reply = reply;
        }
    }
}

#[async_trait]
impl ChatModel for CassetteModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.reply_source(request) {
            ReplySource::Tape(reply) => reply.into_response().await,
            ReplySource::Model(model, mut recording) => {
                let reply = model.chat(request).await;
                recording.reply = RecordedReply::whole(&reply);
                reply
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let events = stream::once(async move {
            match self.reply_source(request) {
                ReplySource::Tape(reply) => reply.into_stream(),
                ReplySource::Model(model, mut recording) => {
                    let events = model.stream(request).map(Some).chain(stream::once(async { None }));
                    let recorded = events.filter_map(move |event| {
                        match &event {
                            Some(event) => recording.push(event),
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
        let problem = state.problem();
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
