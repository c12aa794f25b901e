use expect_test::expect;

use super::cpu_time;
use super::measure::count_third_party;
use super::table::{Bound, Row, render};

#[test]
fn cpu_time_counts_child_processes() {
    let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 500 600 11 13 20 0 1 0 99";
    assert_eq!(cpu_time::parse_child_ticks(stat), Some(24));
    assert_eq!(cpu_time::parse_child_ticks("7 (cut) S 1"), None);
}

#[test]
fn crates_of_the_workspace_are_not_counted() {
    let tree = "haft-core v0.1.0 (/haft/crates/core)\nserde v1.0.2\nserde_derive v1.0.2 (proc-macro)\n\
                serde v1.0.2 (*)\nsyn v2.0.1\nsyn v3.0.1\n\nserde_derive v1.0.2 (proc-macro) (*)\n";
    assert_eq!(count_third_party(tree), 4);
}

#[test]
fn table_marks_values_over_their_bound() {
    let rows = [
        Row { name: "crates: core".to_owned(), value: 97.0, unit: "", bound: Bound::AtMost(100.0) },
        Row { name: "program: haft".to_owned(), value: 31.25, unit: "MB", bound: Bound::AtMost(25.0) },
        Row { name: "program: demo".to_owned(), value: 20.0, unit: "MB", bound: Bound::None },
    ];
    let expected = expect![[r#"
        crates: core             97  at most 100
        program: haft       31.2 MB  at most 25.0 MB  OVER
        program: demo       20.0 MB
    "#]];
    expected.assert_eq(&render(&rows));
}
