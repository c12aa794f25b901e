//! The names of the parts of a step, as models write them.

/// How long the name of a part may be with what stands around it, in bytes.
const LONGEST: usize = 48;

/// A part of what a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// What comes before the first name of a part.
    Preamble,
    Thought,
    Action,
    Arguments,
    Answer,
    /// What was asked, or what is asked next, is not the model's to write.
    Question,
    /// Neither is an observation. Nothing counts behind it.
    End,
}

/// The names of parts that models are known to use, in lower case.
const NAMES: [(&str, Section); 28] = [
    ("thought", Section::Thought),
    ("thoughts", Section::Thought),
    ("next_thought", Section::Thought),
    ("reasoning", Section::Thought),
    ("action", Section::Action),
    ("action_name", Section::Action),
    ("tool", Section::Action),
    ("tool_name", Section::Action),
    ("tool_call", Section::Action),
    ("next_tool_name", Section::Action),
    ("function", Section::Action),
    ("arguments", Section::Arguments),
    ("args", Section::Arguments),
    ("action_input", Section::Arguments),
    ("action_arguments", Section::Arguments),
    ("action_args", Section::Arguments),
    ("tool_args", Section::Arguments),
    ("tool_arguments", Section::Arguments),
    ("tool_input", Section::Arguments),
    ("next_tool_args", Section::Arguments),
    ("parameters", Section::Arguments),
    ("input", Section::Arguments),
    ("answer", Section::Answer),
    ("final_answer", Section::Answer),
    ("observation", Section::End),
    ("observations", Section::End),
    ("question", Section::Question),
    ("completed", Section::End),
];

/// The name of a part at the beginning of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) section: Section,
    /// As DSPy writes it: `[[ ## answer ## ]]`.
    pub(super) is_bracketed: bool,
    /// Whether it is written so that it is hardly a word or a key.
    pub(super) is_marked: bool,
}

/// What a line begins with, as far as it is known.
pub(super) enum Line {
    Undecided,
    Content,
    Label(Label),
}

/// Tells what a line begins with, one character after the other.
pub(super) fn begin(line: &str) -> Line {
    if line.ends_with('\n') {
        return Line::Content;
    }
    let is_bracketed = line.trim_start().starts_with("[[");
    let name = if is_bracketed { line.strip_suffix("]]") } else { line.strip_suffix([':', '：']) };
    if let Some(name) = name {
        return label(name, is_bracketed).map_or(Line::Content, Line::Label);
    }
    let is_possible = |letter: char| letter.is_ascii_alphanumeric() || " \t_*#>-`.[]".contains(letter);
    if line.len() > LONGEST || !line.chars().all(is_possible) { Line::Content } else { Line::Undecided }
}

/// The part that is named so, whatever marks and numbers stand around the name.
fn label(written: &str, is_bracketed: bool) -> Option<Label> {
    let is_mark = |letter: char| !letter.is_ascii_alphabetic();
    let name = written.trim_matches(is_mark);
    let is_marked = is_bracketed || name.starts_with(|letter: char| letter.is_ascii_uppercase());
    // In small letters it is an item of a list.
    if !is_marked && written.trim_start().starts_with(['-', '>']) {
        return None;
    }
    let name = name.to_ascii_lowercase().replace([' ', '-'], "_");
    if name == "completed" && !is_bracketed {
        return None;
    }
    let known = || NAMES.iter().find(|(known, _)| *known == name).map(|(_, section)| *section);
    let section = if name.starts_with("observation_from") { Some(Section::End) } else { known() };
    section.map(|section| Label { section, is_bracketed, is_marked })
}
