use async_openai::config::Config as _;
use haft_core::schema::WireProfile;

use super::BuildError;
use crate::client::endpoint::{Endpoint, read_base_url};
use crate::{ChatCompletions, ChatCompletionsBuilder};

fn builder(base_url: &str) -> ChatCompletionsBuilder {
    ChatCompletions::builder("m").base_url(base_url)
}

fn endpoint(builder: &ChatCompletionsBuilder) -> Endpoint {
    builder.connection(&read_base_url(&builder.base_url).unwrap()).unwrap().0
}

#[test]
fn what_was_copied_beyond_the_version_does_not_matter() {
    for base_url in [
        "http://localhost:8080/v1",
        "http://localhost:8080/v1/",
        " http://localhost:8080/v1// ",
        "http://localhost:8080/v1/chat/completions",
        "http://localhost:8080/v1/chat/completions/",
    ] {
        let endpoint = endpoint(&builder(base_url));
        assert_eq!(
            (endpoint.api_base(), endpoint.address()),
            ("http://localhost:8080/v1", "http://localhost:8080")
        );
    }
}

#[test]
fn a_base_url_that_is_none_is_refused_with_an_example() {
    for base_url in ["localhost:8080/v1", "", "ftp://localhost/v1", "http://", "http://localhost/v1#top"] {
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
    let endpoint = endpoint(&builder("http://localhost/v1").api_key("sk-secret"));
    assert!(!format!("{:?} {:?}", endpoint.headers(), endpoint.api_key()).contains("sk-"));
}

#[test]
fn credentials_in_a_base_url_are_not_shown() {
    for base_url in
        ["ftp://me:sk-secret@localhost/v1", "me:sk-secret@localhost", "http://h:p/v1?key=sk-secret"]
    {
        let error = builder(base_url).build().unwrap_err();
        assert!(!format!("{error:?} {error}").contains("sk-secret"), "{error}");
    }
    let endpoint = endpoint(&builder("http://me:sk%2Fsecret@localhost/v1"));
    assert_eq!(endpoint.api_base(), "http://localhost/v1");
    assert_eq!(endpoint.headers()["authorization"], "Basic bWU6c2svc2VjcmV0");
}

/// The key is the more particular of two.
#[test]
fn a_key_is_sent_in_place_of_credentials_in_the_base_url() {
    let endpoint = endpoint(&builder("http://me:secret@localhost/v1").api_key("sk-1"));
    let sent: Vec<_> = endpoint.headers().get_all("authorization").iter().cloned().collect();
    assert_eq!(sent, ["Bearer sk-1"]);
}

fn from_variables(variables: &[(&str, &str)]) -> ChatCompletionsBuilder {
    let find =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    ChatCompletions::builder("m").read_variables(find)
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
    let endpoint = endpoint(&from_variables(&[("OPENAI_BASE_URL", "http://localhost:1234/v1")]));
    assert_eq!(endpoint.api_base(), "http://localhost:1234/v1");
    assert!(endpoint.headers().is_empty());
}

#[test]
fn tools_are_strict_at_openai_and_where_it_is_asked_for() {
    use WireProfile::{OpenAi, OpenAiStrict, Small};
    let schemas = |builder: ChatCompletionsBuilder| {
        builder.habits(&read_base_url(&builder.base_url).unwrap()).tool_schemas
    };
    let openai = || ChatCompletions::builder("gpt-5");
    assert_eq!(schemas(openai()), OpenAiStrict);
    assert_eq!(schemas(openai().tool_schemas(OpenAi)), OpenAi);
    assert_eq!(schemas(ChatCompletions::builder("ft:gpt-4o:me::1")), OpenAi);
    let other = || builder("http://localhost:8080/v1");
    assert_eq!(schemas(other()), OpenAi);
    assert_eq!(schemas(other().tool_schemas(Small)), Small);
}
