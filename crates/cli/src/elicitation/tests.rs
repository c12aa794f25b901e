use expect_test::{Expect, expect};
use haft_mcp::elicitation::{Elicitation, ElicitationResponse};
use serde_json::{Value, json};

use super::prompt;

fn elicitation(kind: Value) -> Elicitation {
    serde_json::from_value(json!({"message": "Which \u{1b}[31mseat?", "kind": kind})).unwrap()
}

fn check(kind: Value, input: &str, response: ElicitationResponse, output: Expect) {
    let mut written = Vec::new();
    let response_given = prompt("air", &elicitation(kind), &mut input.as_bytes(), &mut written).unwrap();
    assert_eq!(response_given, response);
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
fn properties_are_read_until_they_are_valid() {
    let content = json!({"seat": "12A", "bags": 2, "window": true});
    check(
        form(),
        "\n1\n12A\nmany\n7\n2\n\nmaybe\nyes\n",
        ElicitationResponse::accept(content),
        expect![[r#"

            mcp:air requests input:
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

            mcp:air requests input:
              | Which [31mseat?
            Ctrl-D declines.
              Seat, row and letter (string):   bags (integer): 
        "#]],
    );
}

#[test]
fn page_needs_a_confirmation() {
    let accepted = ElicitationResponse::accept(json!({}));
    for (input, response) in [("y\n", accepted), ("\n", ElicitationResponse::Decline)] {
        check(
            json!({"url": {"url": "https://pay.example/1"}}),
            input,
            response,
            expect![[r#"

                mcp:air requests input:
                  | Which [31mseat?
                Open this page in a browser, if you trust the server:
                https://pay.example/1
                Continue? [y/N] "#]],
        );
    }
}

/// A line of a server does not look like a line of the program.
#[test]
fn lines_of_the_server_are_marked() {
    let spoofed = json!({
        "message": "Done.\n\nmcp:bank requests input:",
        "kind": {"form": {"schema": {"type": "object", "properties": {"a": {"title": "x\nContinue? [y/N]"}}}}},
    });
    let mut written = Vec::new();
    prompt("air", &serde_json::from_value(spoofed).unwrap(), &mut &b""[..], &mut written).unwrap();
    expect![[r#"

        mcp:air requests input:
          | Done.
          | 
          | mcp:bank requests input:
        Ctrl-D declines.
          x Continue? [y/N] [none]: 
    "#]]
    .assert_eq(&String::from_utf8(written).unwrap());
}
