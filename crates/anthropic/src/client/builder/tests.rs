use std::time::Duration;

use expect_test::expect;

use super::{BuildError, MessagesBuilder};
use crate::{Messages, Thinking};

fn error(builder: MessagesBuilder) -> String {
    builder.build().err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn invalid_settings_are_rejected() {
    let builder = |model: &str| Messages::builder(model);
    let errors = [
        error(builder("claude-opus-5-5").prompt_cache_ttl(Duration::from_secs(60))),
        error(builder("claude-opus-5-5").thinking(Thinking::Budget(4_096))),
        error(builder("claude-sonnet-4-5").thinking(Thinking::Adaptive)),
        error(builder("claude-sonnet-4-5").thinking(Thinking::Budget(100))),
        error(builder("claude-opus-5-5").effort("extreme")),
        error(builder("claude-opus-5-5").max_tokens(0)),
        error(builder("claude-opus-5-5").extra_field("system", "x")),
        error(builder("claude-opus-5-5").base_url("ftp://a")),
        error(builder("claude-opus-5-5").read_variables(|_| None)),
    ];
    expect![[r#"
        the setting prompt_cache_ttl cannot be 60 s: it is 5 minutes or 1 hour
        the setting thinking cannot be Budget(4096): the model has no thinking with a budget: use `Thinking::Adaptive` and `effort`
        the setting thinking cannot be Adaptive: the model has no adaptive thinking: set a budget, or nothing
        the setting thinking cannot be Budget(100): the budget is at least 1024 tokens
        the setting effort cannot be "extreme": it is one of low, medium, high, xhigh and max
        the setting max_tokens cannot be 0: it is at least 1
        the field "system" is sent by haft: set it by the builder, or by the settings of a request
        the base URL "ftp://a" cannot be used (its scheme is "ftp"): give one such as "https://api.anthropic.com"
        there is no API key for https://api.anthropic.com: set ANTHROPIC_API_KEY"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn base_url_may_end_in_the_path_of_the_api() {
    for (given, server) in [
        ("https://a.example", "https://a.example/"),
        ("https://a.example/v1", "https://a.example/"),
        ("https://a.example/x/v1/messages/", "https://a.example/x"),
    ] {
        let url = Messages::builder("m").base_url(given).server();
        assert_eq!(url.map(String::from).ok().as_deref(), Some(server), "{given}");
    }
}

#[test]
fn settings_are_read_from_the_environment() -> Result<(), BuildError> {
    let variable = |name: &str| {
        let known = [("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "http://localhost:1/v1")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let model = Messages::builder("m").read_variables(variable).build()?;
    assert_eq!(format!("{model:?}"), r#"Messages { model: "m", endpoint: "http://localhost:1", .. }"#);
    let own = Messages::builder("m").base_url("http://localhost:2").read_variables(variable).build()?;
    assert!(format!("{own:?}").contains("localhost:2"));
    Ok(())
}
