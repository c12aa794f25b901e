use ::http::{HeaderMap, HeaderValue, header::WWW_AUTHENTICATE};

use super::BearerChallenge;

fn challenge(lines: &[&str]) -> Option<BearerChallenge> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap());
    }
    BearerChallenge::of(&headers)
}

/// Each of these responses names the same metadata and the same scopes.
#[test]
fn challenge_is_parsed_in_all_forms() {
    let lines: &[&[&str]] = &[
        &[r#"Bearer resource_metadata="https://a.example/m", scope="read write""#],
        &[r#"bearer Resource_Metadata = "https://a.example/m" ,  SCOPE ="read write""#],
        &["Bearer resource_metadata=https://a.example/m, scope=\"read write\""],
        &["Bearer\tresource_metadata=\"https://a.example/m\"\tscope=\"read write\""],
        &[r#"Bearer resource_metadata="https://a.example/m"; scope="read write""#],
        &[r#"Bearer resource_metadata="https:\/\/a.example/m", scope="read\ write""#],
        &[
            r#"Basic realm="a, Bearer scope=x", Bearer resource_metadata="https://a.example/m", scope="read write""#,
        ],
        &[
            r#"Negotiate, NTLM TlRMTVNT/+8=, Bearer resource_metadata="https://a.example/m", scope="read write""#,
        ],
        &[
            r#"Negotiate YII==, Bearer resource_metadata="https://a.example/m",scope="read write",Basic realm=b"#,
        ],
        &["Basic realm=\"scope=x\"", r#"Bearer scope="read write", resource_metadata="https://a.example/m""#],
        &["Bearer realm=\"a\"", r#"Bearer scope="read write", resource_metadata="https://a.example/m""#],
        &["Bearer scope=\"read write\"", r#"DPoP algs="ES256", resource_metadata="https://a.example/m""#],
        &[
            r#"Bearer error="invalid_token", error_description="a \"scope=x\" is wrong", scope="read write", resource_metadata="https://a.example/m""#,
        ],
        &[", ,", r#"Bearer , scope="read write",,resource_metadata="https://a.example/m","#],
    ];
    for lines in lines {
        let challenge = challenge(lines).unwrap();
        assert_eq!(challenge.parameter("resource_metadata"), Some("https://a.example/m"), "{lines:?}");
        assert_eq!(challenge.parameter("scope"), Some("read write"), "{lines:?}");
    }
}

/// A name inside of a value is no parameter.
#[test]
fn values_are_not_searched() {
    let found = challenge(&[
        r#"Basic realm="scope=a, resource_metadata=\"https://b.example/\"", Bearer realm="error=c""#,
    ]);
    assert_eq!(found.as_ref().and_then(|it| it.parameter("scope")), None);
    assert_eq!(found.as_ref().and_then(|it| it.parameter("resource_metadata")), None);
    assert_eq!(found.unwrap().to_string(), "Bearer");
    for lines in [&["Basic realm=\"Bearer\""][..], &["Negotiate"], &["\"Bearer\""], &[]] {
        assert_eq!(challenge(lines), None, "{lines:?}");
    }
}

/// The form for rmcp has the parameters of discovery only.
#[test]
fn challenge_is_written_in_one_form() {
    let found = challenge(&[r#"BEARER realm=x, resource_metadata = "https://a.example/?scope=z", scope=a"#]);
    assert_eq!(
        found.unwrap().to_string(),
        r#"Bearer scope="a", resource_metadata="https://a.example/?scope=z""#
    );
    let found = challenge(&[r#"Basic realm="a", Bearer scope = "say \"a\"""#]);
    assert_eq!(found.unwrap().to_string(), r#"Bearer scope="say \"a\"""#);
}
