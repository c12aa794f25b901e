use super::{TAIL_CHARS, tail};

#[test]
fn tail_is_a_single_line_of_limited_length() {
    assert_eq!(tail(""), "");
    assert_eq!(tail("one\ntwo\x1b"), "one two ");
    let fits = "é".repeat(TAIL_CHARS);
    assert_eq!(tail(&fits), fits);
    assert_eq!(tail(&format!("a{fits}")), format!("…{fits}"));
}

/// The progress in a prompt of 1,897 tokens is printed six times, in passes of 64 tokens.
#[cfg(feature = "local")]
#[test]
fn progress_is_printed_at_each_fifth() {
    let positions: Vec<u64> = (0..1897).step_by(64).chain([1897]).collect();
    let mut printed = Vec::new();
    let mut before = 0;
    for done in positions {
        if super::is_milestone(before, done, 1897) {
            printed.push(done);
        }
        before = done;
    }
    assert_eq!(printed, [0, 384, 768, 1152, 1536, 1897]);
}
