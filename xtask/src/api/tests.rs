use expect_test::expect;

use super::error_message;
use super::release::{is_compatible, parse_version};
use super::snapshot::{difference, format_version};

#[test]
fn difference_lists_removed_and_added_items() {
    let old = "pub mod a\npub fn a::f()\npub fn a::g()\n";
    let new = "pub fn a::g()\npub mod a\npub fn a::f(u8)\n";
    let expected = expect![[r#"
        docs/api/a.txt:
        -pub fn a::f()
        +pub fn a::f(u8)
    "#]];
    expected.assert_eq(&difference("docs/api/a.txt", old, new).expect("a difference"));
    assert_eq!(difference("docs/api/a.txt", old, "pub fn a::g()\npub fn a::f()\npub mod a\n"), None);
}

/// `--update` writes the current API to the snapshots, so it accepts every difference from them. It
/// does not accept the removal of an item of the latest release.
#[test]
fn update_is_no_remedy_for_removed_items() {
    let finding = ["-pub mod a".to_owned()];
    let message = |changes, removals| error_message(changes, removals).unwrap_or_default();
    expect![""].assert_eq(message(&[], &[]));
    expect!["the public API has changed: `cargo xtask api --update` accepts the change"]
        .assert_eq(message(&finding, &[]));
    let removed = expect![
        "the public API lacks items of the latest release: restore them or set an incompatible version"
    ];
    removed.assert_eq(message(&[], &finding));
    removed.assert_eq(message(&finding, &finding));
}

#[test]
fn versions_are_compatible_as_for_cargo() {
    for (old, new, expected) in [
        ("0.1.0", "0.1.4", true),
        ("0.1.0", "0.2.0", false),
        ("0.0.1", "0.0.2", false),
        ("1.2.0", "1.9.1", true),
        ("1.2.0", "2.0.0", false),
    ] {
        let compatible =
            is_compatible(parse_version(old).expect("a version"), parse_version(new).expect("a version"));
        assert_eq!(compatible, expected, "{old} to {new}");
    }
    assert_eq!(parse_version("1.0.0-rc.1"), None);
}

#[test]
fn format_is_the_last_field() {
    assert_eq!(format_version(r#"{"root":0,"docs":"\"format_version\":1","format_version":57}"#), Some(57));
    assert_eq!(format_version("{}"), None);
}
