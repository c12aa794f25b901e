//! Tests of runs that continue a conversation without a new message.

use expect_test::expect;
use haft_core::{
    Message, RunInput, Toolset, Transcript,
    agent::{AgentErrorKind, RunLimits},
    model::ModelError,
};
use haft_react::{HandoffGroup, ReactAgent, Router, router::Route, router::RouteTable, run::ContextConfig};
use haft_testing::ScriptedModel;

use crate::{
    dialect_scripts::{SCRIPTS, run_or_stream},
    pairing::{assert_paired, assert_request_paired, message_lines},
    tools::{add_tool, calculator},
};

fn one_request() -> RunLimits {
    RunLimits { requests: Some(1), ..RunLimits::default() }
}

/// A run that reached a limit continues with the request that was not made, in each dialect, with
/// `run` and with `stream`.
#[tokio::test]
async fn run_continues_after_a_limit() {
    for script in SCRIPTS {
        for streamed in [false, true] {
            let model = script.replies(&[("a", "add", r#"{"x":17,"y":25}"#)], "It is 42.");
            let agent = ReactAgent::new(model.clone(), calculator()).unwrap();
            let input = RunInput::new("What is 17 plus 25?").with_limits(one_request());
            let error = run_or_stream(&agent, input, streamed).await.unwrap_err();
            assert!(matches!(*error.kind, AgentErrorKind::LimitReached(_)), "{error}");

            let continued = RunInput::continue_from(error.transcript.clone());
            let answer = run_or_stream(&agent, continued, streamed).await.unwrap().into_answer().unwrap();
            assert_eq!(answer.text, "It is 42.");
            let messages = answer.transcript.messages();
            assert_eq!(messages.get(..error.transcript.len()), Some(error.transcript.messages()));
            assert_eq!(messages.len(), error.transcript.len() + 1);
            assert_eq!(model.requests()[1].messages.len(), 3);
            assert_request_paired(&model.requests()[1]);
        }
    }
}

/// The question of the continued turn and its steps are sent, even if the context is limited or the
/// model rejects it as too long.
#[tokio::test]
async fn continued_turn_is_always_sent() {
    let earlier = [
        Message::user("Hello."),
        Message::assistant("Hi."),
        Message::user("Thanks."),
        Message::assistant("Bye."),
    ];
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":2}"#)]);
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let input = RunInput::new("Add.").with_history(Transcript::from_iter(earlier)).with_limits(one_request());
    let interrupted = agent.run(input).await.unwrap_err().transcript;

    let too_long = || ModelError::ContextTooLong("too long".to_owned());
    for (latest, failures, lengths) in [(None, 1, &[7, 5][..]), (Some(1), 0, &[5])] {
        let model = (0..failures).fold(ScriptedModel::new(), |model, _| model.fail(too_long()));
        let model = model.reply_text("It is 3.");
        let context = ContextConfig { latest, ..ContextConfig::default() };
        let agent = ReactAgent::builder(model.clone()).tools(calculator()).context(context).build().unwrap();
        let output = agent.run(RunInput::continue_from(interrupted.clone())).await.unwrap();
        assert_eq!(output.text().unwrap(), "It is 3.");
        let requests = model.requests();
        assert_eq!(requests.iter().map(|it| it.messages.len()).collect::<Vec<_>>(), lengths);
        expect![[r#"
            user: Thanks.
            assistant: Bye.
            user: Add.
            assistant: a add{"x":1,"y":2}
            tool: a 3
        "#]]
        .assert_eq(&message_lines(requests.last().unwrap()));
    }

    // The continued turn cannot be omitted.
    let model = (0..3).fold(ScriptedModel::new(), |model, _| model.fail(too_long()));
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let error = agent.run(RunInput::continue_from(interrupted.clone())).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::Model(ModelError::ContextTooLong(_))));
    assert_eq!(error.transcript, interrupted);
}

/// A summary covers the continued turn as well.
#[tokio::test]
async fn continued_turn_is_summarized() {
    let interrupted: Transcript =
        [Message::user("Hello."), Message::assistant("Hi."), Message::user("Add.")].into_iter().collect();
    let compactor = ScriptedModel::new().reply_text("The user wants a sum.");
    let model =
        ScriptedModel::new().fail(ModelError::ContextTooLong("too long".to_owned())).reply_text("Of what?");
    let agent = ReactAgent::builder(model.clone()).compactor(compactor).build().unwrap();
    let answer = agent.run(RunInput::continue_from(interrupted)).await.unwrap().into_answer().unwrap();
    assert_eq!(answer.text, "Of what?");
    assert_paired(&answer.transcript);
    assert!(message_lines(&model.requests()[1]).contains("The user wants a sum."));
}

/// A conversation that already has an answer cannot continue without a message. An empty
/// conversation cannot start.
#[tokio::test]
async fn answered_conversation_needs_a_message() {
    let answered: Transcript = [Message::user("Hello."), Message::assistant("Hi.")].into_iter().collect();
    let model = ScriptedModel::new().reply_text("Fine.");
    let agent = ReactAgent::new(model, Toolset::new()).unwrap();
    let error = agent.run(RunInput::continue_from(answered.clone())).await.unwrap_err();
    expect!["the run cannot begin: the conversation ends with a message of the assistant; add a message with `RunInput::with_prompt`"]
        .assert_eq(&error.to_string());
    assert_eq!(error.transcript, answered);
    let error = agent.run(RunInput::continue_from(Transcript::new())).await.unwrap_err();
    expect!["the run cannot begin: the conversation has no messages"].assert_eq(&error.to_string());

    let input = RunInput::continue_from(answered).with_prompt("How are you?");
    assert_eq!(agent.run(input).await.unwrap().text().unwrap(), "Fine.");
}

/// Calls without results are repaired in a continued conversation if the agent repairs histories,
/// and are an error otherwise.
#[tokio::test]
async fn calls_without_results_are_repaired() {
    let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":2}"#)]);
    let agent = ReactAgent::new(model, calculator()).unwrap();
    let input = RunInput::new("Add.").with_limits(one_request());
    let interrupted = agent.run(input).await.unwrap_err().transcript;
    let open: Transcript = interrupted.messages().iter().take(2).map(|it| Message::clone(it)).collect();

    let builder = |model: &ScriptedModel| ReactAgent::builder(model.clone()).tools(calculator());
    let model = ScriptedModel::new();
    let error =
        builder(&model).build().unwrap().run(RunInput::continue_from(open.clone())).await.unwrap_err();
    assert!(matches!(*error.kind, AgentErrorKind::InvalidInput(_)), "{error}");
    let model = ScriptedModel::new().reply_text("It failed.");
    let agent = builder(&model).repair_history().build().unwrap();
    let output = agent.run(RunInput::continue_from(open)).await.unwrap();
    assert_eq!(output.text().unwrap(), "It failed.");
    assert_request_paired(&model.requests()[0]);
}

/// Agents behind a router and in a hand-off group continue a conversation as well.
#[tokio::test]
async fn routed_agents_continue_a_conversation() {
    let open = || RunInput::continue_from([Message::user("hello")].into_iter().collect::<Transcript>());
    let table = || RouteTable::new([Route::new("only", "everything").with_keywords(["hello"])]);
    let agent = || {
        let tools = Toolset::new().with_tool(add_tool());
        ReactAgent::new(ScriptedModel::new().reply_text("Hi."), tools).unwrap()
    };
    let router = Router::new(table(), [("only", agent())]).unwrap();
    assert_eq!(haft_core::Agent::run(&router, open()).await.unwrap().text().unwrap(), "Hi.");
    let group = HandoffGroup::new(table(), [("only", agent())]).unwrap();
    assert_eq!(haft_core::Agent::run(&group, open()).await.unwrap().text().unwrap(), "Hi.");
}
