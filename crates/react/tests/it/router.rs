//! Tests of routers.

use expect_test::expect;
use futures::{StreamExt as _, stream::BoxStream};
use haft_core::{
    Agent, ChatModel, Message, RunEvent, RunInput, RunOutput, ToolCall, Toolset, Transcript,
    agent::{AgentErrorKind, RunStart, StopReason},
    call::{Decision, Decisions},
    export::async_trait,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile, ResponseFormat},
};
use haft_react::{
    ReactAgent, Router,
    router::{Keyword, ModelClassifier, Route, RouteTable, RouteTableError},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::pairing::message_lines;

fn table() -> RouteTable {
    RouteTable::new([
        Route::new("architecture", "a diagram of the architecture")
            .with_keywords(["architecture", "component*"]),
        Route::new("sequence", "a sequence diagram").with_keywords(["sequence", "who calls whom"]),
    ])
}

/// Creates a router with the agents `architecture` and `sequence`, which use the given scripted
/// models.
fn router(architecture: &ScriptedModel, sequence: &ScriptedModel) -> Router {
    let agent = |model: &ScriptedModel| ReactAgent::new(model.clone(), Toolset::new()).unwrap();
    Router::new(table(), [("architecture", agent(architecture)), ("sequence", agent(sequence))]).unwrap()
}

async fn events(agent: &impl Agent, input: impl Into<RunInput>) -> Vec<RunEvent> {
    agent.stream(input.into()).map(Result::unwrap).collect().await
}

/// Formats the routing decision, the stop reason and the answer of a run as text.
fn decision_and_answer(events: &[RunEvent]) -> String {
    let Some(RunEvent::Routed { route, reason }) = events.first() else { panic!("{events:?}") };
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = events.last() else {
        panic!("{events:?}")
    };
    format!("{route:?}: {reason}\n{:?}: {}", answer.stop_reason, answer.text)
}

fn transcript(events: &[RunEvent]) -> Transcript {
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = events.last() else {
        panic!("{events:?}")
    };
    answer.transcript.clone()
}

/// The route with the highest score is selected. The reason lists the keywords that were found.
#[tokio::test]
async fn highest_keyword_score_selects_the_route_with_a_reason() {
    let (architecture, sequence) =
        (ScriptedModel::new().reply_text("[]").reply_text("[]"), ScriptedModel::new().reply_text("->>"));
    let router = router(&architecture, &sequence);
    expect![[r#"
        Some("architecture"): architecture has 1 by "architecture"
        Finished: []"#]]
    .assert_eq(&decision_and_answer(&events(&router, "Draw my ARCHITECTURE, please.").await));
    expect![[r#"
        Some("sequence"): sequence has 2 by "sequence", "who calls whom"; before architecture has 1 by "component*"
        Finished: ->>"#]]
        .assert_eq(&decision_and_answer(&events(&router, "The components, and who calls\nwhom in a sequence?").await));
    let near = "An architectures diagram of a component-like subsequence.";
    expect![[r#"
        Some("architecture"): architecture has 1 by "component*"
        Finished: []"#]]
    .assert_eq(&decision_and_answer(&events(&router, near).await));
}

/// If no route matches, or if several routes have the highest score, the answer is a clarifying
/// question. The user's reply is classified alone, and if it is unclear, together with the first
/// message.
#[tokio::test]
async fn unclear_request_is_answered_with_a_question() {
    let (architecture, sequence) =
        (ScriptedModel::new(), ScriptedModel::new().reply_text("->>").reply_text("->>"));
    let router = router(&architecture, &sequence);
    let clarification = events(&router, "Draw something.").await;
    expect![[r#"
        None: no keyword of a route was found
        Clarification: Do you want a diagram of the architecture or a sequence diagram?"#]]
    .assert_eq(&decision_and_answer(&clarification));
    let tie = events(&router, "A sequence of components").await;
    expect![[r#"
        None: equal: architecture has 1 by "component*"; sequence has 1 by "sequence"
        Clarification: Do you want a diagram of the architecture or a sequence diagram?"#]]
    .assert_eq(&decision_and_answer(&tie));

    let next = RunInput::new("The sequence one.").with_history(transcript(&clarification));
    expect![[r#"
        Some("sequence"): sequence has 1 by "sequence"
        Finished: ->>"#]]
    .assert_eq(&decision_and_answer(&events(&router, next).await));
    expect![[r#"
        user: Draw something.
        assistant: Do you want a diagram of the architecture or a sequence diagram?
        user: The sequence one.
    "#]]
    .assert_eq(&message_lines(&sequence.requests()[0]));
    let next = events(&router, RunInput::new("Hm.").with_history(transcript(&tie))).await;
    assert!(decision_and_answer(&next).contains("equal"));
    let next = events(&router, RunInput::new("The sequence.").with_history(transcript(&next))).await;
    assert!(decision_and_answer(&next).starts_with("Some(\"sequence\")"), "{}", decision_and_answer(&next));
    // A finished task has no influence on the route of the next task.
    let next = events(&router, RunInput::new("Thanks.").with_history(transcript(&next))).await;
    assert!(decision_and_answer(&next).starts_with("None: no keyword"), "{}", decision_and_answer(&next));
}

#[tokio::test]
async fn fallback_runs_for_an_unclear_request() {
    let fallback = ScriptedModel::new().reply_text("I do all else.");
    let router = router(&ScriptedModel::new(), &ScriptedModel::new())
        .with_fallback(ReactAgent::new(fallback, Toolset::new()).unwrap());
    expect![[r#"
        None: no keyword of a route was found
        Finished: I do all else."#]]
    .assert_eq(&decision_and_answer(&events(&router, "Hello").await));
}

/// The model can choose only existing routes, or no route. After an invalid reply, the model
/// request is repeated once.
#[tokio::test]
async fn classifier_chooses_an_existing_route() {
    let classifier = ScriptedModel::new()
        .reply_text(r#"{"reason": "boxes", "route": "architecture"}"#)
        .reply_text("Architecture, I think.")
        .reply_text(r#"{"reason": "who knows", "route": "diagram"}"#)
        .reply_text(r#"{"reason": "nothing is said", "route": "unclear"}"#);
    let router = router(&ScriptedModel::new().reply_text("[]"), &ScriptedModel::new())
        .with_classifier(ModelClassifier::new(classifier.clone()));

    let first = events(&router, "Boxes and arrows").await;
    expect![[r#"
        Some("architecture"): boxes
        Finished: []"#]]
    .assert_eq(&decision_and_answer(&first));
    let requests = classifier.requests();
    let ResponseFormat::JsonSchema { schema, .. } = &requests[0].response_format else { panic!() };
    assert!(schema.is_valid(&json!({"reason": "", "route": "sequence"})));
    assert!(!schema.is_valid(&json!({"reason": "", "route": "others"})));
    expect![[r#"
        Decide who is to do what the user wants. Do not do it yourself. These can be chosen:
        - architecture: a diagram of the architecture
        - sequence: a sequence diagram
        - unclear: it is not clear which of them is meant
        Reply with one JSON object of this schema: {"type":"object","properties":{"reason":{"type":"string"},"route":{"type":"string","enum":["architecture","sequence","unclear"]}},"required":["reason","route"],"additionalProperties":false}"#]].assert_eq(&requests[0].instructions.as_ref().unwrap().text());

    // The second reply is also invalid, so no route is chosen.
    expect![[r#"
        None: the model chose an unknown route
        Clarification: Do you want a diagram of the architecture or a sequence diagram?"#]]
    .assert_eq(&decision_and_answer(&events(&router, "Draw").await));
    expect![[r#"
        user: Draw
        assistant: Architecture, I think.
        user: Reply with one JSON object of this schema: {"type":"object","properties":{"reason":{"type":"string"},"route":{"type":"string","enum":["architecture","sequence","unclear"]}},"required":["reason","route"],"additionalProperties":false}
    "#]].assert_eq(&message_lines(&classifier.requests()[2]));
    expect![[r#"
        None: nothing is said
        Clarification: Do you want a diagram of the architecture or a sequence diagram?"#]]
    .assert_eq(&decision_and_answer(&events(&router, "Draw").await));
}

#[tokio::test]
async fn classifier_works_without_structured_output() {
    let profile = ModelProfile { supports_json_schema: false, ..ModelProfile::new("plain") };
    let classifier = ScriptedModel::new()
        .with_profile(profile)
        .reply_text("Sure: {\"route\": \"sequence\", \"reason\": \"calls\"}.");
    let router = router(&ScriptedModel::new(), &ScriptedModel::new().reply_text("->>"))
        .with_classifier(ModelClassifier::new(classifier.clone()));
    let events = events(&router, "Who calls?").await;
    expect![[r#"
        Some("sequence"): calls
        Finished: ->>"#]]
    .assert_eq(&decision_and_answer(&events));
    let Some(RunEvent::Done { output: RunOutput::Answer(answer) }) = events.last() else { panic!() };
    assert_eq!(answer.usage.requests, 2);
    assert_eq!(classifier.requests()[0].response_format, ResponseFormat::Text);
}

/// A model whose `stream` method panics.
struct NoStreaming(ScriptedModel);

#[async_trait]
impl ChatModel for NoStreaming {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, _: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        panic!("the request must not be streamed")
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

/// `Router::run` emits no events, so it must not stream replies from the models.
#[tokio::test]
async fn run_without_a_stream_does_not_stream() {
    let choice = r#"{"reason": "calls", "route": "sequence"}"#;
    let model = ScriptedModel::new().reply_text("->>").fail(ModelError::Unauthorized("no".to_owned()));
    let agent = ReactAgent::new(NoStreaming(model), Toolset::new()).unwrap();
    let unused = ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let router = Router::new(table(), [("sequence", agent), ("architecture", unused)]).unwrap();
    let clarification = router.run("Draw something.").await.unwrap().into_answer().unwrap();
    assert_eq!(clarification.stop_reason, StopReason::Clarification);

    let router = router
        .with_classifier(ModelClassifier::new(ScriptedModel::new().reply_text(choice).reply_text(choice)));
    let answer = router.run("Who calls?").await.unwrap().into_answer().unwrap();
    assert_eq!((&*answer.text, answer.agent.as_deref(), answer.usage.requests), ("->>", Some("sequence"), 2));
    let error = router.run("Who calls?").await.unwrap_err();
    assert_eq!((error.usage.requests, error.transcript.len()), (2, 1));
}

/// A suspended run is saved as JSON and loaded. The agent that suspended the run must resume it.
#[tokio::test]
async fn suspended_run_is_resumed_by_its_route() {
    let agent = |model: ScriptedModel| ReactAgent::new(model, calculator_with_approval()).unwrap();
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":2}"#)]).reply_text("3.");
    let router =
        Router::new(table(), [("architecture", agent(model)), ("sequence", agent(ScriptedModel::new()))])
            .unwrap();
    let suspended = router.run("The architecture of 1 + 2").await.unwrap().into_answer().unwrap_err();
    let suspended: haft_core::agent::SuspendedRun =
        serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
    assert_eq!(suspended.pending.len(), 1);
    let decisions = Decisions::from([("a".to_owned(), Decision::approved())]);
    let output = router.run(RunInput::resume(suspended.clone(), decisions.clone())).await.unwrap();
    assert_eq!(output.text().unwrap(), "3.");

    let foreign = haft_core::agent::SuspendedRun { checkpoint: json!({"version": 1}), ..suspended.clone() };
    let error = router.run(RunInput::resume(foreign, decisions.clone())).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error}");
    let gone = haft_core::agent::SuspendedRun {
        checkpoint: json!({"route": "gone", "checkpoint": suspended.checkpoint["checkpoint"]}),
        ..suspended
    };
    let error = router.run(RunInput::resume(gone, decisions)).await.unwrap_err();
    assert!(error.to_string().contains(r#"there is no route "gone" any more"#), "{error}");
}

fn calculator_with_approval() -> Toolset {
    use haft_core::{
        Schema, ToolDefinition, ToolName,
        tool::{DynamicTool, ToolPolicy},
    };
    let policy = ToolPolicy { requires_approval: true, ..ToolPolicy::default() };
    let add = ToolDefinition::new(ToolName::new("add").unwrap(), Schema::object()).with_policy(policy);
    Toolset::new().with_tool(DynamicTool::new(add, |_, _| async { 3 }))
}

#[tokio::test]
async fn cancellation_ends_the_routing() {
    let router = router(&ScriptedModel::new(), &ScriptedModel::new());
    let input = RunInput::new("The architecture");
    input.context.cancellation.cancel();
    let error = router.run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Cancelled));
}

#[test]
fn route_table_is_serializable_and_validated() {
    let text = r#"{"routes":[{"name":"a","description":"A.","keywords":["x",{"text":"y","weight":0.5}]}],"question":"Which?"}"#;
    let table: RouteTable = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&table).unwrap(), text);

    let agent = || ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let error = |names: &[&str], table: &RouteTable| {
        Router::new(table.clone(), names.iter().map(|name| (*name, agent()))).unwrap_err().to_string()
    };
    assert_eq!(error(&[], &table), "the route \"a\" has no agent: give one of that name");
    assert_eq!(error(&["a", "b"], &table), "there is no route for the agent \"b\"; routes: a");
    let twice = RouteTable::new([Route::new("a", ""), Route::new("a", "")]);
    assert_eq!(error(&["a"], &twice), "two routes are named \"a\": rename one");
    assert_eq!(error(&[], &RouteTable::default()), RouteTableError::NoRoutes.to_string());
}

/// Like an agent, a router rejects a conversation with open calls. The error occurs before a route
/// is selected.
#[tokio::test]
async fn conversation_with_open_calls_is_rejected() {
    let router = router(&ScriptedModel::new(), &ScriptedModel::new());
    let call = ToolCall::new("a", "draw", "{}");
    let message = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    let open: Transcript = [Message::user("Draw."), Message::assistant(message)].into_iter().collect();
    let error = router.run(RunInput::new("Hello?").with_history(open.clone())).await.unwrap_err();
    assert!(error.to_string().contains(r#"still open: "a" (draw)"#), "{error}");
    assert_eq!(error.transcript, open);

    let mut nothing = RunInput::new("");
    nothing.start = RunStart::New { messages: Vec::new(), transcript: Transcript::new() };
    let error = router.run(nothing).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error}");
}

#[tokio::test]
async fn error_of_the_classifier_keeps_the_transcript() {
    let classifier =
        ScriptedModel::new().reply_text("What?").fail(ModelError::Unsupported("busy".to_owned()));
    let history: Transcript = [Message::user("Hi"), Message::assistant("Hello.")].into_iter().collect();
    let router = router(&ScriptedModel::new(), &ScriptedModel::new())
        .with_classifier(ModelClassifier::new(classifier));
    let error = router.run(RunInput::new("Draw.").with_history(history.clone())).await.unwrap_err();
    assert_eq!((error.transcript.len(), error.usage.requests), (3, 2));
    assert_eq!(error.transcript.messages()[2].text(), "Draw.");

    let input = RunInput::new("Draw.").with_history(history);
    input.context.cancellation.cancel();
    assert_eq!(router.run(input).await.unwrap_err().transcript.len(), 3);
}

#[tokio::test]
async fn usage_of_the_classifier_is_counted() {
    let chooses = || {
        let model = ScriptedModel::new().reply_text(r#"{"reason": "", "route": "architecture"}"#);
        ModelClassifier::new(model)
    };
    let agent = |model: ScriptedModel| ReactAgent::new(model, calculator_with_approval()).unwrap();
    let model = ScriptedModel::new().reply_calls([("a", "add", "{}")]).reply_text("3.");
    let other = || agent(ScriptedModel::new());
    let router = Router::new(table(), [("architecture", agent(model)), ("sequence", other())]).unwrap();
    let suspended =
        router.clone().with_classifier(chooses()).run("Add").await.unwrap().into_answer().unwrap_err();
    let decisions = Decisions::from([("a".to_owned(), Decision::approved())]);
    let answer = router.run(RunInput::resume(suspended, decisions)).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.usage.requests, 1 + 2);

    let model = ScriptedModel::new().fail(ModelError::Unsupported("busy".to_owned()));
    let router = Router::new(table(), [("architecture", agent(model)), ("sequence", other())]).unwrap();
    let error = router.with_classifier(chooses()).run("Add").await.unwrap_err();
    assert_eq!(error.usage.requests, 2);
}

/// The prompt of the classifier contains the previous messages, because they explain a short reply.
#[tokio::test]
async fn classifier_reads_the_previous_messages() {
    let classifier = ScriptedModel::new()
        .reply_text(r#"{"reason": "", "route": "unclear"}"#)
        .reply_text(r#"{"reason": "", "route": "architecture"}"#)
        .reply_text(r#"{"reason": "", "route": "architecture"}"#);
    let long = format!("[] {}", "x".repeat(5_000));
    let router = router(&ScriptedModel::new().reply_text(long).reply_text("[blue]"), &ScriptedModel::new())
        .with_classifier(ModelClassifier::new(classifier.clone()));
    let clarification = events(&router, "Draw.").await;
    let second_turn =
        events(&router, RunInput::new("The first one.").with_history(transcript(&clarification))).await;
    events(&router, RunInput::new("Make it blue.").with_history(transcript(&second_turn))).await;
    let requests = classifier.requests();
    expect![[r#"
        user: This was said last:
        user: Draw.
        assistant: Do you want a diagram of the architecture or a sequence diagram?
        user: The first one.

        Decide by what the user wants now.
    "#]]
    .assert_eq(&message_lines(&requests[1]));
    let last = message_lines(&requests[2]);
    assert!(last.len() < 2_000 && last.contains("user: The first one.\nassistant: [] xxx"), "{last}");
    assert!(last.contains("x…\nuser: Make it blue.\n"), "{last}");
}

/// The length of the classifier's prompt must be bounded, even after many clarifying questions.
#[tokio::test]
async fn classifier_reads_only_the_latest_messages() {
    let unclear = r#"{"reason": "", "route": "unclear"}"#;
    let classifier = (0..21).fold(ScriptedModel::new(), |model, _| model.reply_text(unclear));
    let router = router(&ScriptedModel::new(), &ScriptedModel::new())
        .with_classifier(ModelClassifier::new(classifier.clone()));
    let mut history = Transcript::new();
    for number in 0..20 {
        history =
            transcript(&events(&router, RunInput::new(format!("Hm {number}.")).with_history(history)).await);
    }
    let last = message_lines(classifier.requests().last().unwrap());
    assert_eq!((last.matches("Hm").count(), last.contains("Hm 19.")), (6, true), "{last}");

    // The user sent many messages, and no agent has answered yet.
    let history: Transcript = (0..20).map(|number| Message::user(format!("Er {number}."))).collect();
    events(&router, RunInput::new("Er 20.").with_history(history)).await;
    let last = message_lines(classifier.requests().last().unwrap());
    assert_eq!((last.matches("Er").count(), last.contains("Er 20.")), (12, true), "{last}");
}

#[tokio::test]
async fn classifier_can_always_choose_none() {
    let classifier = ScriptedModel::new().reply_text(r#"{"reason": "", "route": "unclear_2"}"#);
    let table = RouteTable::new([Route::new("unclear", "fog"), Route::new("none_of_these", "nothing")]);
    let agent = || ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let router = Router::new(table, [("unclear", agent()), ("none_of_these", agent())])
        .unwrap()
        .with_classifier(ModelClassifier::new(classifier));
    expect![[r#"
        None: 
        Clarification: Do you want fog or nothing?"#]]
    .assert_eq(&decision_and_answer(&events(&router, "Draw.").await));
}

/// Keywords can contain symbols, as in `C++`. Keywords are also found in text without spaces, such
/// as Chinese.
#[tokio::test]
async fn keywords_match_symbols_and_text_without_spaces() {
    let table = || {
        RouteTable::new([
            Route::new("c", "").with_keywords(["C"]),
            Route::new("c++", "").with_keywords(["C++"]),
            Route::new("c#", "").with_keywords(["c#"]),
            Route::new(".net", "").with_keywords([".NET"]),
            Route::new("net", "").with_keywords(["net"]),
            Route::new("時序", "").with_keywords(["时序图"]),
            Route::new("design", "").with_keywords(["設計"]),
        ])
    };
    for (text, expected) in [
        ("Is it C?", "c"),
        ("Is it C++?", "c++"),
        ("c#, please", "c#"),
        ("For .NET", ".net"),
        ("a net.", "net"),
        ("a net+rod", "net"),
        ("请画一个时序图。", "時序"),
        ("システムの設計をお願いします", "design"),
    ] {
        let names: Vec<_> = table().routes.into_iter().map(|route| route.name).collect();
        let agents = names
            .into_iter()
            .map(|name| (name, ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap()));
        let router = Router::new(table(), agents).unwrap();
        let mut events = router.stream(text);
        let Some(Ok(RunEvent::Routed { route, reason })) = events.next().await else { panic!("{text}") };
        assert_eq!(route.as_deref(), Some(expected), "{text}: {reason}");
    }
}

#[test]
fn unusable_keywords_and_duplicate_agents_are_rejected() {
    let written: Keyword = serde_json::from_str(r#"{"text":"x"}"#).unwrap();
    assert_eq!(written, Keyword::from("x"));

    let agent = || ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let never = RouteTable::new([Route::new("a", "").with_keywords(["x", "*"])]);
    expect![[r#"the keyword "*" of the route "a" can never be found: it has no letter and no digit"#]]
        .assert_eq(&Router::new(never, [("a", agent())]).unwrap_err().to_string());
    let table = RouteTable::new([Route::new("a", "")]);
    expect![[r#"two agents are named "a": rename one, or leave one out"#]]
        .assert_eq(&Router::new(table, [("a", agent()), ("a", agent())]).unwrap_err().to_string());
}

/// With `accept_unpaired_calls`, the selected agent repairs a conversation with unpaired calls, or
/// rejects it.
#[tokio::test]
async fn unpaired_conversation_reaches_the_selected_agent() {
    let call = AssistantMessage { tool_calls: vec![ToolCall::new("a", "draw", "{}")], ..Default::default() };
    let history: Transcript = [Message::user("Draw."), Message::assistant(call)].into_iter().collect();
    let model = ScriptedModel::new().reply_text("Drawn.");
    let repairing = ReactAgent::builder(model.clone()).repair_history().build().unwrap();
    let strict = ReactAgent::new(ScriptedModel::new(), Toolset::new()).unwrap();
    let agents = [("architecture", repairing), ("sequence", strict)];
    let router = Router::new(table(), agents).unwrap().accept_unpaired_calls();

    let input = RunInput::new("The architecture.").with_history(&history);
    assert_eq!(router.run(input).await.unwrap().text().unwrap(), "Drawn.");
    let request = &model.requests()[0];
    expect![[r#"
        user: Draw.
        assistant: a draw{}
        tool: a no result: the call was interrupted, and it may or may not have happened
        user: The architecture.
    "#]]
    .assert_eq(&message_lines(request));

    let input = RunInput::new("The sequence.").with_history(&history);
    let error = router.run(input).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error:?}");
}
