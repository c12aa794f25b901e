//! Few-shot examples: complete trajectories, from a question to an answer.
//!
//! Small models follow examples rather than rules. We measured Qwen2.5-Coder-0.5B-Instruct,
//! constrained by llama.cpp, on the questions of `cargo xtask eval` with canned results. With only
//! the rules in the prompt, the model answered none of the first four questions and repeated calls.
//! With these examples it made the right call and then answered. The wording of the last thought
//! matters: after a shorter thought, the model repeats the thought as the answer.

use haft_core::Schema;
use serde_json::json;

use super::{ANSWER_KEY, StepFormat, is_bare, render::observation_text};
use crate::FINISH;

/// Returns the few-shot examples in the format `F`. They follow the list of tools in the system
/// message.
///
/// With `outputs`, the examples do not show the arguments of the final answer, because real answers
/// must match the declared output schema.
pub(super) fn format_examples<F: StepFormat>(outputs: Option<&Schema>) -> String {
    let lines = [
        "Examples with other tools. The question \"How many people live in Japan?\" takes two steps:"
            .to_owned(),
        F::format_step("I need the population of Japan.", "get_population", &json!({"country": "Japan"})),
        observation_text("get_population", "123000000"),
        format_finish_step::<F>(
            "The observation answers the question.",
            "About 123 million people live in Japan.",
            outputs,
        ),
        "The question \"What does piedra mean, and how many people live in Chile?\" takes three:".to_owned(),
        F::format_step("I look up piedra first.", "look_up_word", &json!({"word": "piedra"})),
        observation_text("look_up_word", "stone"),
        F::format_step("Now I need the population of Chile.", "get_population", &json!({"country": "Chile"})),
        observation_text("get_population", "19600000"),
        format_finish_step::<F>(
            "The observations answer both parts.",
            "Piedra means stone, and about 19.6 million people live in Chile.",
            outputs,
        ),
        "The question \"Who painted the Mona Lisa?\" takes one:".to_owned(),
        format_finish_step::<F>(
            "I know this without a tool.",
            "Leonardo da Vinci painted the Mona Lisa.",
            outputs,
        ),
    ];
    lines.join("\n")
}

fn format_finish_step<F: StepFormat>(thought: &str, answer: &str, outputs: Option<&Schema>) -> String {
    if is_bare(outputs) {
        return F::format_step(thought, FINISH, &json!({}));
    }
    if outputs.is_some() {
        return F::format_step(thought, FINISH, &json!({})).replace("{}", "{its arguments}");
    }
    F::format_step(thought, FINISH, &json!({ANSWER_KEY: answer}))
}
