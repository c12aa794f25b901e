use std::path::Path;

use expect_test::expect;

use super::{Snapshot, changes, parse_catalogue, render_catalogue, source_of};

/// Returns the catalogue of the table `models`, read on 2026-11-30.
fn catalogue(models: &str) -> String {
    let snapshot: Snapshot =
        serde_json::from_str(&format!(r#"{{"date": "2026-11-30", "models": {{{models}}}}}"#)).unwrap();
    render_catalogue(&snapshot.date, "litellm 1.2.3", &snapshot.cards()).unwrap()
}

/// Returns the context windows of the models with these providers, maximum inputs and outputs.
fn windows<const N: usize>(limits: [(&str, u32, u32); N]) -> Vec<u64> {
    let entry = |(index, (provider, input, output)): (usize, &(&str, u32, u32))| {
        format!(
            r#""m{index}": {{"litellm_provider": "{provider}", "mode": "chat", "max_input_tokens": {input}, "max_output_tokens": {output}}}"#
        )
    };
    let text = catalogue(&limits.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
    parse_catalogue(&text).values().map(|card| card["context_window"].as_u64().unwrap()).collect()
}

#[test]
fn chat_models_are_converted_and_sorted() {
    let text = catalogue(
        r#"
        "sample_spec": {"litellm_provider": "one of", "mode": "one of", "max_input_tokens": "a number"},
        "gpt-5.6": {
            "litellm_provider": "openai", "mode": "chat", "max_input_tokens": 922000, "max_output_tokens": 128000,
            "input_cost_per_token": 4e-06, "cache_read_input_token_cost": 4e-07,
            "cache_creation_input_token_cost": 5e-06, "output_cost_per_token": 2e-05,
            "supports_vision": true, "supports_pdf_input": true, "supports_function_calling": true,
            "supports_response_schema": true, "supports_reasoning": true, "supports_audio_input": null
        },
        "deepseek-flash": {
            "litellm_provider": "deepseek", "mode": "chat", "max_input_tokens": 1000, "max_output_tokens": 1000,
            "input_cost_per_token": 2.8e-07, "cache_creation_input_token_cost": 0.0, "output_cost_per_token": 1.2e-06
        },
        "gemini/gemma-4": {
            "litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 2000, "max_output_tokens": 10,
            "input_cost_per_token": 0, "output_cost_per_token": 0.0, "supports_audio_input": true
        },
        "azure/gpt-5.6": {"litellm_provider": "azure", "mode": "chat", "max_input_tokens": 922000}
        "#,
    );
    expect![[r#"
        {"date":"2026-11-30","source":"litellm 1.2.3"}
        {"provider":"deepseek","name":"deepseek-flash","context_window":1000,"price":{"input":0.28,"output":1.2}}
        {"provider":"gemini","name":"gemma-4","context_window":2000,"max_output_tokens":10,"audio":true}
        {"provider":"openai","name":"gpt-5.6","context_window":1050000,"max_output_tokens":128000,"images":true,"files":true,"native_tools":true,"json_schema":true,"reasoning":true,"price":{"input":4.0,"cached_input":0.4,"cache_write":5.0,"output":20.0}}
    "#]]
    .assert_eq(&text);
}

#[test]
fn window_of_openai_includes_the_reply() {
    let limits = [("openai", 272_000, 128_000), ("openai", 922_000, 128_000)];
    assert_eq!(windows(limits), [400_000, 1_050_000]);
    // The maximum input is already the window.
    let limits = [("openai", 1_050_000, 128_000), ("openai", 400_000, 272_000), ("openai", 128_000, 16_384)];
    assert_eq!(windows(limits), [1_050_000, 400_000, 128_000]);
    assert_eq!(windows([("anthropic", 272_000, 128_000)]), [272_000]);
}

#[test]
fn other_models_are_left_out() {
    let entry = |name: &str, more: &str| {
        format!(
            r#""{name}": {{"litellm_provider": "gemini", "max_input_tokens": 9000, "mode": "chat"{more}}}"#
        )
    };
    let entries = [
        entry("gemini/kept", ""),
        entry("gemini/kept-until-tomorrow", r#", "deprecation_date": "2026-12-01""#),
        entry("gemini/images-too", r#", "supported_output_modalities": ["text", "image"]"#),
        entry("gemini/shut-down", r#", "deprecation_date": "2026-11-30""#),
        entry("gemini/music", r#", "supported_output_modalities": ["audio"]"#),
        entry("gemini/video", r#", "supported_output_modalities": ["text", "video"]"#),
        entry("gemini/pro-preview-tts", ""),
        entry("gemini/robotics-er", ""),
        entry("gemini/learnlm-1.5", ""),
        entry("ft:model", ""),
        r#""gemini/embedding": {"litellm_provider": "gemini", "mode": "embedding", "max_input_tokens": 9000}"#.into(),
        r#""gemini/no-limit": {"litellm_provider": "gemini", "mode": "chat"}"#.into(),
    ];
    let text = catalogue(&entries.join(","));
    let names: Vec<_> = parse_catalogue(&text).into_keys().collect();
    assert_eq!(names, ["gemini/images-too", "gemini/kept", "gemini/kept-until-tomorrow"]);
}

#[test]
fn changes_of_a_refresh_are_listed() {
    let earlier = parse_catalogue(
        r#"{"date":"2026-01-01","source":"litellm 1.2.2"}
{"provider":"a","name":"changed","context_window":1,"images":true,"price":{"input":1.0,"output":2.0}}
{"provider":"a","name":"removed","context_window":1}
{"provider":"a","name":"same","context_window":1}"#,
    );
    let later = parse_catalogue(
        r#"{"date":"2026-11-30","source":"litellm 1.2.3"}
{"provider":"a","name":"added","context_window":1}
{"provider":"a","name":"changed","context_window":2,"price":{"input":1.0,"output":3.0}}
{"provider":"a","name":"same","context_window":1}"#,
    );
    expect![[r#"
        added   a/added
        removed a/removed
        changed a/changed: context_window 2 (was 1), price {"input":1.0,"output":3.0} (was {"input":1.0,"output":2.0}), images null (was true)"#]]
    .assert_eq(&changes(&earlier, &later).join("\n"));
}

#[test]
fn source_is_the_name_and_version_of_the_wheel() {
    let wheel = Path::new("folder/litellm-1.110.2-cp310-abi3-manylinux_2_28_x86_64.whl");
    assert_eq!(source_of(wheel).unwrap(), "litellm 1.110.2");
    source_of(Path::new("other-1.0-py3-none-any.whl")).unwrap_err();
}
