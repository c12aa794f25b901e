use expect_test::expect;

use super::{Catalogue, DATA, all, date, find, prices};

#[test]
fn every_line_of_the_data_is_a_model_in_order() {
    assert_eq!(all().len(), DATA.lines().count() - 1);
    assert!(date().len() == 10 && date().starts_with("20"), "{}", date());
    let keys: Vec<_> = all().iter().map(|card| (&card.provider, &card.name)).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "the refresh writes the models in order");
    for line in DATA.lines().skip(1) {
        let card: super::ModelCard = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&card).unwrap(), line, "the fields are in order");
    }
    assert!(DATA.len() < 60_000, "{} bytes", DATA.len());
    assert!(all().iter().all(|card| find(&format!("{}/{}", card.provider, card.name)) == Some(card)));
}

/// The prices are looked up by name only.
#[test]
fn names_are_unique_among_providers() {
    let mut names: Vec<_> = all().iter().map(|card| &card.name).collect();
    names.sort();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}

#[test]
fn all_providers_have_models_with_plausible_limits_and_prices() {
    let mut providers: Vec<_> = all().iter().map(|card| card.provider.as_str()).collect();
    providers.dedup();
    expect!["anthropic deepseek gemini groq mistral moonshot openai xai"].assert_eq(&providers.join(" "));
    for card in all() {
        assert!((4_096..=4_000_000).contains(&card.context_window), "{card:?}");
        assert!(card.max_output_tokens.is_none_or(|output| output < card.context_window), "{card:?}");
        let Some(price) = card.price else { continue };
        assert!(price.input > 0.0 && price.input <= price.output && price.output < 1_000.0, "{card:?}");
        assert!(price.cached_input.is_none_or(|cached| cached > 0.0 && cached <= price.input), "{card:?}");
        assert!(price.cache_write.is_none_or(|write| write >= price.input), "{card:?}");
    }
}

/// A catalogue whose models do not change with the data.
fn small_catalogue() -> Catalogue {
    let models = [
        ("anthropic", "claude-opus-5"),
        ("anthropic", "claude-opus-5-20260101"),
        ("groq", "openai/gpt-oss-120b"),
        ("mistral", "mistral-medium"),
        ("openai", "gpt-5"),
        ("openai", "gpt-5-2025-08-07"),
        ("openai", "gpt-5-mini"),
    ];
    let lines = models.map(|(provider, name)| {
        format!("{{\"provider\":\"{provider}\",\"name\":\"{name}\",\"context_window\":4096}}")
    });
    Catalogue::parse(&format!("{{\"date\":\"2026-01-31\"}}\n{}\n", lines.join("\n")))
}

#[track_caller]
fn check_found(name: &str, expected: Option<&str>) {
    let catalogue = small_catalogue();
    let found = catalogue.find(name).map(|card| format!("{} {}", card.provider, card.name));
    assert_eq!(found.as_deref(), expected, "{name}");
}

#[test]
fn model_is_found_by_its_name_with_or_without_provider() {
    for name in ["gpt-5", "openai/gpt-5", "openai:gpt-5"] {
        check_found(name, Some("openai gpt-5"));
    }
    // The name in Groq's API contains a provider.
    for name in ["openai/gpt-oss-120b", "groq/openai/gpt-oss-120b", "groq:openai/gpt-oss-120b"] {
        check_found(name, Some("groq openai/gpt-oss-120b"));
    }
    for name in ["", "/", "gpt", "gpt-5-", "GPT-5", "mistral/gpt-5", "azure/gpt-5", "ft:gpt-5"] {
        check_found(name, None);
    }
}

#[test]
fn snapshot_is_found_by_the_name_before_its_date() {
    check_found("gpt-5-2099-01-31", Some("openai gpt-5"));
    check_found("openai/gpt-5-mini-2099-01-31", Some("openai gpt-5-mini"));
    check_found("claude-opus-5-20990131", Some("anthropic claude-opus-5"));
    check_found("anthropic:claude-opus-5-20990131", Some("anthropic claude-opus-5"));
    // Entries of their own.
    check_found("gpt-5-2025-08-07", Some("openai gpt-5-2025-08-07"));
    check_found("claude-opus-5-20260101", Some("anthropic claude-opus-5-20260101"));
}

#[test]
fn other_version_of_a_model_is_not_found() {
    for name in [
        "gpt-5.6",
        "gpt-5.6-2099-01-31",
        "gpt-5-6",
        "gpt-5-ultra",
        "gpt-5-ultra-2099-01-31",
        "claude-opus-5-6",
        "claude-opus-5-60",
        "claude-opus-5-latest",
        // Four digits are the version of a model of Mistral.
        "mistral-medium-9901",
        "mistral-medium-209901",
        "gpt-5-2099-01-31-2099-02-28",
        "gpt-5-20990131x",
        "gpt-5-19990131",
        "gpt-5é0990131",
    ] {
        check_found(name, None);
    }
}

#[test]
fn card_becomes_a_profile_and_a_price() {
    let line = r#"{"provider":"openai","name":"gpt-5","context_window":400000,"max_output_tokens":128000,"images":true,"files":true,"native_tools":true,"json_schema":true,"reasoning":true,"price":{"input":1.25,"cached_input":0.125,"output":10.0}}"#;
    let catalogue = Catalogue::parse(&format!("{{\"date\":\"2026-01-31\"}}\n{line}\n"));
    let card = catalogue.find("gpt-5").unwrap();
    assert_eq!((card.max_output_tokens, card.supports_reasoning), (Some(128_000), true));
    expect![[r#"
        {
          "name": "gpt-5",
          "native_tools": true,
          "json_schema": true,
          "images": true,
          "files": true,
          "context_window": 400000
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&card.profile()).unwrap());
    assert_eq!(card.price.unwrap().cached_input, Some(0.125));
}

#[test]
fn prices_have_the_names_of_the_cards() {
    let prices = prices();
    for card in all() {
        assert_eq!(prices.get(&card.name), card.price, "{}", card.name);
    }
    assert_eq!(prices.get("scripted"), None);
}
