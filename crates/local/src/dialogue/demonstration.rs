//! The example that every conversation with tools begins with.

use super::{SYSTEM, answer, calls_text};
use crate::template::{Role, Turn};
use haft_core::ToolCall;

const TOOLS: &str = "Tools:
- get_population(country: string): Gets the number of people who live in a country.
- look_up_word(word: string, language: string = \"English\"): Looks up a word in a dictionary.
- list_notes(topic?: string): Lists the notes about a topic.
- read_note(file: string): Reads a note.";

/// One call without another, a question that needs none, two calls at once, one call after another, and small talk.
pub(super) fn turns() -> Vec<Turn> {
    vec![
        Turn { role: Role::System, content: SYSTEM.to_owned() },
        user(&format!("{TOOLS}\n\nQuestion: How many people live in Japan?")),
        calls(&[("get_population", r#"{"country": "Japan"}"#)]),
        user("Result of get_population: 123000000"),
        says("About 123 million people live in Japan."),
        user("Question: Who painted the Mona Lisa?"),
        says("Leonardo da Vinci painted the Mona Lisa."),
        user("Question: What does piedra mean in Spanish, and how many people live in Chile?"),
        calls(&[
            ("look_up_word", r#"{"word": "piedra", "language": "Spanish"}"#),
            ("get_population", r#"{"country": "Chile"}"#),
        ]),
        user("Result of look_up_word: stone\nResult of get_population: 19600000"),
        says("Piedra means stone, and about 19.6 million people live in Chile."),
        user("Question: What is written in my first note about work?"),
        calls(&[("list_notes", r#"{"topic": "work"}"#)]),
        user(r#"Result of list_notes: ["meeting.txt", "plan.txt"]"#),
        calls(&[("read_note", r#"{"file": "meeting.txt"}"#)]),
        user("Result of read_note: Meet Kim at 3 pm."),
        says("Your first note about work is meeting.txt. It says: Meet Kim at 3 pm."),
        user("Question: Good morning!"),
        says("Good morning! What can I do for you?"),
    ]
}

fn user(content: &str) -> Turn {
    Turn { role: Role::User, content: content.to_owned() }
}

fn says(text: &str) -> Turn {
    Turn { role: Role::Assistant, content: answer(text) }
}

fn calls(calls: &[(&str, &str)]) -> Turn {
    let calls: Vec<_> = calls.iter().map(|(name, arguments)| ToolCall::new("", *name, *arguments)).collect();
    Turn { role: Role::Assistant, content: calls_text(&calls) }
}
