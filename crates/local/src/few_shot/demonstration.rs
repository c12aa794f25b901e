//! The demonstration: worked examples at the beginning of every conversation with tools.

use haft_core::{ToolCall, content::Content, message::AssistantMessage};

use super::dialogue::{SYSTEM, assistant, result_text};
use crate::template::{Role, Turn};

const TOOLS: &str = "Tools:
- get_population(country: string): Gets the number of people who live in a country.
- look_up_word(word: string, language: string /* The ISO 639 code, such as de */ = \"en\"): Looks up a word in a dictionary.
- list_notes(topic?: string): Lists the notes about a topic.
- read_note(file: string): Reads a note.
- save_note(file: string, text: string): Saves a note.";

/// Creates the turns of the demonstration. They show a question with one call, a question without
/// calls, a question with two parts, a call that needs the result of another call, an instruction
/// with two parallel calls, and small talk.
///
/// In the call to `look_up_word`, the language has the form that the parameter description requires
/// (`es`), not the form in the question (`Spanish`). Without this example, the model writes `Tokyo`
/// as the time zone of Tokyo.
pub(crate) fn turns() -> Vec<Turn> {
    let people =
        DemoCall("How many people live in Japan", "get_population", r#"{"country": "Japan"}"#, "123000000");
    let save = DemoCall(
        "Save a note called ideas.txt that says Plant a tree",
        "save_note",
        r#"{"file": "ideas.txt", "text": "Plant a tree."}"#,
        "saved",
    );
    let travel =
        DemoCall("show my notes about travel", "list_notes", r#"{"topic": "travel"}"#, r#"["rome.txt"]"#);
    let notes = DemoCall(
        "my first note about work",
        "list_notes",
        r#"{"topic": "work"}"#,
        r#"["meeting.txt", "plan.txt"]"#,
    );
    let note =
        DemoCall("the text of meeting.txt", "read_note", r#"{"file": "meeting.txt"}"#, "Meet Kim at 3 pm.");
    let word = DemoCall(
        "What does piedra mean in Spanish",
        "look_up_word",
        r#"{"word": "piedra", "language": "es"}"#,
        "stone",
    );
    let chile =
        DemoCall("how many people live in Chile", "get_population", r#"{"country": "Chile"}"#, "19600000");

    let mut turns = vec![
        Turn::new(Role::System, SYSTEM),
        user_turn(format!("{TOOLS}\n\nQuestion: How many people live in Japan?")),
    ];
    turns.extend(call_turns(&[people]));
    turns.push(answer_from_results("About 123 million people live in Japan."));
    turns.push(question_turn("Who painted the Mona Lisa?"));
    turns.push(direct_answer("Who painted the Mona Lisa", "Leonardo da Vinci painted the Mona Lisa."));
    turns.push(question_turn("What does piedra mean in Spanish, and how many people live in Chile?"));
    turns.extend(call_turns(&[word, chile]));
    turns.push(answer_from_results("Piedra means stone, and about 19.6 million people live in Chile."));
    turns.push(question_turn("What is written in my first note about work?"));
    turns.extend(call_turns(&[notes]));
    turns.extend(call_turns(&[note]));
    turns.push(answer_from_results("Your first note about work is meeting.txt. It says: Meet Kim at 3 pm."));
    turns.push(question_turn(
        "Save a note called ideas.txt that says Plant a tree and show my notes about travel.",
    ));
    turns.extend(call_turns(&[save, travel]));
    turns.push(answer_from_results(
        "I have saved the note ideas.txt. You have one note about travel: rome.txt.",
    ));
    turns.push(question_turn("Good morning!"));
    turns.push(direct_answer("Good morning", "Good morning! What can I do for you?"));
    turns
}

/// A tool call in the demonstration: the need for the call, the tool name, the arguments as JSON,
/// and the result.
struct DemoCall(&'static str, &'static str, &'static str, &'static str);

fn user_turn(content: String) -> Turn {
    Turn::new(Role::User, content)
}

fn question_turn(text: &str) -> Turn {
    user_turn(format!("Question: {text}"))
}

/// Creates two turns: the assistant turn that contains `calls`, and the user turn with their
/// results.
fn call_turns(calls: &[DemoCall]) -> [Turn; 2] {
    let needs: Vec<_> = calls.iter().map(|DemoCall(need, ..)| *need).collect();
    let tool_calls = calls.iter().map(|DemoCall(_, name, arguments, _)| ToolCall::new("", *name, *arguments));
    let message = AssistantMessage {
        tool_calls: tool_calls.collect(),
        reasoning: Some(needs.join("\n")),
        ..AssistantMessage::default()
    };
    let results: Vec<_> =
        calls.iter().map(|DemoCall(need, _, _, result)| result_text(need, result)).collect();
    [assistant(&message, false), user_turn(results.join("\n"))]
}

/// Creates an assistant turn with the answer `text`, which follows tool results.
fn answer_from_results(text: &str) -> Turn {
    assistant(&AssistantMessage::from(text), true)
}

/// Creates an assistant turn with the answer `text` to a question that needs no tool. `need` is the
/// quotation from the question.
fn direct_answer(need: &str, text: &str) -> Turn {
    let content = vec![Content::text(text)];
    let message =
        AssistantMessage { content, reasoning: Some(need.to_owned()), ..AssistantMessage::default() };
    assistant(&message, false)
}
