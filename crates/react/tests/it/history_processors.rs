//! Tests of history processors, which change the messages of requests.

use expect_test::expect;
use haft_core::{Message, RunInput, Toolset, Transcript, agent::AgentErrorKind};
use haft_react::{
    Extension, JsonReact, ReactAgent, ReactAgentBuilder, TextReact, hook::ClearToolResults,
    run::ContextConfig,
};
use haft_testing::ScriptedModel;

use crate::{
    pairing::{assert_request_paired, message_lines},
    tools::{calculator, tool_without_parameters},
};

/// Creates a script with three calls in three steps, and an answer.
fn three_steps() -> ScriptedModel {
    ScriptedModel::new()
        .reply_calls([("a", "long", "{}")])
        .reply_calls([("b", "add", r#"{"x":1,"y":1}"#)])
        .reply_calls([("c", "long", "{}")])
        .reply_text("Done.")
}

fn tools() -> Toolset {
    calculator().with_tool(tool_without_parameters("long", || async { "long ".repeat(20) }))
}

async fn last_request(change: impl FnOnce(ReactAgentBuilder) -> ReactAgentBuilder) -> String {
    let model = three_steps();
    let agent = change(ReactAgent::builder(model.clone()).tools(tools()).max_repeated_calls(None));
    let answer = agent.build().unwrap().run("Go.").await.unwrap().into_answer().unwrap();
    // The transcript has the full results.
    assert_eq!(answer.steps[0].result.model_text(), "long ".repeat(20));
    let requests = model.requests();
    requests.iter().for_each(assert_request_paired);
    message_lines(requests.last().unwrap()).replace(&"long ".repeat(20), "LONG")
}

/// The latest results stay complete, and older ones are replaced by a note.
#[tokio::test]
async fn old_tool_results_are_cleared() {
    let lines = last_request(|it| it.hook(ClearToolResults::keep_last(1))).await;
    // The result of `b` is shorter than the note.
    expect![[r#"
        user: Go.
        assistant: a long{}
        tool: a [the result was removed to save space]
        assistant: b add{"x":1,"y":1}
        tool: b 2
        assistant: c long{}
        tool: c LONG
    "#]]
    .assert_eq(&lines);

    let untouched = last_request(|it| it).await;
    for clear in [
        ClearToolResults::keep_last(3),
        ClearToolResults::keep_last(0).min_bytes(1000),
        ClearToolResults::keep_last(0).except(["long"]),
        ClearToolResults::keep_last(0).in_batches_of(4),
        ClearToolResults::keep_last(usize::MAX).in_batches_of(0),
    ] {
        assert_eq!(last_request(|it| it.hook(clear.clone())).await, untouched, "{clear:?}");
    }
}

/// Results are cleared in groups, so the prefix of the requests stays the same between them.
#[tokio::test]
async fn batches_keep_the_prefix_of_requests() {
    let clear = ClearToolResults::keep_last(0).in_batches_of(2);
    let model = three_steps();
    let agent = ReactAgent::builder(model.clone()).tools(tools()).hook(clear).build().unwrap();
    agent.run("Go.").await.unwrap();
    let is_cleared = |index: usize| message_lines(&model.requests()[index]).contains("removed");
    assert_eq!([1, 2, 3].map(is_cleared), [false, true, true]);
    let [before, after] = [2, 3].map(|index| message_lines(&model.requests()[index]));
    assert!(after.starts_with(&before), "{before}{after}");
}

/// The note of a truncated result contains its handle, so the model can read the result again.
#[tokio::test]
async fn note_contains_the_handle_of_a_stored_result() {
    let long = tool_without_parameters("long", || async { "long ".repeat(40_000) });
    let model = ScriptedModel::new().reply_calls([("a", "long", "{}")]).reply_text("Done.");
    let agent = ReactAgent::builder(model.clone())
        .tools(Toolset::new().with_tool(long))
        .hook(ClearToolResults::keep_last(0))
        .build()
        .unwrap();
    let answer = agent.run("Go.").await.unwrap().into_answer().unwrap();
    let handle = answer.steps[0].result.output().unwrap().result_handle.clone().unwrap();
    let text = model.requests()[1].messages.iter().last().unwrap().text();
    assert_eq!(text, format!("[the result was removed to save space; it is stored as {handle:?}]"));
}

/// Processors see the messages before the dialect formats them, in each dialect.
#[tokio::test]
async fn processors_run_before_the_dialect() {
    let json = |tool: &str, arguments: &str| {
        format!(r#"{{"thought":"Go.","tool_name":"{tool}","tool_args":{arguments}}}"#)
    };
    let script = ScriptedModel::new()
        .reply_text(json("long", "{}"))
        .reply_text(json("finish", r#"{"answer":"Done."}"#));
    let text = ScriptedModel::new()
        .reply_text("Thought: Go.\nAction: long\nArguments: {}")
        .reply_text("Thought: So.\nFinal Answer: Done.");
    let builders: [(&ScriptedModel, ReactAgentBuilder); 2] = [
        (&script, ReactAgent::builder(script.clone()).dialect(JsonReact::new())),
        (&text, ReactAgent::builder(text.clone()).dialect(TextReact)),
    ];
    for (model, builder) in builders {
        let builder = builder.tools(tools()).hook(ClearToolResults::keep_last(0));
        builder.build().unwrap().run("Go.").await.unwrap();
        let lines = message_lines(&model.requests()[1]);
        assert!(lines.contains("[the result was removed to save space]"), "{lines}");
        assert!(!lines.contains("long long"), "{lines}");
    }
}

/// Processors run in the order of the extensions, after the selection of the context.
#[tokio::test]
async fn processors_run_in_order_after_the_context() {
    let append = |mark: &'static str| {
        Extension::new(mark).history_processor(move |view, cx| {
            let text = format!("{mark} {} {}", view.len(), cx.step);
            Ok(view.iter().cloned().chain([Message::user(text).into()]).collect())
        })
    };
    let model = ScriptedModel::new().reply_text("Hello.");
    let agent = ReactAgent::builder(model.clone())
        .context(ContextConfig { latest: Some(1), ..ContextConfig::default() })
        .extension(append("one"))
        .extension(append("two"))
        .build()
        .unwrap();
    let history: Transcript =
        [Message::user("Hi."), Message::assistant("Hi."), Message::user("How?"), Message::assistant("So.")]
            .into_iter()
            .collect();
    let answer = agent.run(RunInput::new("Go.").with_history(&history)).await.unwrap().into_answer().unwrap();
    expect![[r#"
        user: How?
        assistant: So.
        user: Go.
        user: one 3 0
        user: two 4 0
    "#]]
    .assert_eq(&message_lines(&model.requests()[0]));
    assert_eq!(answer.transcript.len(), 6);
}

/// A processor that fails, panics, removes everything or separates a call from its result ends the
/// run with an error that names it. The run can be continued.
#[tokio::test]
async fn broken_views_end_the_run() {
    let drop_role = |is_call: bool| {
        move |message: &Message| {
            if is_call { message.tool_calls().is_empty() } else { !message.text().starts_with('2') }
        }
    };
    let filter = |is_call: bool| {
        Extension::new("e").history_processor(move |view, _| {
            let keep = drop_role(is_call);
            Ok(view.iter().filter(|message| keep(message)).cloned().collect())
        })
    };
    let broken = |process: fn() -> Result<(), &'static str>| {
        Extension::new("e").history_processor(move |view, _| {
            process()?;
            Ok(view)
        })
    };
    let cases = [
        ("without its call", filter(true)),
        ("without its result", filter(false)),
        (
            "no message is left",
            Extension::new("e").history_processor(|_, _| Ok(std::iter::empty::<Message>().collect())),
        ),
        ("no luck", broken(|| Err("no luck"))),
        ("it panicked", broken(|| panic!("a secret"))),
    ];
    for (problem, extension) in cases {
        let model = ScriptedModel::new().reply_calls([("a", "add", r#"{"x":1,"y":1}"#)]).reply_text("2.");
        std::mem::forget(model.clone());
        let builder = ReactAgent::builder(model).tools(calculator());
        let agent = builder.extension(extension).build().unwrap();
        let error = agent.run("Go.").await.unwrap_err();
        assert!(matches!(&*error.kind, AgentErrorKind::HookFailed { hook: "history processor", .. }));
        let report = format!("{error:?}");
        assert!(report.contains(problem) && report.contains("\"e\""), "{report}");
        assert!(!report.contains("secret"), "{report}");
    }
}
