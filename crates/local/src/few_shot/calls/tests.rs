use serde_json::json;

use super::*;

#[test]
fn an_item_replaces_the_only_argument() {
    let replaced = |kind: &str, earlier: Value, item: &str| {
        let properties = json!({"n": {"type": kind}, "m": {}});
        let schema = Schema::new(json!({"type": "object", "properties": properties})).unwrap();
        let earlier = ToolCall::new("1", "look", earlier.to_string());
        with_item(&earlier, item, &schema).map(|call| call.arguments.value_or_string().as_ref().clone())
    };
    assert_eq!(replaced("integer", json!({"n": 8}), "10"), Some(json!({"n": 10})));
    assert_eq!(replaced("string", json!({"n": "8"}), "10"), Some(json!({"n": "10"})));
    assert_eq!(replaced("integer", json!({"n": 8}), "ten"), None);
    assert_eq!(replaced("integer", json!({"n": 8, "m": 1}), "10"), None);
    assert_eq!(replaced("integer", json!({}), "10"), None);
}

#[test]
fn texts_of_a_call_have_spaces() {
    let arguments = json!({"zone": "Upper_Floor", "ids": ["a", 7], "on": true, "note": " "});
    let call = ToolCall::new("1", "heat", arguments.to_string());
    assert_eq!(texts_of(&call), ["upper floor", "a", "7"]);
}

#[test]
fn a_tool_finds_an_identifier() {
    assert!(finds_identifier("search_track", "track_id"));
    assert!(finds_identifier("findTracks", "trackId"));
    assert!(finds_identifier("find_contact_phone", "phone_number"));
    assert!(!finds_identifier("add_track", "track_id"));
    assert!(!finds_identifier("search_artist", "track_id"));
    assert!(!finds_identifier("search_date", "date"));
    assert!(!finds_identifier("get_id", "id"));
}
