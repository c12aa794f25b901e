use super::{BuildError, ChatCompletionsBuilder};

fn builder(base_url: &str) -> ChatCompletionsBuilder {
    ChatCompletionsBuilder::new("m".into()).base_url(base_url)
}

#[test]
fn a_slash_at_the_end_does_not_matter() {
    for base_url in ["http://localhost:8080/v1", "http://localhost:8080/v1/", " http://localhost:8080/v1// "]
    {
        let endpoint = builder(base_url).endpoint().unwrap();
        assert_eq!(
            (endpoint.base_url.as_str(), endpoint.address.as_str()),
            ("http://localhost:8080/v1", "http://localhost:8080")
        );
    }
}

#[test]
fn a_base_url_that_is_none_is_refused_with_an_example() {
    for base_url in ["localhost:8080/v1", "", "ftp://localhost/v1", "http://"] {
        let error = builder(base_url).build().unwrap_err();
        assert!(matches!(error, BuildError::BaseUrl { .. }));
        assert!(error.to_string().contains(r#"give one such as "http://localhost:8080/v1""#), "{error}");
    }
}

#[test]
fn what_no_header_can_hold_is_refused_without_showing_it() {
    let error = builder("http://localhost/v1").api_key("sk-sec\nret").build().unwrap_err();
    assert!(matches!(error, BuildError::ApiKey));
    let error = builder("http://localhost/v1").header("x-team", "sk-sec\nret").build().unwrap_err();
    assert!(matches!(&error, BuildError::Header { name } if name == "x-team"));
    assert!(!format!("{error:?} {error}").contains("sk-"));
}

#[test]
fn the_key_is_not_shown_by_the_endpoint_either() {
    let endpoint = builder("http://localhost/v1").api_key("sk-secret").endpoint().unwrap();
    assert!(!format!("{:?} {:?}", endpoint.headers, endpoint.key).contains("sk-"));
}

#[test]
fn openai_needs_a_key_where_the_environment_should_have_one() {
    let mut builder = builder("https://api.openai.com/v1");
    builder.from_env = true;
    let error = builder.clone().build().unwrap_err();
    assert!(error.to_string().contains("set OPENAI_API_KEY"), "{error}");
    assert!(builder.api_key("sk-1").build().is_ok());
}
