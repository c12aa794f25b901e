//! The header `WWW-Authenticate` (RFC 9110, section 11.6.1).

/// Returns the parameter `name` of the first challenge in `challenges` that has it. White space
/// around `=` is permitted, and a value is a token or a quoted string.
pub(super) fn parameter(challenges: &str, name: &str) -> Option<String> {
    let mut rest = challenges;
    loop {
        // A quoted string may contain commas and equals signs.
        let end = rest.find(['=', '"'])?;
        let (before, after) = rest.split_at(end);
        if after.starts_with('"') {
            rest = quoted(after)?.1;
            continue;
        }
        let value = after.get(1..)?.trim_start();
        // A scheme may precede the first parameter: `Bearer realm="x"`.
        let key = before.trim_end().rsplit([' ', '\t', ',']).next().unwrap_or_default();
        let (text, next) = match value.starts_with('"') {
            true => quoted(value)?,
            false => {
                let (token, next) = value.split_at(value.find([',', ';', ' ', '\t']).unwrap_or(value.len()));
                (token.to_owned(), next)
            }
        };
        if key.eq_ignore_ascii_case(name) && !text.is_empty() {
            return Some(text);
        }
        rest = next;
    }
}

/// Returns the value of the quoted string at the beginning of `text`, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((position, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(position + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parameter;

    #[test]
    fn parameter_is_found_in_each_form() {
        for (challenges, expected) in [
            (r#"Bearer scope="files:read files:write""#, Some("files:read files:write")),
            (r#"Bearer realm="a, scope=b", Scope = "read""#, Some("read")),
            (r#"Basic realm="x", Bearer error="insufficient_scope" , scope	=	read"#, Some("read")),
            ("Bearer scope=read,error=x", Some("read")),
            (r#"Bearer scope="a\"b""#, Some("a\"b")),
            (r#"Negotiate abc==, Bearer scope="read""#, Some("read")),
            (r#"Bearer x_scope="read""#, None),
            (r#"Bearer scope="read"#, None),
            (r#"Bearer scope="""#, None),
            ("Bearer", None),
        ] {
            assert_eq!(parameter(challenges, "scope").as_deref(), expected, "{challenges}");
        }
    }
}
