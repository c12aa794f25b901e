use super::{CallIdFormat, CallIds, KeptIds};
use crate::{Message, ToolCall, ToolResult, message::AssistantMessage};

fn reply_of(issuer: &CallIds, ids: &[&str]) -> AssistantMessage {
    let tool_calls = ids.iter().map(|id| ToolCall::new(*id, "add", "{}")).collect();
    let mut reply = AssistantMessage { tool_calls, ..AssistantMessage::default() };
    issuer.record_issued(ids.iter().copied(), &mut reply.provider_data);
    reply
}

/// Returns the ids that `ids` sends for `messages`, the calls and the results in order.
fn sent(ids: &CallIds, messages: &[Message]) -> Vec<String> {
    let mut kept = KeptIds::default();
    let mut sent = Vec::new();
    for message in messages {
        let is_kept = kept.advance(message, ids);
        if let crate::message::MessageBody::Assistant(reply) = message.body() {
            let calls = reply.tool_calls.iter();
            sent.extend(calls.map(|call| ids.id_of_call(reply, &call.id).into_owned()));
        }
        let result = message.tool_result();
        sent.extend(result.map(|result| ids.id_of_result(&result.call_id, is_kept).into_owned()));
    }
    sent
}

fn result(id: &str) -> Message {
    Message::tool(ToolResult::done(id, "add", "1".into()))
}

/// A reply without odd ids has no provider data.
#[test]
fn only_ids_that_violate_the_format_are_stored() {
    let long = "x".repeat(41);
    let ids = CallIds::new(CallIdFormat::AtMost(40), "a");
    assert!(reply_of(&ids, &["call_1"]).provider_data.is_empty());
    assert!(!reply_of(&ids, &[&long]).provider_data.is_empty());
    let mistral = CallIds::new(CallIdFormat::NineAlphanumerics, "a");
    assert!(reply_of(&mistral, &[&long]).provider_data.is_empty());
    assert!(reply_of(&CallIds::default(), &[&long]).provider_data.is_empty());
}

/// A call and its result have the same id, even if two issuers have sent the same id.
#[test]
fn call_and_result_have_the_same_id() {
    let long = "x".repeat(300);
    let (one, two) =
        (CallIds::new(CallIdFormat::AtMost(40), "a"), CallIds::new(CallIdFormat::AtMost(40), "b"));
    let own = [Message::assistant(reply_of(&one, &[&long, "call_1"])), result(&long), result("call_1")];
    assert_eq!(sent(&one, &own), [&*long, "call_1", &*long, "call_1"]);
    let both = [own.as_slice(), &[Message::assistant(reply_of(&two, &[&long])), result(&long)]].concat();
    let ids = sent(&one, &both);
    assert_eq!((&*ids[0], &*ids[2]), (&*long, &*long));
    assert_eq!(ids[4], ids[5]);
    assert_eq!(ids[4].len(), 21);
    assert_eq!(sent(&one, &both), ids);
}

/// An id that a host program has changed is not an issued id.
#[test]
fn changed_id_is_fitted() {
    let long = "x".repeat(300);
    let ids = CallIds::new(CallIdFormat::AtMost(40), "a");
    let mut reply = reply_of(&ids, &[&long]);
    reply.tool_calls[0].id.push('y');
    assert_eq!(sent(&ids, &[Message::assistant(reply)])[0].len(), 21);
}
