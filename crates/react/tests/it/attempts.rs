//! Tests of the numbers of attempts, and of limits on the calls to a tool.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use expect_test::{Expect, expect};
use futures::StreamExt as _;
use haft_core::{
    Pipeline, RunEvent, RunInput, Schema, Tool, ToolDefinition, ToolError, ToolExt as _, ToolName, Toolset,
    agent::{AgentErrorKind, RunAnswer},
    call::Decision,
    tool::DynamicTool,
};
use haft_react::{
    Dialect, HandoffGroup, JsonReact, ReactAgent, TextReact,
    router::{Route, RouteTable},
};
use haft_testing::ScriptedModel;
use serde_json::json;

use crate::{
    pairing::assert_paired,
    tools::{add_tool, calculator, hanging_tool, tool_without_parameters, with_call_counter},
};

type Attempts = Arc<Mutex<Vec<String>>>;

/// Creates the tool `try(outcome)`, which records its attempts and returns the outcome in its
/// argument.
fn trying_tool(retries: u32) -> (impl Tool + Clone + 'static, Attempts) {
    let attempts = Attempts::default();
    let schema =
        json!({"properties": {"outcome": {"enum": ["retry", "fail", "done"]}}, "required": ["outcome"]});
    let definition =
        ToolDefinition::new(ToolName::new("try").unwrap(), Schema::for_arguments(schema).unwrap())
            .map_policy(|policy| policy.with_retries(retries));
    let log = Arc::clone(&attempts);
    let tool = DynamicTool::new(definition, move |arguments, cx| {
        let attempt = cx.attempt();
        let last = if attempt.is_last() { " last" } else { "" };
        log.lock().unwrap().push(format!("{}{last}", attempt.number));
        async move {
            match arguments["outcome"].as_str() {
                Some("retry") => Err(ToolError::retry("try again")),
                Some("fail") => Err(ToolError::failed("no luck")),
                _ => Ok("fine"),
            }
        }
    });
    (tool, attempts)
}

fn check_attempts(attempts: &Attempts, expected: &Expect) {
    expected.assert_eq(&attempts.lock().unwrap().join(", "));
}

/// Returns a script with one call of `try` per reply. Each item is the arguments.
fn script(replies: &[&str]) -> ScriptedModel {
    let calls = |model: ScriptedModel, arguments: &&str| model.reply_calls([("", "try", *arguments)]);
    replies.iter().fold(ScriptedModel::new(), calls).reply_text("Done.")
}

/// A tool reads the number of its attempt, and whether a further retry is final. Each failed call
/// adds an attempt, also one with invalid arguments; only retries use the budget; a success resets
/// both.
#[tokio::test]
async fn attempts_are_counted_until_a_success() {
    let (tool, attempts) = trying_tool(2);
    let [retry, fail, done] = ["retry", "fail", "done"].map(|it| json!({"outcome": it}).to_string());
    let model = script(&[&retry, "{}", "malformed", &retry, &fail, &retry, &done, &retry]);
    let agent = ReactAgent::new(model, Toolset::new().with_tool(tool)).unwrap();

    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();

    check_attempts(&attempts, &expect!["1, 4, 5 last, 6 last, 7 last, 1"]);
    let results = answer.transcript.results_of("try").map(|it| it.model_text().into_owned());
    let retries: Vec<_> = results.filter(|text| text.starts_with("try again")).collect();
    let finals = retries.iter().map(|text| text.contains("no more tries"));
    assert_eq!(finals.collect::<Vec<_>>(), [false, false, true, false]);
}

/// The written dialects count the attempts as native calls do.
#[tokio::test]
async fn attempts_are_counted_in_written_dialects() {
    let json = |outcome: &str| {
        format!(r#"{{"thought":"I try.","tool_name":"try","tool_args":{{"outcome":"{outcome}"}}}}"#)
    };
    let text =
        |outcome: &str| format!("Thought: I try.\nAction: try\nArguments: {{\"outcome\": \"{outcome}\"}}\n");
    let (json_finish, text_finish) = (
        r#"{"thought":"Known.","tool_name":"finish","tool_args":{"answer":"Yes."}}"#.to_owned(),
        "Thought: Known.\nAction: finish\nArguments: {\"answer\": \"Yes.\"}".to_owned(),
    );
    let scripts: [(AgentFactory, [String; 4]); 2] = [
        (written_agent(JsonReact::new), [json("retry"), json("wrong"), json("retry"), json_finish]),
        (written_agent(|| TextReact), [text("retry"), text("wrong"), text("retry"), text_finish]),
    ];
    for (agent, replies) in scripts {
        let (tool, attempts) = trying_tool(1);
        let model = replies.into_iter().fold(ScriptedModel::new(), ScriptedModel::reply_text);
        agent(model, Toolset::new().with_tool(tool)).run("Go.").await.unwrap();
        check_attempts(&attempts, &expect!["1, 3 last"]);
    }
}

type AgentFactory = Box<dyn Fn(ScriptedModel, Toolset) -> ReactAgent>;

fn written_agent<D: Dialect + 'static>(dialect: impl Fn() -> D + 'static) -> AgentFactory {
    Box::new(move |model, tools| ReactAgent::builder(model).tools(tools).dialect(dialect()).build().unwrap())
}

/// Calls to a tool in one reply are the same attempt.
#[tokio::test]
async fn parallel_calls_are_one_attempt() {
    let (tool, attempts) = trying_tool(1);
    let both = |model: ScriptedModel, outcomes: [&str; 2]| {
        model.reply_calls(outcomes.map(|it| ("", "try", json!({"outcome": it}))))
    };
    let model = both(ScriptedModel::new(), ["retry", "fail"]);
    let model = both(both(model, ["retry", "retry"]), ["done", "fail"]);
    let model = both(model, ["done", "done"]).reply_text("Done.");
    ReactAgent::new(model, Toolset::new().with_tool(tool)).unwrap().run("Go.").await.unwrap();
    check_attempts(&attempts, &expect!["1, 1, 2 last, 2 last, 3 last, 3 last, 1, 1"]);
}

/// A call keeps its number after a suspension, also in another process.
#[tokio::test]
async fn attempt_is_the_same_after_a_suspension() {
    let (tool, attempts) = trying_tool(2);
    let agent = || {
        let retry = json!({"outcome": "retry"});
        let model = ScriptedModel::new()
            .reply_calls([("a", "try", retry.clone())])
            .reply_calls([("b", "try", retry)]);
        (model.clone().reply_text("Done."), tool.clone().with_approval())
    };
    let (model, tool) = agent();
    let agent = ReactAgent::new(model, Toolset::new().with_tool(tool)).unwrap();
    let mut output = agent.run("Go.").await.unwrap();
    for _ in 0..2 {
        let suspended = output.into_answer().unwrap_err();
        let saved = serde_json::to_string(&suspended).unwrap();
        let suspended: haft_core::agent::SuspendedRun = serde_json::from_str(&saved).unwrap();
        output = agent.run(suspended.approve_all()).await.unwrap();
    }
    assert_eq!(output.text().unwrap(), "Done.");
    check_attempts(&attempts, &expect!["1, 2"]);
}

/// Returns the texts of all results of `tool` in `answer`.
fn result_texts(answer: &RunAnswer, tool: &str) -> Vec<String> {
    assert_paired(&answer.transcript);
    answer.transcript.results_of(tool).map(|result| result.model_text().into_owned()).collect()
}

const DENIED: &str =
    "denied: at most 2 calls of this tool per run, and none is left: go on with what you have";

fn sum(id: &str, x: i64) -> (String, &'static str, serde_json::Value) {
    (id.to_owned(), "add", json!({"x": x, "y": 0}))
}

/// A tool has a maximum number of calls per run. A further call is denied with a text for the
/// model, and the run goes on; calls with invalid arguments do not count. Another run starts from
/// zero.
#[tokio::test]
async fn calls_beyond_the_maximum_are_denied() {
    let (add, count) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(add.map_policy(|policy| policy.with_max_calls(2)));
    let script = |model: ScriptedModel| {
        model
            .reply_calls([("", "add", "{}"), ("", "add", r#"{"x": 1, "y": 0}"#)])
            .reply_calls([sum("", 2), sum("", 3)])
            .reply_calls([sum("", 4)])
            .reply_text("Done.")
    };
    let agent = ReactAgent::new(script(script(ScriptedModel::new())), tools).unwrap();
    for run in 1..=2 {
        let events: Vec<_> = agent.stream("Add.").map(Result::unwrap).collect().await;
        let finished = events.iter().filter(|event| matches!(event, RunEvent::CallFinished { .. })).count();
        let Some(RunEvent::Done { output }) = events.into_iter().last() else { panic!("no output") };
        let answer = output.into_answer().unwrap();
        let texts = result_texts(&answer, "add");
        assert!(texts[0].starts_with("invalid arguments"), "{texts:?}");
        assert_eq!(texts[1..], ["1", "2", DENIED, DENIED]);
        assert_eq!((finished, count.load(Ordering::Relaxed)), (5, 2 * run));
    }
}

/// The maximum holds for the calls of one reply, and in the written dialects.
#[tokio::test]
async fn calls_of_one_reply_count_towards_the_maximum() {
    let (add, count) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(add.map_policy(|policy| policy.with_max_calls(2)));
    let model =
        ScriptedModel::new().reply_calls((1..=4).map(|x| sum(&format!("c{x}"), x))).reply_text("Done.");
    let answer =
        ReactAgent::new(model, tools.clone()).unwrap().run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(result_texts(&answer, "add"), ["1", "2", DENIED, DENIED]);
    assert_eq!(count.load(Ordering::Relaxed), 2);

    let call = |x: i64| format!(r#"{{"thought":"I add.","tool_name":"add","tool_args":{{"x":{x},"y":0}}}}"#);
    let finish = r#"{"thought":"Known.","tool_name":"finish","tool_args":{"answer":"Yes."}}"#;
    let model = (1..=3).fold(ScriptedModel::new(), |model, x| model.reply_text(call(x))).reply_text(finish);
    let agent = ReactAgent::builder(model).tools(tools).dialect(JsonReact::new()).build().unwrap();
    let answer = agent.run("Add.").await.unwrap().into_answer().unwrap();
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text().into_owned()).collect();
    assert_eq!(texts[..3], ["1", "2", DENIED]);
}

/// A suspended call counts once; a call that a person denies does not count.
#[tokio::test]
async fn suspended_call_counts_once() {
    let (add, count) = with_call_counter(&add_tool());
    let add = add.map_policy(|policy| policy.with_max_calls(2).with_approval());
    let model = ScriptedModel::new()
        .reply_calls([sum("a", 1), sum("b", 2), sum("c", 3)])
        .reply_calls([sum("d", 4)])
        .reply_calls([sum("e", 5)])
        .reply_text("Done.");
    let agent = ReactAgent::new(model, Toolset::new().with_tool(add)).unwrap();
    let mut output = agent.run("Add.").await.unwrap();
    let mut asked = Vec::new();
    while let Err(suspended) = output.clone().into_answer() {
        let saved: haft_core::agent::SuspendedRun =
            serde_json::from_str(&serde_json::to_string(&suspended).unwrap()).unwrap();
        let input = saved.decide(|pending| {
            asked.push(pending.call.id.clone());
            Some(if pending.call.id == "b" { Decision::denied("no") } else { Decision::approved() })
        });
        output = agent.run(input).await.unwrap();
    }
    let answer = output.into_answer().unwrap();
    assert_eq!(asked, ["a", "b", "d"]);
    assert_eq!(result_texts(&answer, "add"), ["1", "denied: no", DENIED, "4", DENIED]);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// The number of calls continues after a hand-off.
#[tokio::test]
async fn maximum_holds_across_handoffs() {
    let (add, count) = with_call_counter(&add_tool());
    let tools = Toolset::new().with_tool(add.map_policy(|policy| policy.with_max_calls(2)));
    let front = ScriptedModel::new().reply_calls([sum("a", 1)]).reply_calls([(
        "h".to_owned(),
        "transfer_to_back",
        json!({"reason": "busy"}),
    )]);
    let back = ScriptedModel::new().reply_calls([sum("b", 2), sum("c", 3)]).reply_text("Done.");
    let agents = [("front", front), ("back", back)]
        .map(|(name, model)| (name, ReactAgent::new(model, tools.clone()).unwrap()));
    let table = RouteTable::new([Route::new("front", "First."), Route::new("back", "Second.")]);
    let group = HandoffGroup::new(table, agents).unwrap();
    let answer = group.run("Add.").await.unwrap().into_answer().unwrap();
    assert_eq!(result_texts(&answer, "add"), ["1", "2", DENIED]);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// An agent has one default timeout for all tools, which a tool or its toolset overrides.
#[tokio::test(start_paused = true)]
async fn agent_has_a_default_timeout_of_tools() {
    let hang = |name: &str| {
        tool_without_parameters("hang", std::future::pending::<()>).with_definition(|it| it.with_name(name))
    };
    let slow = hanging_tool(Duration::from_secs(2)).with_definition(|it| it.with_name("slow"));
    let inner = Toolset::new().with_tool(hang("inner")).with_timeout(Duration::from_secs(3));
    let tools = Toolset::new().with_tool(hang("hang")).with_tool(slow).with_source(inner);
    let names = ["hang", "slow", "inner"];
    let model = ScriptedModel::new().reply_calls(names.map(|name| (name, name, "{}"))).reply_text("Done.");
    let agent = ReactAgent::builder(model).tools(tools).tool_timeout(Duration::from_secs(1)).build().unwrap();
    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();
    let texts = names.map(|id| answer.transcript.tool_result(id).unwrap().model_text().into_owned());
    assert_eq!(texts, ["1000 ms", "2000 ms", "3000 ms"].map(|time| format!("timed out after {time}")));
}

#[test]
fn zero_timeout_is_a_build_error() {
    let builder = || ReactAgent::builder(ScriptedModel::new()).tools(calculator());
    let tool = add_tool().with_timeout(Duration::ZERO);
    let errors = [
        builder().tool_timeout(Duration::ZERO).build().unwrap_err(),
        builder().hook_timeout(Duration::ZERO).build().unwrap_err(),
        builder().tools(calculator().with_timeout(Duration::ZERO)).build().unwrap_err(),
        builder().tools(Toolset::new().with_tool(tool)).build().unwrap_err(),
    ];
    expect![[r#"
        `tool_timeout` is zero, so each tool call would time out: set a positive duration, or leave it out
        `hook_timeout` is zero, so each hook would time out: set a positive duration, or leave it out
        the default timeout of the toolset is zero, so each call would time out: set a positive timeout, or leave it out
        tool "add" cannot be used: its policy: with a timeout of zero, each call times out: set a positive timeout, or leave it out
    "#]]
    .assert_eq(&errors.map(|error| format!("{error}\n")).concat());
}

/// A failure hook of the pipeline replaces the text of a failure that the model reads, and can end
/// the run. The first hook that changes a failure comes first.
#[tokio::test]
async fn failure_hook_of_a_pipeline_changes_what_the_model_reads() {
    let model = ScriptedModel::new()
        .reply_calls([("a", "add", "{}"), ("b", "sub", "{}")])
        .reply_calls([("c", "fatal", "{}")]);
    let pipeline = Pipeline::new()
        .with_failure_hook(|failed| failed.definition.is_none().then(|| failed.with_message("no such tool")))
        .with_failure_hook(|failed| {
            Some(match failed.failure.message.as_str() {
                "disk full" => failed.fatal("the disk is full"),
                _ => failed.with_message("Look at the manual."),
            })
        });
    let fatal = tool_without_parameters("fatal", || async { Err::<(), _>(ToolError::failed("disk full")) });
    let agent = ReactAgent::builder(model.clone())
        .tools(calculator().with_tool(fatal).with_pipeline(pipeline))
        .build()
        .unwrap();
    let error = agent.run("Add.").await.unwrap_err();
    let request = &model.requests()[1];
    let results: Vec<_> = request.tool_results().map(|it| (&*it.call_id, it.model_text())).collect();
    assert_eq!(results, [("a", "Look at the manual.".into()), ("b", "no such tool".into())]);
    assert!(
        matches!(&*error.kind, AgentErrorKind::FatalTool { message, .. } if message == "the disk is full")
    );
    assert_paired(&error.transcript);
}

/// A suspended run is an error: `?` works in a function that returns a boxed error, and the text
/// names the open calls.
#[tokio::test]
async fn suspended_run_is_an_error_that_names_the_open_calls() {
    async fn main(agent: &ReactAgent) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        Ok(agent.run(RunInput::new("Add.")).await?.into_answer()?.text)
    }
    let tools = Toolset::new().with_tool(add_tool().with_approval());
    let model = ScriptedModel::new().reply_text_and_calls("I add.", [sum("a", 1), sum("b", 2)]);
    let error = main(&ReactAgent::new(model, tools).unwrap()).await.unwrap_err();
    expect![[r#"the run is suspended, and needs decisions: an approval or a denial for call "a" of tool "add", an approval or a denial for call "b" of tool "add""#]].assert_eq(&error.to_string());
}
