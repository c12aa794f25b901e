use expect_test::{Expect, expect};
use haft_mcp::elicitation::{Elicitation, ElicitationResponse};
use serde_json::{Value, json};

use super::ask;

fn question(kind: Value) -> Elicitation {
    serde_json::from_value(json!({"message": "Which \u{1b}[31mseat?", "kind": kind})).unwrap()
}

fn check(kind: Value, input: &str, response: ElicitationResponse, output: Expect) {
    let mut written = Vec::new();
    let answered = ask("air", &question(kind), &mut input.as_bytes(), &mut written).unwrap();
    assert_eq!(answered, response);
    output.assert_eq(&String::from_utf8(written).unwrap());
}

fn form() -> Value {
    json!({"form": {"schema": {"type": "object", "required": ["seat", "bags"], "properties": {
        "seat": {"type": "string", "title": "Seat", "description": "row and letter", "minLength": 2},
        "bags": {"type": "integer", "maximum": 3},
        "class": {"type": "string", "enum": ["economy", "business"], "default": "economy"},
        "window": {"type": "boolean"},
    }}}})
}

#[test]
fn properties_are_asked_until_they_are_valid() {
    let content = json!({"seat": "12A", "bags": 2, "window": true});
    check(
        form(),
        "\n1\n12A\nmany\n7\n2\n\nmaybe\nyes\n",
        ElicitationResponse::accept(content),
        expect![[r#"

            mcp:air asks:
              | Which [31mseat?
            Ctrl-D declines.
              Seat, row and letter (string):   expected at least 2 characters, received string "" (0 characters)
              Seat, row and letter (string):   expected at least 2 characters, received string "1" (1 character)
              Seat, row and letter (string):   bags (integer):   enter a number
              bags (integer):   expected at most 3, received integer 7
              bags (integer):   class (economy, business) [economy]:   window (boolean) [none]:   enter yes or no
              window (boolean) [none]: "#]],
    );
}

#[test]
fn end_of_the_input_declines() {
    check(
        form(),
        "12A\n",
        ElicitationResponse::Decline,
        expect![[r#"

            mcp:air asks:
              | Which [31mseat?
            Ctrl-D declines.
              Seat, row and letter (string):   bags (integer): 
        "#]],
    );
}

#[test]
fn page_needs_a_confirmation() {
    let page = || json!({"url": {"url": "https://pay.example/1"}});
    check(
        page(),
        "y\n",
        ElicitationResponse::accept(json!({})),
        expect![[r#"

            mcp:air asks:
              | Which [31mseat?
            Open this page in a browser, if you trust the server:
            https://pay.example/1
            Continue? [y/N] "#]],
    );
    check(
        page(),
        "\n",
        ElicitationResponse::Decline,
        expect![[r#"

            mcp:air asks:
              | Which [31mseat?
            Open this page in a browser, if you trust the server:
            https://pay.example/1
            Continue? [y/N] "#]],
    );
}
