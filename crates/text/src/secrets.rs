use std::{borrow::Cow, cmp::Reverse};

/// The minimum length of the beginning of a truncated secret, in bytes. A shorter text may be the
/// beginning of another word.
const MIN_BEGINNING_BYTES: usize = 8;

/// Replaces each of `secrets` in `text`, for example in the error message of a server that repeats
/// the credentials of a request.
///
/// A secret that is truncated at the end of `text`, or before an ellipsis at the end, is also
/// replaced if at least 8 bytes of it are left. Secrets may contain one another. Omit short
/// secrets, because they may occur inside other words.
///
/// # Examples
///
/// ```
/// use haft_text::without_secrets;
///
/// let header = ["Bearer s3cret-token", "s3cret-token"];
/// assert_eq!(without_secrets("invalid: Bearer s3cret-token", header, "[secret]"), "invalid: [secret]");
/// assert_eq!(without_secrets("invalid: s3cret-t…", header, "[secret]"), "invalid: [secret]…");
/// ```
pub fn without_secrets<'t, 's>(
    text: &'t str,
    secrets: impl IntoIterator<Item = &'s str>,
    replacement: &str,
) -> Cow<'t, str> {
    let mut secrets: Vec<_> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
    secrets.sort_unstable_by_key(|secret| Reverse(secret.len()));
    let mut text = Cow::Borrowed(text);
    for secret in &secrets {
        if text.contains(secret) {
            text = text.replace(secret, replacement).into();
        }
    }
    let (start, end) = text.strip_suffix('…').map_or((&*text, ""), |start| (start, "…"));
    match secrets.iter().filter_map(|secret| without_beginning(start, secret)).min_by_key(|rest| rest.len()) {
        Some(rest) => format!("{rest}{replacement}{end}").into(),
        None => text,
    }
}

/// Returns `text` without the longest beginning of `secret` at its end.
fn without_beginning<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    let beginnings = (MIN_BEGINNING_BYTES..secret.len()).rev().filter_map(|end| secret.get(..end));
    beginnings.into_iter().find_map(|beginning| text.strip_suffix(beginning))
}

#[cfg(test)]
mod tests {
    fn without_secrets<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
        super::without_secrets(text, secrets, "[secret]").into_owned()
    }

    #[test]
    fn secrets_are_replaced_longest_first() {
        assert_eq!(without_secrets("a key-1234567 b", ["key-1", "key-1234567"]), "a [secret] b");
        assert_eq!(without_secrets("key-1 key-1", ["", "key-1"]), "[secret] [secret]");
        assert_eq!(without_secrets("no secret", ["key-1"]), "no secret");
    }

    #[test]
    fn truncated_secret_is_replaced() {
        let secrets = ["key-1234567", "Bearer key-1234567"];
        assert_eq!(without_secrets("no key-123456", secrets), "no [secret]");
        assert_eq!(without_secrets("no Bearer key-1234…", secrets), "no [secret]…");
        assert_eq!(without_secrets("no key-123", secrets), "no key-123");
        assert_eq!(without_secrets("größe", ["größere Summe"]), "größe");
    }
}
