//! Examples of the whole way from a question to an answer.
//!
//! Small models do what they are shown, not what they are told. Tried with Qwen2.5-Coder-0.5B-Instruct, constrained by
//! llama.cpp, on the questions of `cargo xtask eval` with canned results: by the rules alone it did not answer one of
//! the first four, calling on and on; with these examples it made the right call and then answered. The words of the
//! last thought matter: where they say less, it writes the thought again for an answer.

use serde_json::json;

use super::{super::FINISH, ANSWER, Form, render::observed};

/// The examples, after the tools of the conversation. Where the answer is data, its form stands for it.
pub(super) fn examples<F: Form>(outputs: bool) -> String {
    let lines = [
        "Examples with other tools. The question \"How many people live in Japan?\" takes two steps:"
            .to_owned(),
        F::write("I need the population of Japan.", "get_population", &json!({"country": "Japan"})),
        observed("get_population", "123000000"),
        finish::<F>(
            "The observation answers the question.",
            "About 123 million people live in Japan.",
            outputs,
        ),
        "The question \"What does piedra mean, and how many people live in Chile?\" takes three:".to_owned(),
        F::write("I look up piedra first.", "look_up_word", &json!({"word": "piedra"})),
        observed("look_up_word", "stone"),
        F::write("Now I need the population of Chile.", "get_population", &json!({"country": "Chile"})),
        observed("get_population", "19600000"),
        finish::<F>(
            "The observations answer both parts.",
            "Piedra means stone, and about 19.6 million people live in Chile.",
            outputs,
        ),
        "The question \"Who painted the Mona Lisa?\" takes one:".to_owned(),
        finish::<F>("I know this without a tool.", "Leonardo da Vinci painted the Mona Lisa.", outputs),
    ];
    lines.join("\n")
}

fn finish<F: Form>(thought: &str, answer: &str, outputs: bool) -> String {
    if outputs {
        return F::write(thought, FINISH, &json!({})).replace("{}", "{its arguments}");
    }
    F::write(thought, FINISH, &json!({ANSWER: answer}))
}
