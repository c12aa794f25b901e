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

fn from_variables(variables: &[(&str, &str)]) -> ChatCompletionsBuilder {
    let find =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    ChatCompletionsBuilder::new("m".into()).read_variables(find)
}

#[test]
fn openai_needs_a_key_where_the_environment_should_have_one() {
    for none in [from_variables(&[]), from_variables(&[("OPENAI_API_KEY", " "), ("OPENAI_BASE_URL", "")])] {
        let error = none.build().unwrap_err();
        assert!(error.to_string().contains("set OPENAI_API_KEY"), "{error}");
    }
    assert!(from_variables(&[("OPENAI_API_KEY", "sk-1")]).build().is_ok());
}

#[test]
fn another_server_of_the_environment_needs_no_key() {
    let endpoint = from_variables(&[("OPENAI_BASE_URL", "http://localhost:1234/v1")]).endpoint().unwrap();
    assert_eq!(endpoint.base_url, "http://localhost:1234/v1");
    assert!(endpoint.headers.is_empty());
}
