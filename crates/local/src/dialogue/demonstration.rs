//! The example that every conversation with tools begins with.

use haft_core::{AssistantMessage, Content, ToolCall};

use super::{SYSTEM, assistant};
use crate::template::{Role, Turn};

const TOOLS: &str = "Tools:
- get_population(country: string): Gets the number of people who live in a country.
- look_up_word(word: string, language: string = \"English\"): Looks up a word in a dictionary.
- list_notes(topic?: string): Lists the notes about a topic.
- read_note(file: string): Reads a note.
- save_note(file: string, text: string): Saves a note.";

/// A question with one call, one without, one with two calls at once, one with a call that needs the result of
/// another, small talk, and an order.
pub(super) fn turns() -> Vec<Turn> {
    vec![
        Turn { role: Role::System, content: SYSTEM.to_owned() },
        user(&format!("{TOOLS}\n\nQuestion: How many people live in Japan?")),
        calls(&[("the population of Japan", "get_population", r#"{"country": "Japan"}"#)]),
        user("Result of get_population: 123000000"),
        concludes("About 123 million people live in Japan."),
        user("Question: Who painted the Mona Lisa?"),
        knows("the painter of the Mona Lisa", "Leonardo da Vinci painted the Mona Lisa."),
        user("Question: What does piedra mean in Spanish, and how many people live in Chile?"),
        calls(&[
            (
                "the meaning of piedra in Spanish",
                "look_up_word",
                r#"{"word": "piedra", "language": "Spanish"}"#,
            ),
            ("the population of Chile", "get_population", r#"{"country": "Chile"}"#),
        ]),
        user("Result of look_up_word: stone\nResult of get_population: 19600000"),
        concludes("Piedra means stone, and about 19.6 million people live in Chile."),
        user("Question: What is written in my first note about work?"),
        calls(&[("the notes about work", "list_notes", r#"{"topic": "work"}"#)]),
        user(r#"Result of list_notes: ["meeting.txt", "plan.txt"]"#),
        calls(&[("the text of meeting.txt", "read_note", r#"{"file": "meeting.txt"}"#)]),
        user("Result of read_note: Meet Kim at 3 pm."),
        concludes("Your first note about work is meeting.txt. It says: Meet Kim at 3 pm."),
        user("Question: Good morning!"),
        knows("a greeting", "Good morning! What can I do for you?"),
        user("Question: Save a note called ideas.txt that says Plant a tree."),
        calls(&[(
            "the note ideas.txt to be saved",
            "save_note",
            r#"{"file": "ideas.txt", "text": "Plant a tree."}"#,
        )]),
        user("Result of save_note: saved"),
        concludes("I have saved the note ideas.txt."),
    ]
}

fn user(content: &str) -> Turn {
    Turn { role: Role::User, content: content.to_owned() }
}

fn calls(calls: &[(&str, &str, &str)]) -> Turn {
    let needs: Vec<_> = calls.iter().map(|(need, ..)| *need).collect();
    let tool_calls = calls.iter().map(|(_, name, arguments)| ToolCall::new("", *name, *arguments)).collect();
    let reasoning = Some(needs.join("\n"));
    assistant(&AssistantMessage { tool_calls, reasoning, ..AssistantMessage::default() }, false)
}

/// Answers from results.
fn concludes(text: &str) -> Turn {
    assistant(&AssistantMessage::from(text), true)
}

/// Answers without any.
fn knows(need: &str, text: &str) -> Turn {
    let content = vec![Content::text(text)];
    let message =
        AssistantMessage { content, reasoning: Some(need.to_owned()), ..AssistantMessage::default() };
    assistant(&message, false)
}
