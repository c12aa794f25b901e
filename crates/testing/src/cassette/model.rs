use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;

use super::difference::{differences, told};
use super::exchange::{Exchange, Reply};
use super::redaction::Redaction;
use super::{Cassette, CassetteError, CassetteMode};
use crate::said::Said;
use haft_core::{
    ChatModel,
    call::BoxError,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};

/// A model whose conversation is recorded, or replayed: the same events in the same pieces.
///
/// Replaying, a request is answered by the first recorded one that is the same and was not asked for yet, so that runs may ask
/// side by side. One that is not recorded fails with what changed since. The last clone panics when it is dropped after such
/// a request, or with recorded ones that nobody asked for: a test that passes has asked what was recorded and no more. Where the last
/// clone is not the test's, as in a spawned task, whose panic may be seen by nobody, the test [verifies](Self::verify) it. Clones share
/// the cassette.
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
    /// Who is asked what is not recorded.
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    redaction: Redaction,
    tape: Arc<Tape>,
}

struct Tape {
    mode: CassetteMode,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was recorded before and was not asked for yet, each with its number.
    left: Vec<(usize, Exchange)>,
    /// What was asked, in order; a reply that is under way is empty.
    asked: Vec<Exchange>,
    is_changed: bool,
    /// Requests that are not recorded.
    unexpected: Vec<String>,
    /// Whether what is wrong was told.
    is_told: bool,
}

impl State {
    /// What was asked and is not recorded, or was not asked and is.
    fn problem(&self) -> Option<CassetteMismatch> {
        let left: Vec<_> = self.left.iter().map(|(number, _)| number.to_string()).collect();
        if !self.unexpected.is_empty() {
            return Some(CassetteMismatch(self.unexpected.join("\n")));
        }
        let left = (!left.is_empty()).then(|| left.join(", "));
        left.map(|left| {
            CassetteMismatch(format!("nobody asked what exchange {left} of the cassette is about"))
        })
    }
}

/// What a program asked is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CassetteMismatch(String);

impl CassetteModel {
    /// Asks a model, and records it.
    pub fn record(model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Record, Cassette::new(), Some(Arc::new(model)))
    }

    /// Asks no model.
    pub fn replay(cassette: Cassette) -> Self {
        Self::new(CassetteMode::Replay, cassette, None)
    }

    /// Asks a model what is not recorded, and records that.
    pub fn auto(cassette: Cassette, model: impl ChatModel + 'static) -> Self {
        Self::new(CassetteMode::Auto, cassette, Some(Arc::new(model)))
    }

    /// Does what the mode says with the text of a cassette, if there is one. The model is made only where it may be asked.
    ///
    /// This crate opens no file: the program reads the text, and writes [what was recorded](Self::recording).
    ///
    /// # Errors
    ///
    /// Fails when the text cannot be read, there is none to replay, or the model cannot be made.
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
    /// // The test, with a clone of the model; then:
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
        let left = (1..).zip(cassette.exchanges).collect();
        let state = Mutex::new(State { left, ..State::default() });
        let profile = profile.unwrap_or_else(|| ModelProfile::new("cassette"));
        Self { model, profile, redaction: Redaction::default(), tape: Arc::new(Tape { mode, state }) }
    }

    /// Changes every text of requests and replies before it is written down or compared: names, paths, the day of today.
    ///
    /// A text that comes in pieces is written down as one where the change concerns it: the pieces are not replayed as
    /// they came then. Set it before the first request, and the same when it is replayed.
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

    /// The text of the cassette, where there is something new to write.
    pub fn recording(&self) -> Option<String> {
        let state = self.tape.lock();
        let is_new = state.is_changed || self.tape.mode == CassetteMode::Auto && !state.left.is_empty();
        let cassette = Cassette { profile: Some((&self.profile).into()), exchanges: state.asked.clone() };
        is_new.then(|| cassette.to_string())
    }

    /// Says whether all that is recorded was asked for, and nothing else; always well where a model is asked what is not recorded. Then no
    /// clone panics when it is dropped, unless it is asked for something else.
    ///
    /// # Errors
    ///
    /// Fails with what changed since, or with what nobody asked for.
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
        state.is_told = true;
        state.problem().map_or(Ok(()), Err)
    }

    /// What is done with a request: a recorded reply, or a model that is to be asked.
    fn plan(&self, request: &ChatRequest) -> Plan<'_> {
        let mut asked = request.to_canonical_json();
        self.redaction.value(&mut asked);
        let mut state = self.tape.lock();
        let same = state.left.iter().position(|(_, exchange)| exchange.request == asked);
        match (same, &self.model) {
            (Some(at), _) => {
                let (_, exchange) = state.left.remove(at);
                state.asked.push(exchange.clone());
                Plan::Say(exchange.reply.said())
            }
            (None, Some(model)) => {
                state.is_changed = true;
                state.asked.push(Exchange { follows: None, request: asked, reply: Reply::default() });
                let at = state.asked.len() - 1;
                Plan::Ask(&**model, Box::new(Recording::new(&self.tape, &self.redaction, at)))
            }
            (None, None) => {
                let problem = unexpected(&state, &asked);
                state.unexpected.push(problem.clone());
                state.is_told = false;
                Plan::Say(Said::Reply(Err(ModelError::failed(problem))))
            }
        }
    }
}

enum Plan<'m> {
    Say(Said),
    Ask(&'m dyn ChatModel, Box<Recording>),
}

/// Says what changed since the recording, by the recorded request that is most like this one.
fn unexpected(state: &State, asked: &Value) -> String {
    let number = state.asked.len() + state.unexpected.len() + 1;
    let near = state.left.iter().map(|(of, exchange)| (of, differences(&exchange.request, asked)));
    let remedy = format!("\nif that is meant, record it anew with {}=record", CassetteMode::VARIABLE);
    match near.min_by_key(|(_, differences)| differences.len()) {
        None => format!("request {number} is not recorded: all that is was asked for{remedy}"),
        Some((of, differences)) => {
            let told = told(&differences);
            format!(
                "request {number} is not the recorded one; what changed since exchange {of} of the cassette:{told}{remedy}"
            )
        }
    }
}

/// Writes down a reply as it comes, also where it is dropped before its end.
struct Recording {
    tape: Arc<Tape>,
    redaction: Redaction,
    at: usize,
    reply: Reply,
}

impl Recording {
    fn new(tape: &Arc<Tape>, redaction: &Redaction, at: usize) -> Self {
        let reply = Reply { dropped: true, ..Reply::default() };
        Self { tape: Arc::clone(tape), redaction: redaction.clone(), at, reply }
    }

    fn hear(&mut self, event: &Result<ChatEvent, ModelError>) {
        match event {
            Ok(event) => {
                self.reply.dropped &= !matches!(event, ChatEvent::Finished(_));
                self.reply.events.push(event.clone());
            }
            Err(error) => (self.reply.error, self.reply.dropped) = (Some(error.into()), false),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let reply = self.redaction.reply(std::mem::take(&mut self.reply));
        if let Some(exchange) = self.tape.lock().asked.get_mut(self.at) {
            exchange.reply = reply;
        }
    }
}

#[async_trait]
impl ChatModel for CassetteModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.plan(request) {
            Plan::Say(said) => said.whole().await,
            Plan::Ask(model, mut recording) => {
                let reply = model.chat(request).await;
                recording.reply = Reply::whole(&reply);
                reply
            }
        }
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let asked = stream::once(async move {
            match self.plan(request) {
                Plan::Say(said) => said.stream(),
                Plan::Ask(model, mut recording) => {
                    let events = model.stream(request).map(Some).chain(stream::once(async { None }));
                    let heard = events.filter_map(move |event| {
                        match &event {
                            Some(event) => recording.hear(event),
                            None => recording.reply.dropped = false,
                        }
                        async { event }
                    });
                    heard.boxed()
                }
            }
        });
        asked.flatten().boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

impl Tape {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.mode != CassetteMode::Replay || state.is_told || std::thread::panicking() {
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
            "CassetteModel({:?}, {} asked, {} left)",
            self.tape.mode,
            state.asked.len(),
            state.left.len()
        )
    }
}
