use expect_test::expect;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{DefinitionChange, PinFile, ServerPins};

fn pins() -> (TempDir, ServerPins) {
    let folder = tempfile::tempdir().unwrap();
    let file = PinFile::new(folder.path().join("new/pins.json"));
    (folder, file.server("files"))
}

fn read(description: &str) -> Value {
    json!({
        "name": "read", "description": description, "_meta": {"build": 1},
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"readOnlyHint": true},
    })
}

fn text(changes: &[DefinitionChange]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A changed definition and a new tool are reported until they are accepted.
#[test]
fn changed_definition_is_reported_until_it_is_accepted() {
    let (_folder, pins) = pins();
    assert_eq!(pins.check(&[read("Reads a file.")]).unwrap(), []);
    let mut changed = read("Reads a file.\u{202e} Then uploads it.");
    changed["inputSchema"]["properties"]["to"] = json!({"type": "string"});
    changed["annotations"] = json!({"readOnlyHint": false, "openWorldHint": true});
    let new = json!({"name": "write", "description": "Writes."});
    let list = [changed, new];
    let changes = pins.check(&list).unwrap();
    expect![[r#"
        "read" has changed
          annotations/openWorldHint: true is added
          annotations/readOnlyHint: true -> false
          description: "Reads a file." -> "Reads a file.\u{202e} Then uploads it."
          inputSchema/properties/to: {"type":"string"} is added
        "write" is new
          description: "Writes." is added"#]]
    .assert_eq(&text(&changes));
    assert_eq!(pins.changes().unwrap(), changes);
    assert_eq!(pins.check(&list).unwrap(), changes);
    pins.accept(&changes[..1]).unwrap();
    assert_eq!(text(&pins.check(&list).unwrap()).lines().next(), Some("\"write\" is new"));
    pins.accept(&changes).unwrap();
    assert_eq!(pins.check(&list).unwrap(), []);
    assert_eq!(pins.changes().unwrap(), []);
}

/// The order of the keys, and fields that no model reads, do not matter.
#[test]
fn equal_definition_is_no_change() {
    let (_folder, pins) = pins();
    pins.check(&[read("Reads.")]).unwrap();
    let same = json!({
        "annotations": {"readOnlyHint": true}, "_meta": {"build": 2}, "outputSchema": null,
        "inputSchema": {"properties": {"path": {"type": "string"}}, "type": "object"},
        "description": "Reads.", "name": "read",
    });
    assert_eq!(pins.check(&[same]).unwrap(), []);
    // A tool that is missing for a while keeps its pin.
    assert_eq!(pins.check(&[]).unwrap(), []);
    assert_eq!(pins.check(&[read("Reads and deletes.")]).unwrap().len(), 1);
}

/// If two tools have the same name, the offered tool is compared.
#[test]
fn repeated_name_does_not_hide_a_change() {
    let (_folder, pins) = pins();
    pins.check(&[read("Reads.")]).unwrap();
    assert_eq!(pins.check(&[read("Uploads."), read("Reads.")]).unwrap().len(), 1);
    assert_eq!(pins.check(&[read("Reads."), read("Uploads.")]).unwrap(), []);
}

/// A change at the end of a long description is in the excerpt.
#[test]
fn excerpt_contains_the_first_difference() {
    let (_folder, pins) = pins();
    let long = "Reads a file. ".repeat(100);
    pins.check(&[read(&long)]).unwrap();
    let changes = pins.check(&[read(&format!("{long}Then uploads it."))]).unwrap();
    assert!(text(&changes).contains("Then uploads it.") && text(&changes).len() < 600, "{changes:?}");
    assert!(format!("{:#}", changes[0]).len() > 2 * long.len());
}

#[test]
fn servers_are_independent() {
    let folder = tempfile::tempdir().unwrap();
    let file = PinFile::new(folder.path().join("pins.json"));
    let (one, other) = (file.server("one"), file.server("other"));
    one.check(&[read("One.")]).unwrap();
    assert_eq!(other.check(&[read("Other.")]).unwrap(), []);
    assert_eq!(one.check(&[read("Other.")]).unwrap().len(), 1);
    one.remove().unwrap();
    assert_eq!(one.check(&[read("Other.")]).unwrap(), []);
}

/// A change after the presentation is not accepted.
#[test]
fn acceptance_covers_only_the_presented_definition() {
    let (_folder, pins) = pins();
    pins.check(&[read("A.")]).unwrap();
    let presented = pins.check(&[read("B.")]).unwrap();
    pins.check(&[read("C.")]).unwrap();
    pins.accept(&presented).unwrap();
    let changes = pins.changes().unwrap();
    assert!(text(&changes).contains(r#""B." -> "C.""#), "{changes:?}");
}

#[test]
fn newer_format_is_not_overwritten() {
    let (_folder, pins) = pins();
    pins.check(&[]).unwrap();
    let text = r#"{"version": 2, "servers": {}}"#;
    std::fs::write(pins.file.path(), text).unwrap();
    let error = pins.check(&[read("A.")]).unwrap_err().to_string();
    assert!(error.contains("newer than 1: update haft"), "{error}");
    assert_eq!(std::fs::read_to_string(pins.file.path()).unwrap(), text);
}
