//! Tests of panics in host code. A panic ends the run with a typed error. The error contains the
//! transcript, but not the panic message.

use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use haft_core::{
    ChatModel, Message, RunInput, Schema, Tool, ToolContext, ToolDefinition, ToolName, Toolset,
    agent::{AgentError, AgentErrorKind},
    export::async_trait,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    text::ErrorChain,
    tool::{DynamicTool, Progress, ProgressSink, RunContext},
    toolset::ToolsetError,
};
use haft_middleware::ModelMiddleware as _;
use haft_react::{
    AgentBuildError, Dialect, NativeCalls, ReactAgent, Router,
    dialect::{Prompt, Reply, ReplyDelta, StreamParser},
    router::{Classifier, ModelClassifier, Route, RouteChoice, RouteTable},
};
use haft_testing::ScriptedModel;

use crate::tools::calculator;

/// The point at which a [`PanickingModel`] panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    /// The call of `chat` or `stream`, before their future or stream exists.
    Call,
    /// The first poll.
    Poll,
    /// The poll after the first event of a stream.
    SecondEvent,
    Profile,
}

struct PanickingModel {
    point: Point,
    profile: ModelProfile,
}

fn panicking_model(point: Point) -> PanickingModel {
    PanickingModel { point, profile: ModelProfile::new("panicking") }
}

#[expect(clippy::panic, reason = "the model has to panic")]
fn panic_with_a_secret<T>() -> T {
    panic!("with a secret")
}

impl ChatModel for PanickingModel {
    // Without `async_trait`, so that the method can panic before it returns the future.
    fn chat<'a, 'b, 'c>(
        &'a self,
        _: &'b ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        match self.point {
            Point::Call => panic_with_a_secret(),
            Point::Profile => async { Ok(ChatResponse::new("Fine.")) }.boxed(),
            _ => async { panic_with_a_secret() }.boxed(),
        }
    }

    fn stream<'a>(&'a self, _: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let first = Ok(ChatEvent::TextDelta { text: "I ".to_owned() });
        match self.point {
            Point::Call => panic_with_a_secret(),
            Point::Profile => stream::iter(ChatResponse::new("Fine.").into_events().map(Ok)).boxed(),
            Point::Poll => stream::once(async { panic_with_a_secret() }).boxed(),
            Point::SecondEvent => {
                stream::iter([first]).chain(stream::once(async { panic_with_a_secret() })).boxed()
            }
        }
    }

    fn profile(&self) -> &ModelProfile {
        if self.point == Point::Profile { panic_with_a_secret() } else { &self.profile }
    }
}

/// Runs `agent` with [`Agent::run`] or [`Agent::stream`], and returns the error.
async fn run_error(agent: &ReactAgent, streams: bool) -> AgentError {
    if streams {
        let events = agent.stream("Go.").collect::<Vec<_>>().await;
        events.into_iter().find_map(Result::err).unwrap()
    } else {
        agent.run("Go.").await.unwrap_err()
    }
}

/// Asserts that `error` contains the input in its transcript, and no text of a panic.
#[track_caller]
fn assert_contained(error: &AgentError) {
    assert_eq!(error.transcript.messages().first().unwrap().text(), "Go.");
    assert!(!text(error).contains("secret"), "{error:?}");
}

fn text(error: &(impl std::error::Error + 'static)) -> String {
    format!("{error} {:?} {}", error as &dyn Debug, ErrorChain(error))
}

/// A model that panics ends the run with a typed error. The request is not repeated, and the
/// transcript is kept.
#[tokio::test]
async fn panic_of_a_model_is_a_model_error() {
    for point in [Point::Call, Point::Poll, Point::SecondEvent] {
        for streams in [false, true] {
            let agent = ReactAgent::new(panicking_model(point), calculator()).unwrap();
            let error = run_error(&agent, streams).await;
            assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::Panicked)), "{error:?}");
            assert_eq!((error.usage.requests, error.usage.total_tokens()), (1, 0));
            assert_contained(&error);
        }
    }
}

/// With a fallback model, the next model replies. A panic after the first event of a stream is an
/// error, as for other errors at this point.
#[tokio::test]
async fn fallback_model_replies_after_a_panic() {
    for point in [Point::Call, Point::Poll, Point::SecondEvent] {
        for streams in [false, true] {
            let has_begun = streams && point == Point::SecondEvent;
            let next = ScriptedModel::new();
            let next = if has_begun { next } else { next.reply_text("Fine.") };
            let model = panicking_model(point).with_fallback(next);
            let agent = ReactAgent::new(model, calculator()).unwrap();
            if has_begun {
                assert_contained(&run_error(&agent, true).await);
                continue;
            }
            let answer = if streams {
                let output = agent.stream("Go.").map(Result::unwrap).collect::<Vec<_>>().await.pop();
                serde_json::to_value(output.unwrap()).unwrap().to_string()
            } else {
                agent.run("Go.").await.unwrap().text().unwrap().to_owned()
            };
            assert!(answer.contains("Fine."), "{answer}");
        }
    }
}

/// A model whose profile panics: the builder fails if it needs the profile, and a run does not need
/// it.
#[tokio::test]
async fn panic_of_a_profile_is_contained() {
    let error = ReactAgent::new(panicking_model(Point::Profile), calculator()).unwrap_err();
    assert!(matches!(error, AgentBuildError::Panicked { method: "ChatModel::profile" }), "{error:?}");
    assert!(!text(&error).contains("secret"));
    let agent = ReactAgent::builder(panicking_model(Point::Profile)).dialect(NativeCalls).build().unwrap();
    assert_eq!(agent.run("Go.").await.unwrap().text().unwrap(), "Fine.");
    assert!(agent.stream("Go.").all(|event| async move { event.is_ok() }).await);
}

/// A compactor that panics has failed, and the run continues with a shortened conversation.
#[tokio::test]
async fn panic_of_a_compactor_is_a_failed_summary() {
    for point in [Point::Call, Point::Poll, Point::Profile] {
        let call = |id: &'static str| [(id, "add", r#"{"x":1,"y":1}"#)];
        let too_long = ModelError::ContextTooLong("too long".to_owned());
        let model = ScriptedModel::new().reply_calls(call("a")).reply_calls(call("b")).fail(too_long);
        let model = model.reply_text("Done.");
        let agent = ReactAgent::builder(model.clone()).tools(calculator());
        let agent = agent.compactor(panicking_model(point)).build().unwrap();
        assert_eq!(agent.run("Go.").await.unwrap().text().unwrap(), "Done.");
        let lengths: Vec<_> = model.requests().iter().map(|request| request.messages.len()).collect();
        assert!(lengths.last() < lengths.iter().rev().nth(1), "{lengths:?}");
    }
}

/// The point at which a [`PanickingDialect`] panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    BuildRequest,
    ParseReply,
    StreamParser,
    Push,
    ReservedName,
    Fallback,
    ReadsWrittenCalls,
}

struct PanickingDialect(Method);

impl PanickingDialect {
    fn panic_in(&self, method: Method) {
        if self.0 == method {
            panic_with_a_secret::<()>();
        }
    }
}

impl Dialect for PanickingDialect {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        self.panic_in(Method::BuildRequest);
        NativeCalls.build_request(prompt)
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        self.panic_in(Method::ParseReply);
        NativeCalls.parse_reply(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        self.panic_in(Method::StreamParser);
        let inner = NativeCalls.stream_parser(outputs);
        Box::new(PanickingParser { inner, panics: self.0 == Method::Push })
    }

    fn reserved_name(&self, outputs: Option<&Schema>) -> Option<&'static str> {
        self.panic_in(Method::ReservedName);
        NativeCalls.reserved_name(outputs)
    }

    fn fallback(&self) -> Option<&dyn Dialect> {
        self.panic_in(Method::Fallback);
        None
    }

    fn reads_written_calls(&self) -> bool {
        self.panic_in(Method::ReadsWrittenCalls);
        false
    }
}

struct PanickingParser {
    inner: Box<dyn StreamParser>,
    panics: bool,
}

impl StreamParser for PanickingParser {
    fn push(&mut self, event: &ChatEvent) -> Vec<ReplyDelta> {
        if self.panics { panic_with_a_secret() } else { self.inner.push(event) }
    }
}

/// A dialect that panics ends the run with a typed error that names the method.
#[tokio::test]
async fn panic_of_a_dialect_names_the_method() {
    let agent = |method, streams: bool| {
        let model = match method {
            Method::ParseReply | Method::Push => ScriptedModel::new().reply_text("Fine."),
            Method::ReadsWrittenCalls if !streams => ScriptedModel::new().reply_text("{}"),
            _ => ScriptedModel::new(),
        };
        ReactAgent::builder(model).tools(calculator()).dialect(PanickingDialect(method)).build()
    };
    for (method, streams, name) in [
        (Method::BuildRequest, false, "`Dialect::build_request` panicked"),
        (Method::BuildRequest, true, "`Dialect::build_request` panicked"),
        (Method::ParseReply, false, "`Dialect::parse_reply` panicked"),
        (Method::ParseReply, true, "`Dialect::parse_reply` panicked"),
        (Method::StreamParser, true, "`Dialect::stream_parser` panicked"),
        (Method::Push, true, "`StreamParser::push` panicked"),
        (Method::Fallback, false, "`Dialect::fallback` panicked"),
        (Method::Fallback, true, "`Dialect::fallback` panicked"),
        (Method::ReadsWrittenCalls, false, "`Dialect::reads_written_calls` panicked"),
        (Method::ReadsWrittenCalls, true, "`Dialect::reads_written_calls` panicked"),
    ] {
        let error = run_error(&agent(method, streams).unwrap(), streams).await;
        let AgentErrorKind::HookFailed { hook: "dialect", source } = &*error.kind else {
            panic!("{error:?}")
        };
        assert_eq!(source.to_string(), name);
        assert_contained(&error);
    }
    let error = agent(Method::ReservedName, false).unwrap_err();
    assert_eq!(error.to_string(), "`Dialect::reserved_name` panicked");
}

struct PanickingClassifier;

#[async_trait]
impl Classifier for PanickingClassifier {
    async fn classify(&self, _: &RouteTable, _: &[Arc<Message>]) -> Result<RouteChoice, AgentError> {
        panic_with_a_secret()
    }
}

/// A classifier of a router that panics, and a model of a classifier that panics.
#[tokio::test]
async fn panic_of_a_classifier_ends_the_task() {
    let agent = || ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let router =
        || Router::new(RouteTable::new([Route::new("only", "all tasks")]), [("only", agent())]).unwrap();
    let error = router().with_classifier(PanickingClassifier).run("Go.").await.unwrap_err();
    let AgentErrorKind::HookFailed { hook: "classifier", source } = &*error.kind else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "`Classifier::classify` panicked");
    assert_contained(&error);
    for point in [Point::Call, Point::Poll, Point::Profile] {
        let classifier = ModelClassifier::new(panicking_model(point));
        let error = router().with_classifier(classifier).run("Go.").await.unwrap_err();
        assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::Panicked)), "{error:?}");
        assert_contained(&error);
    }
}

/// A progress sink that panics loses its reports. The call succeeds.
#[tokio::test]
async fn panic_of_a_progress_sink_loses_the_report() {
    struct PanickingSink;

    impl ProgressSink for PanickingSink {
        fn report(&self, _: &str, _: Progress) {
            panic_with_a_secret::<()>();
        }
    }

    let definition = ToolDefinition::new(ToolName::new("work").unwrap(), Schema::object());
    let work = DynamicTool::new(definition, |_, cx: ToolContext| async move {
        cx.report_progress(Progress::default());
        "done"
    });
    let model = ScriptedModel::new().reply_calls([("a", "work", "{}")]).reply_with(|request| {
        let last = request.messages.iter().last().map(|message| message.text());
        Ok(ChatResponse::new(last.unwrap_or_default()))
    });
    let agent = ReactAgent::new(model, Toolset::new().with_tool(work)).unwrap();
    let context = RunContext { progress: Some(Arc::new(PanickingSink)), ..RunContext::default() };
    let output = agent.run(RunInput::new("Go.").with_context(context)).await.unwrap();
    assert_eq!(output.text().unwrap(), "done");
}

/// An adaptor of an extension that panics is an error of the builder.
#[test]
fn panic_of_an_adaptor_is_a_build_error() {
    let extension = haft_react::Extension::new("broken").adapt_tools(|_| panic_with_a_secret());
    let build = || ReactAgent::builder(ScriptedModel::new()).extension(extension).build();
    let error = catch_unwind(AssertUnwindSafe(build)).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "`Extension::adapt_tools` panicked");
}

/// A closure that adapts static tools and panics is an error of the build, without its message.
#[test]
fn panic_of_a_tool_adaptor_is_a_build_error() {
    let adapted: [fn(Toolset) -> Toolset; 4] = [
        |tools| tools.filtered(|_| panic_with_a_secret()),
        |tools| tools.approval_required(|_| panic_with_a_secret()),
        |tools| tools.external(|_| panic_with_a_secret()),
        |tools| tools.adapted(|_: &Arc<dyn Tool>| panic_with_a_secret()),
    ];
    for adapt in adapted {
        for tools in [adapt(calculator()), Toolset::new().combined(adapt(calculator())).prefixed("a_")] {
            let error = ToolsetError::AdaptorPanicked { label: "the toolset".to_owned() };
            assert_eq!(tools.check(), Err(error));
            let error = ReactAgent::new(ScriptedModel::new(), tools).unwrap_err();
            assert_eq!(error.to_string(), "an adaptor of the toolset panicked");
        }
    }
}
