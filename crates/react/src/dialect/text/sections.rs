//! Tells the parts of a step apart, while it comes.

/// How long the name of a part may be with what stands around it, in bytes.
const LABEL: usize = 48;

/// A part of what a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// What comes before the first name of a part.
    Preamble,
    Thought,
    Action,
    Arguments,
    Answer,
    /// What is not the model's to write: an observation, another question.
    Others,
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
    ("observation", Section::Others),
    ("observations", Section::Others),
    ("question", Section::Others),
    ("completed", Section::Others),
];

/// Takes a text piece by piece and gives what stands in each part of its first step, without the names of the parts.
///
/// How a text is cut into pieces makes no difference.
pub(super) struct Sections {
    current: Section,
    /// The start of a line, until it is known whether it is the name of a part.
    line: Option<String>,
    /// Whether the name of a part has just ended, behind which the second half of its bold may stand.
    is_behind_name: bool,
    has_action: bool,
    is_over: bool,
}

enum Line {
    Undecided,
    Content,
    Label(Section),
}

impl Default for Sections {
    fn default() -> Self {
        Self {
            current: Section::Preamble,
            line: Some(String::new()),
            is_behind_name: false,
            has_action: false,
            is_over: false,
        }
    }
}

impl Sections {
    /// Takes more of the text.
    pub(super) fn take(&mut self, text: &str, mut tell: impl FnMut(Section, &str)) {
        for written in text.chars().filter(|written| *written != '\r') {
            if self.is_over {
                return;
            }
            self.is_behind_name &= written == '*';
            let Some(line) = &mut self.line else {
                if self.is_behind_name {
                    continue;
                }
                tell(self.current, written.encode_utf8(&mut [0; 4]));
                self.line = (written == '\n').then(String::new);
                continue;
            };
            line.push(written);
            match decide(line, self.current) {
                Line::Undecided => {}
                Line::Content => {
                    tell(self.current, line);
                    self.line = (written == '\n').then(String::new);
                }
                Line::Label(section) => {
                    self.line = None;
                    self.is_behind_name = true;
                    self.enter(section);
                }
            }
        }
    }

    /// Gives what is left at the end of the text.
    pub(super) fn end(&mut self, mut tell: impl FnMut(Section, &str)) {
        if let (false, Some(line)) = (self.is_over, self.line.take()) {
            tell(self.current, &line);
        }
    }

    fn enter(&mut self, section: Section) {
        let is_next = match section {
            Section::Others => true,
            Section::Thought | Section::Action => self.has_action || self.current == Section::Answer,
            _ => false,
        };
        // What comes behind a step depends on its observation, which nobody knows yet.
        self.is_over = is_next;
        self.has_action |= section == Section::Action;
        self.current = section;
    }
}

/// What a line begins with, as far as it is known.
fn decide(line: &str, within: Section) -> Line {
    if line.ends_with('\n') {
        return Line::Content;
    }
    let is_bracketed = line.trim_start().starts_with("[[");
    let name = if is_bracketed { line.strip_suffix("]]") } else { line.strip_suffix(':') };
    if let Some(name) = name {
        // Among arguments a name in small letters is one of them.
        let may_be = within != Section::Arguments || is_bracketed || is_capital(name);
        return section(name).filter(|_| may_be).map_or(Line::Content, Line::Label);
    }
    let is_possible = |letter: char| letter.is_ascii_alphanumeric() || " \t_*#>-`.[]".contains(letter);
    if line.len() > LABEL || !line.chars().all(is_possible) { Line::Content } else { Line::Undecided }
}

/// The part that is named so, whatever marks and numbers stand around the name.
fn section(name: &str) -> Option<Section> {
    let is_mark = |letter: char| !letter.is_ascii_alphabetic();
    let name = name.trim_matches(is_mark).to_ascii_lowercase().replace([' ', '-'], "_");
    if name.starts_with("observation_from") {
        return Some(Section::Others);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, section)| *section)
}

fn is_capital(name: &str) -> bool {
    name.chars().find(char::is_ascii_alphabetic).is_some_and(|letter| letter.is_ascii_uppercase())
}
