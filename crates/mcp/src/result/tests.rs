use expect_test::expect;
use haft_core::{
    ToolOutput,
    call::{FailureKind, ToolResponse},
    content::{Content, ResourceBody},
};
use serde_json::{Value, json};

use super::convert_result;

fn output(result: Value) -> ToolOutput {
    match convert_result(result).unwrap() {
        ToolResponse::Done(output) => output,
        pending => panic!("{pending:?}"),
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The text of a single text block is returned as a string, and the texts of several blocks as a
/// list of strings.
#[test]
fn texts_become_a_string_or_a_list() {
    assert_eq!(output(json!({"content": [text("a")]})).to_value(), json!("a"));
    assert_eq!(output(json!({"content": [text("a"), text("b")]})).to_value(), json!(["a", "b"]));
    assert_eq!(output(json!({"content": []})).to_value(), json!(""));
}

/// Content blocks of all types are converted and keep their order.
#[test]
fn every_type_of_content_is_kept_in_order() {
    let result = json!({"content": [
        text("see"),
        {"type": "image", "data": "iVBO", "mimeType": "image/png"},
        {"type": "audio", "data": "UklG", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "A"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAE="}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "C", "mimeType": "text/csv"},
    ]});
    let output = output(result);
    let expected = [
        Content::text("see"),
        Content::from_bytes(*b"\x89PN", "image/png"),
        Content::from_bytes(*b"RIF", "audio/wav"),
        Content::Resource {
            uri: "file:///a".to_owned(),
            media_type: Some("text/plain".to_owned()),
            body: ResourceBody::Text("A".to_owned()),
        },
        Content::Resource {
            uri: "file:///b".to_owned(),
            media_type: None,
            body: ResourceBody::Blob([0, 1].into()),
        },
        Content::ResourceLink {
            uri: "file:///c".to_owned(),
            name: "c".to_owned(),
            description: Some("C".to_owned()),
            media_type: Some("text/csv".to_owned()),
        },
    ];
    assert_eq!(output.content, expected);
    assert!(output.warnings.is_empty());
}

/// Structured content is not modified. `null` differs from a missing key, and `1.0` differs from
/// `1`.
#[test]
fn structured_content_is_unchanged() {
    assert_eq!(output(json!({"content": [], "structuredContent": null})).structured, Some(Value::Null));
    assert_eq!(output(json!({"content": []})).structured, None);
    let structured = json!({"b": [1.0, 1, "1", null], "a": {}});
    let both = output(json!({"content": [text("short")], "structuredContent": structured}));
    assert_eq!((both.text().as_ref(), both.to_value().to_string()), ("short", structured.to_string()));
}

/// If a result contains only structured content, the model receives it as JSON text.
#[test]
fn structured_content_alone_becomes_text() {
    let alone = output(json!({"structuredContent": {"sum": 42}}));
    assert_eq!((alone.text().as_ref(), &alone.structured), (r#"{"sum":42}"#, &Some(json!({"sum": 42}))));
}

/// The message of a failed call contains the text, the structured content and the warnings of the
/// result.
#[test]
fn error_result_fails_the_call_with_its_text() {
    let failed = |result| {
        let error = convert_result(result).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Failed);
        error.to_string()
    };
    assert_eq!(failed(json!({"isError": true, "content": [text("no"), text("really")]})), "no\nreally");
    assert_eq!(failed(json!({"isError": true, "structuredContent": {"code": 7}})), r#"{"code":7}"#);
    assert_eq!(failed(json!({"isError": true})), "the tool failed without an error message");
    let picture = json!({"type": "image", "data": "iVBO", "mimeType": "image/png"});
    let all = json!({"isError": true, "content": [text("no"), picture, {"type": "x"}], "structuredContent": {"code": 7}});
    expect![[r#"
        no
        [image/png, 3 bytes]
        {"type":"x"}
        {"code":7}
        Warning: content of type "x" is kept as JSON: unknown variant `x`, expected one of `text`, `image`, `audio`, `resource`, `resource_link`"#]]
    .assert_eq(&failed(all));
    let twice =
        json!({"isError": true, "content": [text("{\"code\": 7}")], "structuredContent": {"code": 7}});
    assert_eq!(failed(twice), r#"{"code": 7}"#);
    assert_eq!(failed(json!([1])), "invalid response: the result is not an object");
}

/// The `_meta` of a result and the extra fields of its content blocks are stored in the metadata of
/// the output. They are not part of the text for the model.
#[test]
fn extra_fields_are_metadata() {
    let output = output(json!({"_meta": {"cost": 3}, "content": [
        text("plain"),
        {"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "_meta": {"k": 1}},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "B", "blob": "AAE", "_meta": {"etag": "x"}}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "title": "C", "size": 3, "description": null},
    ]}));
    assert_eq!(output.text(), "plain\na\nB\nfile:///b [application/octet-stream, 2 bytes]\n[c](file:///c)");
    expect![[r#"
        {
          "_meta": {
            "cost": 3
          },
          "content": [
            {
              "annotations": {
                "audience": [
                  "user"
                ]
              },
              "_meta": {
                "k": 1
              },
              "index": 1
            },
            {
              "resource": {
                "_meta": {
                  "etag": "x"
                }
              },
              "index": 2
            },
            {
              "title": "C",
              "size": 3,
              "index": 4
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&output.metadata).unwrap());
}

/// Base64 with line breaks or without padding must be decoded, because some servers send it.
#[test]
fn base64_may_have_line_breaks_and_no_padding() {
    for data in ["aGFmdA==", "aGFmdA", "aG\r\nFm\ndA==\n"] {
        let result = json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]});
        assert_eq!(output(result).content, [Content::from_bytes(*b"haft", "image/png")], "{data:?}");
    }
}

/// Unknown and invalid content blocks are kept as JSON, with a warning.
#[test]
fn unknown_content_is_kept_as_json() {
    let video = json!({"type": "video", "data": "AAAA"});
    let broken = json!({"type": "image", "data": "not base64!", "mimeType": "image/png"});
    let output = output(json!({"content": [text("a"), video, broken]}));
    assert_eq!(output.content, [Content::text("a"), Content::json(video), Content::json(broken)]);
    let [unknown, unreadable] = &output.warnings[..] else { panic!("{:?}", output.warnings) };
    assert!(unknown.starts_with("content of type \"video\" is kept as JSON: unknown variant"), "{unknown}");
    assert!(
        unreadable.starts_with("content of type \"image\" is kept as JSON: Invalid symbol"),
        "{unreadable}"
    );
}

/// A result of the unsupported type `input_required` fails the call.
#[test]
fn unsupported_result_type_fails_the_call() {
    let error = convert_result(json!({"resultType": "input_required", "inputRequests": {}})).unwrap_err();
    assert_eq!(error.to_string(), "the result type \"input_required\" is not supported");
    assert!(convert_result(json!({"resultType": "complete", "content": []})).is_ok());
}

/// Text that a model reads has no hidden characters. The structured content, which programs read,
/// is unchanged.
#[test]
fn hidden_characters_are_removed_from_texts() {
    let tags = "\u{e0069}\u{e0067}";
    let hidden = format!("a{tags}\u{202e}b\r\n");
    let link = json!({"type": "resource_link", "uri": "file:///c", "name": hidden, "description": hidden});
    let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": hidden}});
    let converted = output(json!({
        "content": [text(&hidden), resource, link, {"type": "future", "note": hidden}],
        "structuredContent": {"note": hidden},
    }));
    assert_eq!(converted.content[0], Content::text("ab\r\n"));
    assert!(converted.content.iter().all(|content| !serde_json::to_string(content).unwrap().contains(tags)));
    assert_eq!(converted.structured, Some(json!({"note": hidden})));

    let alone = output(json!({"structuredContent": {"note": hidden}}));
    assert_eq!(alone.text(), r#"{"note":"ab\r\n"}"#);
    let failed = convert_result(json!({"isError": true, "content": [text(&hidden)]})).unwrap_err();
    assert_eq!(failed.to_string(), "ab\r\n");
}
