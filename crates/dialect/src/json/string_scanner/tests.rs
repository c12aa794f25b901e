use super::StringScanner;

/// Returns the string values in the first object of `json`, each as a pair of the path to the value
/// and the decoded text. The keys of a path are joined with `/`.
fn scanned(json: &str) -> Vec<(String, String)> {
    let (mut scanner, mut values) = (StringScanner::default(), Vec::<(String, String)>::new());
    for character in json.chars() {
        let Some((path, decoded)) = scanner.push(character) else { continue };
        match values.last_mut() {
            Some((key, value)) if *key == path.join("/") => value.push(decoded),
            _ => values.push((path.join("/"), decoded.to_string())),
        }
    }
    values
}

/// The grammar of JSON permits an escaped high surrogate without a low surrogate (RFC 8259, section
/// 8.2). A quote after an incomplete escape must end the string. Otherwise the rest of the step
/// would be streamed as thought.
#[test]
fn quote_after_an_incomplete_escape_ends_the_string() {
    for lone in [r"\ud83d", r"\ud83d\ud83d", r"\u12"] {
        let values = scanned(&format!(r#"{{"thought":"a{lone}","args":{{"answer":"42"}}}}"#));
        let expected = [("thought", "a"), ("args/answer", "42")];
        assert_eq!(values, expected.map(|(key, value)| (key.to_owned(), value.to_owned())), "{lone}");
    }
}
