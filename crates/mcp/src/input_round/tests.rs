use haft_core::ToolError;
use rmcp::model::{CallToolRequestParams, ErrorCode, ErrorData};
use serde_json::{Value, json};

use super::{InputRound, MAX_ROUNDS};
use crate::elicitation::ElicitationResponse;

fn question(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn request(round: &InputRound) -> Value {
    let mut params = CallToolRequestParams::new("book");
    round.add_to(&mut params.input_responses, &mut params.request_state);
    serde_json::to_value(params).unwrap()
}

#[test]
fn responses_and_state_are_sent() {
    let requests = json!({"a": question("A?"), "b": question("B?"), "roots": {"method": "roots/list"}});
    let mut round = InputRound::parse(&json!({"inputRequests": requests, "requestState": " s "}), 0).unwrap();
    assert_eq!(round.next_elicitation().unwrap().message, "A?");
    round.respond(ElicitationResponse::accept(json!({}))).unwrap();
    assert_eq!(round.next_elicitation().unwrap().message, "B?");
    round.respond(ElicitationResponse::Decline).unwrap();
    assert!(round.next_elicitation().is_none());
    let request = request(&round);
    assert_eq!(request["requestState"], " s ");
    assert_eq!(
        request["inputResponses"],
        json!({"a": {"action": "accept", "content": {}}, "b": {"action": "decline"}, "roots": {"roots": []}})
    );
}

#[test]
fn state_is_omitted_if_the_server_sends_none() {
    let round = InputRound::parse(&json!({"inputRequests": {"a": question("A?")}}), 0).unwrap();
    assert_eq!(request(&round).get("requestState"), None);
    let round = InputRound::parse(&json!({"requestState": "s"}), 0).unwrap();
    assert!(round.has_no_requests());
    assert_eq!(request(&round).get("inputResponses"), None);
}

#[test]
fn invalid_requests_are_rejected() {
    let fault = |result: Value, previous| InputRound::parse(&result, previous).unwrap_err();
    assert!(fault(json!({}), 0).contains("without requests and state"));
    assert!(fault(json!({"inputRequests": []}), 0).contains("invalid result"));
    let sampling = json!({"inputRequests": {"a": {"method": "sampling/createMessage", "params": {}}}});
    assert!(fault(sampling, 0).contains("\"sampling/createMessage\", which is not supported"));
    assert!(fault(json!({"requestState": "s"}), MAX_ROUNDS).contains("more than 10 times"));
}

#[test]
fn required_visit_is_not_answered_but_the_call_is_repeated() {
    let error = |data| ErrorData::new(ErrorCode(-32042), "URL elicitation required", Some(data));
    let visit = json!({"mode": "url", "elicitationId": "1", "url": "https://a.example", "message": "Log in"});
    let mut round = InputRound::from_error(&error(json!({"elicitations": [visit]})), 0).unwrap();
    let refused = round.respond(ElicitationResponse::Decline).unwrap_err();
    assert!(
        matches!(&refused, ToolError::Denied(text) if text.contains("did not open the page")),
        "{refused}"
    );
    let mut round = InputRound::from_error(&error(json!({"elicitations": [visit]})), 0).unwrap();
    let refused = round.respond(ElicitationResponse::accept(false)).unwrap_err();
    assert!(matches!(refused, ToolError::Denied(_)), "{refused}");

    let mut round = InputRound::from_error(&error(json!({"elicitations": [visit]})), 0).unwrap();
    round.respond(ElicitationResponse::accept(json!({}))).unwrap();
    assert_eq!(request(&round), json!({"name": "book"}));

    assert!(InputRound::from_error(&error(json!({"elicitations": []})), 0).is_none());
    assert!(InputRound::from_error(&ErrorData::internal_error("x", None), 0).is_none());
}
