/// Returns `true` if `text` matches `pattern`, in which `*` stands for any number of characters.
/// The comparison is case-sensitive, and other characters have no special meaning.
///
/// # Examples
///
/// ```
/// use haft_text::matches_wildcard;
///
/// assert!(matches_wildcard("read_*", "read_file"));
/// assert!(!matches_wildcard("read_*", "write_file"));
/// ```
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches_wildcard;

    #[test]
    fn asterisk_stands_for_any_characters() {
        for (pattern, text) in
            [("*", ""), ("*", "a"), ("a*", "abc"), ("*c", "abc"), ("a*c", "ac"), ("a*b*c*", "axbyc")]
        {
            assert!(matches_wildcard(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", "ab"), ("a*", "ba"), ("ab*b", "ab"), ("a*b*c", "acb"), ("*x*", "abc")]
        {
            assert!(!matches_wildcard(pattern, text), "{pattern} {text}");
        }
    }
}
