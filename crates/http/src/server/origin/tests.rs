use http::Request;

use super::{Origins, Rejection, check_singular_headers};

fn origins(hosts: &[&str], origins: &[&str]) -> Origins {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Origins::new(&own(hosts), &own(origins))
}

fn request(target: &str, headers: &[(&str, &str)]) -> Request<()> {
    let builder = Request::builder().uri(target);
    headers.iter().fold(builder, |it, (name, value)| it.header(*name, *value)).body(()).unwrap()
}

#[test]
fn host_must_be_permitted() {
    let allowed = origins(&["localhost", "::1", "API.example.org:8443", "[2001:db8::1]:80"], &[]);
    for (host, expected) in [
        ("localhost", Ok(())),
        ("LOCALHOST:8000", Ok(())),
        ("[::1]:8000", Ok(())),
        ("api.example.org:8443", Ok(())),
        ("api.example.org", Err(Rejection::ForbiddenHost)),
        ("api.example.org:8444", Err(Rejection::ForbiddenHost)),
        ("[2001:db8::1]:80", Ok(())),
        ("[2001:db8::1]:81", Err(Rejection::ForbiddenHost)),
        ("localhost.evil.example", Err(Rejection::ForbiddenHost)),
        ("evil.example", Err(Rejection::ForbiddenHost)),
        ("a b", Err(Rejection::InvalidHost)),
        ("", Err(Rejection::InvalidHost)),
    ] {
        assert_eq!(allowed.check(&request("/", &[("Host", host)])), expected, "{host}");
    }
    assert_eq!(allowed.check(&request("/", &[])), Err(Rejection::InvalidHost));
    assert_eq!(allowed.check(&request("http://localhost/", &[])), Ok(()));
    assert_eq!(allowed.check(&request("http://evil.example/", &[])), Err(Rejection::ForbiddenHost));
}

#[test]
fn only_an_empty_list_permits_every_host() {
    let host = request("/", &[("Host", "any.example")]);
    assert_eq!(origins(&[], &[]).check(&host), Ok(()));
    assert_eq!(origins(&[" "], &[]).check(&host), Err(Rejection::ForbiddenHost));
}

/// An origin without a port has the default port of its scheme, in the list and in a request.
#[test]
fn origin_must_be_permitted() {
    let allowed = origins(
        &[],
        &["http://localhost:*", "http://[::1]:*", "https://app.example.org", "https://b.example:8443", "x"],
    );
    for (origin, is_permitted) in [
        ("http://localhost", true),
        ("http://LOCALHOST:5173", true),
        ("https://localhost", false),
        ("http://[::1]:3000", true),
        ("https://app.example.org", true),
        ("https://app.example.org:443", true),
        ("https://app.example.org:8443", false),
        ("http://app.example.org", false),
        ("https://b.example:8443", true),
        ("https://b.example", false),
        ("https://app.example.org.evil.example", false),
        ("null", false),
        ("", false),
        ("x", false),
    ] {
        let checked = allowed.check(&request("/", &[("Host", "h"), ("Origin", origin)]));
        let expected = if is_permitted { Ok(()) } else { Err(Rejection::ForbiddenOrigin) };
        assert_eq!(checked, expected, "{origin}");
    }
    assert_eq!(allowed.check(&request("/", &[("Host", "h")])), Ok(()));
    let null = request("/", &[("Host", "h"), ("Origin", "null")]);
    assert_eq!(origins(&[], &["null"]).check(&null), Ok(()));
    assert_eq!(origins(&[], &["https://a.example:1:*"]).check(&null), Err(Rejection::ForbiddenOrigin));
}

/// The default port of the scheme may be omitted in `Host` and in the target of a request.
#[test]
fn host_and_target_are_compared_without_the_default_port() {
    for (target, host, is_equal) in [
        ("http://h/mcp", "h", true),
        ("http://h:80/mcp", "h", true),
        ("http://h/mcp", "H:80", true),
        ("http://h:80/mcp", "h:", true),
        ("https://h:443/mcp", "h", true),
        ("http://[::1]:80/mcp", "[::1]", true),
        ("/mcp", "h", true),
        ("http://h:443/mcp", "h", false),
        ("https://h:80/mcp", "h", false),
        ("http://h:8080/mcp", "h:80", false),
        ("http://h:80/mcp", "g", false),
    ] {
        let checked = check_singular_headers(&request(target, &[("Host", host)]));
        assert_eq!(checked.is_ok(), is_equal, "{target}, {host}");
    }
}
