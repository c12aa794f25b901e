//! Tests of the agent with scripted models. The MCP server is real and runs as a child process.

use std::{
    error::Error,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use haft_core::{
    Toolset,
    call::{Decision, FailureKind, PendingCall},
};
use haft_mcp::{HttpServer, StdioServer};
use haft_testing::ScriptedModel;

type Outcome = Result<(), Box<dyn Error>>;

async fn tools() -> Result<Toolset, Box<dyn Error>> {
    Ok(airline::tools(StdioServer::new(env!("CARGO_BIN_EXE_airline-server"))).await?)
}

/// Creates a scripted model that finds flights, selects the best flight, and books it.
fn booking_model() -> ScriptedModel {
    let day = r#"{"date":"2026-09-01","origin":"SFO","destination":"JFK"}"#;
    ScriptedModel::new()
        .reply_calls([("1", "fetch_flight_info", day), ("2", "get_user_info", r#"{"name":"ada"}"#)])
        .reply_calls([("3", "pick_flight", r#"{"flight_ids":["HF101","HF103","HF105"]}"#)])
        .reply_calls([("4", "book_itinerary", r#"{"flight_id":"HF103","user_name":"Ada"}"#)])
}

fn never(pending: &PendingCall) -> Decision {
    panic!("unexpected approval: {pending:?}")
}

#[tokio::test(flavor = "multi_thread")]
async fn server_lists_all_tools() -> Outcome {
    let mut names = tools().await?.names().await;
    names.sort();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "book_itinerary",
            "cancel_itinerary",
            "fetch_flight_info",
            "fetch_itinerary",
            "file_ticket",
            "get_user_info",
            "pick_flight"
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn flight_is_booked_after_the_approval() -> Outcome {
    let model = booking_model()
        .reply_calls([("5", "fetch_itinerary", r#"{"confirmation_number":"C0001"}"#)])
        .reply_text("Booked: C0001.");
    let mut prompts = Vec::new();
    let answer = airline::serve(model, tools().await?, "SFO to JFK on 2026-09-01, for Ada.", |pending| {
        prompts.push(airline::prompt(pending));
        Decision::approved()
    })
    .await?;
    assert_eq!(prompts, [r#"book_itinerary {"flight_id":"HF103","user_name":"Ada"}"#]);
    let picked = answer.steps[2].result.output().and_then(|output| output.structured.clone());
    assert_eq!(picked.ok_or("no flight")?["flight_id"], "HF103", "the shortest, then the cheapest");
    assert!(answer.steps[4].result.model_text().contains(r#""confirmation_number":"C0001""#));
    assert_eq!(answer.text, "Booked: C0001.");
    Ok(())
}

/// The server program over HTTP. It is killed on drop.
struct HttpProgram(Child);

impl Drop for HttpProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flight_is_booked_over_http() -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airline-server"));
    let mut program = HttpProgram(command.args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(program.0.stderr.take().ok_or("no standard error")?).read_line(&mut line)?;
    let url = line.trim().strip_prefix("serving at ").ok_or_else(|| line.clone())?;
    let tools = airline::tools(HttpServer::new(url)).await?;
    let model = booking_model().reply_text("Booked: C0001.");
    let request = "SFO to JFK on 2026-09-01, for Ada.";
    let answer = airline::serve(model, tools, request, |_| Decision::approved()).await?;
    assert!(answer.steps[3].result.model_text().contains(r#""confirmation_number":"C0001""#));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_reaches_the_model_and_nothing_is_booked() -> Outcome {
    let model = booking_model().reply_with(|request| {
        let last = request.messages.iter().last().map(|message| message.text());
        assert_eq!(last.as_deref(), Some("denied: too expensive"));
        Ok(haft_core::model::ChatResponse::new("I booked nothing."))
    });
    let tools = tools().await?;
    let answer =
        airline::serve(model, tools.clone(), "SFO to JFK.", |_| Decision::denied("too expensive")).await?;
    assert_eq!(answer.text, "I booked nothing.");
    let booked = tools.call("fetch_itinerary", serde_json::json!({"confirmation_number": "C0001"})).await;
    assert_eq!(booked.failure().map(|failure| failure.kind), Some(FailureKind::Failed));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_list_the_valid_choices() -> Outcome {
    let model = ScriptedModel::new()
        .reply_calls([
            ("1", "fetch_flight_info", r#"{"date":"2026-12-24","origin":"sfo","destination":"jfk"}"#),
            ("2", "get_user_info", r#"{"name":"Bob"}"#),
            ("3", "file_ticket", r#"{"user_request":"A window seat.","user_name":"Grace"}"#),
        ])
        .reply_text("There is no such flight.");
    let answer = airline::serve(model, tools().await?, "A flight at Christmas.", never).await?;
    let texts: Vec<_> = answer.steps.iter().map(|step| step.result.model_text()).collect();
    assert!(texts[0].contains("there are some on: 2026-09-01, 2026-09-02"), "{}", texts[0]);
    assert!(texts[1].contains("there are: Ada, Grace, Alan"), "{}", texts[1]);
    assert!(texts[2].contains(r#""ticket_id":"T0001""#), "{}", texts[2]);
    Ok(())
}

#[test]
fn missing_model_is_reported_with_the_remedy() -> Outcome {
    let mut program = Command::new(env!("CARGO_BIN_EXE_airline"));
    let output = program.env("HAFT_MODEL", "/no/such/model.gguf").output()?;
    let texts = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{texts}");
    assert!(texts.contains("no model file at /no/such/model.gguf"), "{texts}");
    Ok(())
}
