use expect_test::{Expect, expect};
use haft_core::{ToolOutput, call::ToolResponse};
use serde_json::{Value, json};

use super::Operation;

fn convert(operation: Operation, result: Value) -> ToolOutput {
    match operation.convert(result).unwrap() {
        ToolResponse::Done(output) => output,
        other => panic!("{other:?}"),
    }
}

fn check(operation: Operation, result: Value, expected: &Expect) {
    let output = convert(operation, result);
    let warnings = output.warnings.iter().map(|warning| format!("\nWarning: {warning}"));
    let structured = output.structured.map(|value| serde_json::to_string_pretty(&value).unwrap());
    let text = structured.unwrap_or_else(|| serde_json::to_string_pretty(&output.content).unwrap());
    expected.assert_eq(&(text + &warnings.collect::<String>()));
}

/// A page is sorted, and has only the known fields without hidden characters.
#[test]
fn page_of_resources_is_sorted_and_visible() {
    let result = json!({
        "resources": [
            {"uri": "file:///b", "name": "b", "description": "Has \u{200b}hidden\u{202e} text.", "_meta": {"x": 1}},
            {"uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 3, "icons": []},
            {"uri": "file:///\u{200b}c", "name": "c"},
            {"name": "d"},
        ],
        "nextCursor": "2", "ttlMs": 0,
    });
    check(
        Operation::ListResources,
        result,
        &expect![[r#"
            {
              "resources": [
                {
                  "uri": "file:///a",
                  "name": "a",
                  "mimeType": "text/plain",
                  "size": 3
                },
                {
                  "uri": "file:///b",
                  "name": "b",
                  "description": "Has hidden text."
                }
              ],
              "nextCursor": "2"
            }
            Warning: 2 entries are omitted: their `uri` is missing, or has hidden characters"#]],
    );
}

/// A model cannot repeat a cursor with hidden characters, so it gets a warning instead.
#[test]
fn cursor_with_hidden_characters_is_omitted() {
    for cursor in ["2\u{202e}", "\u{e0041}", "a\u{fe01}\u{fe02}"] {
        check(
            Operation::ListResources,
            json!({"resources": [], "nextCursor": cursor}),
            &expect![[r#"
                {
                  "resources": []
                }
                Warning: there are more entries, but their cursor has hidden characters"#]],
        );
    }
}

#[test]
fn templates_and_prompts_are_listed() {
    let template = json!({"uriTemplate": "file:///{path}", "name": "files"});
    check(
        Operation::ListResources,
        json!({"resourceTemplates": [template]}),
        &expect![[r#"
            {
              "resourceTemplates": [
                {
                  "uriTemplate": "file:///{path}",
                  "name": "files"
                }
              ]
            }"#]],
    );
    let prompt = json!({"name": "review", "title": "Review\u{200b}", "arguments": [{"name": "code", "required": true}]});
    check(
        Operation::ListPrompts,
        json!({"prompts": [prompt]}),
        &expect![[r#"
            {
              "prompts": [
                {
                  "name": "review",
                  "title": "Review",
                  "arguments": [
                    {
                      "name": "code",
                      "required": true
                    }
                  ]
                }
              ]
            }"#]],
    );
}

/// Text, binary data, images and audio of a resource keep their type.
#[test]
fn contents_of_a_resource_keep_their_type() {
    let contents = json!({"contents": [
        {"uri": "file:///a", "mimeType": "text/plain", "text": "hello"},
        {"uri": "file:///b", "mimeType": "application/pdf", "blob": "AAEC"},
        {"uri": "file:///c", "mimeType": "image/png", "blob": "AAEC"},
        {"uri": "file:///d", "mimeType": "audio/wav", "blob": "AAEC"},
    ]});
    check(
        Operation::ReadResource,
        contents,
        &expect![[r#"
        [
          {
            "type": "resource",
            "uri": "file:///a",
            "media_type": "text/plain",
            "body": {
              "text": "hello"
            }
          },
          {
            "type": "resource",
            "uri": "file:///b",
            "media_type": "application/pdf",
            "body": {
              "blob": "AAEC"
            }
          },
          {
            "type": "image",
            "data": "AAEC",
            "media_type": "image/png"
          },
          {
            "type": "audio",
            "data": "AAEC",
            "media_type": "audio/wav"
          }
        ]"#]],
    );
    assert!(Operation::ReadResource.convert(json!({})).is_err());
}

/// The messages of a prompt have their roles, and any type of content.
#[test]
fn messages_of_a_prompt_have_roles() {
    let messages = json!({"messages": [
        {"role": "user", "content": {"type": "text", "text": "Review this."}},
        {"role": "assistant", "content": {"type": "image", "data": "AAEC", "mimeType": "image/png"}},
    ]});
    check(
        Operation::GetPrompt,
        messages,
        &expect![[r#"
        [
          {
            "type": "text",
            "text": "user: Review this."
          },
          {
            "type": "text",
            "text": "assistant:"
          },
          {
            "type": "image",
            "data": "AAEC",
            "media_type": "image/png"
          }
        ]"#]],
    );
}

/// An empty, repeated or invalid cursor is not shown to the model.
#[test]
fn cursor_of_the_last_page_is_removed() {
    for (next, has_empty_cursors, expected, has_warning) in [
        (json!("2"), false, json!("2"), false),
        (json!(""), false, Value::Null, false),
        (json!(""), true, json!(""), false),
        (json!("1"), true, Value::Null, true),
        (json!(7), true, Value::Null, true),
    ] {
        for (operation, key) in [
            (Operation::ListResources, "resources"),
            (Operation::ListResources, "resourceTemplates"),
            (Operation::ListPrompts, "prompts"),
        ] {
            let mut result = json!({key: [], "nextCursor": next});
            operation.end_list(&mut result, &json!({"cursor": "1"}), has_empty_cursors);
            let output = convert(operation, result);
            assert_eq!(output.structured.unwrap()["nextCursor"], expected, "{next}");
            assert_eq!(output.warnings.len(), usize::from(has_warning), "{next}");
        }
    }
}
