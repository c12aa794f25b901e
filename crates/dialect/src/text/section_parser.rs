//! An incremental parser that splits a step in plain text into its sections.

use std::mem;

use super::{
    label::{self, Label, LineStart, Section},
    nesting::Nesting,
    parser::split_call,
};

/// The text of each section of a step, without the labels.
#[derive(Default)]
pub(super) struct StepSections {
    pub(super) preamble: String,
    pub(super) thought: String,
    /// The text of each action section. There are several sections if the model repeats the action
    /// before its arguments.
    pub(super) actions: Vec<String>,
    pub(super) arguments: String,
    pub(super) answer: String,
    /// `true` if an answer is directly followed by a tool call, so that the step could end the run
    /// or call the tool.
    pub(super) is_ambiguous: bool,
}

/// A parser that accepts a reply in chunks and stops at the end of the first step.
///
/// The result does not depend on the boundaries of the chunks.
pub(super) struct SectionParser {
    sections: StepSections,
    current: Section,
    position: Position,
    nesting: Nesting,
    ambiguity: Ambiguity,
    /// The text of an answer, starting at an ambiguous label. The text becomes part of the answer,
    /// unless the label turns out to start the next step.
    ambiguous_text: String,
}

/// The position of a [`SectionParser`] in the reply.
enum Position {
    /// The parser has only read whitespace so far.
    Start,
    /// The parser is at the start of a line that may be a label. The string contains the characters
    /// of the line so far.
    Line(String),
    /// The parser is directly after a bold label such as `**Thought:`. The closing `**` may follow.
    AfterLabel,
    /// The parser is inside the text of a section.
    Content,
    /// The step has ended. The rest of the reply is ignored: the model made it up, because the tool
    /// has not run yet.
    Over,
}

/// The last label inside an answer, if any. The label may be part of the answer, or start the next
/// step.
#[derive(Clone, Copy)]
enum Ambiguity {
    None,
    Question,
    Thought,
    /// The last label is an action label. The number is the byte index of the tool name in
    /// `ambiguous_text`.
    Action(usize),
}

impl Default for SectionParser {
    fn default() -> Self {
        Self {
            sections: StepSections::default(),
            current: Section::Preamble,
            position: Position::Start,
            nesting: Nesting::default(),
            ambiguity: Ambiguity::None,
            ambiguous_text: String::new(),
        }
    }
}

impl SectionParser {
    /// Returns the sections parsed so far. Text in `ambiguous_text` is not included.
    pub(super) fn sections(&self) -> &StepSections {
        &self.sections
    }

    /// Parses the next chunk of the reply.
    pub(super) fn push(&mut self, text: &str) {
        for character in text.chars().filter(|character| *character != '\r') {
            let position = mem::replace(&mut self.position, Position::Over);
            self.position = self.parse_char(position, character);
        }
    }

    /// Parses the text that is still buffered at the end of the reply, and returns the sections.
    pub(super) fn finish(&mut self) -> &StepSections {
        match mem::replace(&mut self.position, Position::Over) {
            Position::Line(line) => self.append(&line),
            Position::Start | Position::AfterLabel | Position::Content | Position::Over => {}
        }
        if let Ambiguity::Action(start) = self.ambiguity {
            let (name, rest) = split_call(self.ambiguous_text.get(start..).unwrap_or_default());
            let is_call = rest.is_empty() || rest.starts_with(['(', '[', '{']);
            self.sections.is_ambiguous |= !name.is_empty() && is_call;
        }
        self.sections.answer.push_str(&mem::take(&mut self.ambiguous_text));
        &self.sections
    }

    fn parse_char(&mut self, position: Position, character: char) -> Position {
        match position {
            Position::Start if character.is_whitespace() => Position::Start,
            Position::Start => self.continue_line(character.into()),
            Position::Line(mut line) => {
                line.push(character);
                self.continue_line(line)
            }
            Position::AfterLabel if character == '*' => Position::AfterLabel,
            Position::AfterLabel | Position::Content => {
                self.append(character.encode_utf8(&mut [0; 4]));
                self.position_after(character)
            }
            Position::Over => Position::Over,
        }
    }

    /// Classifies `line`, the first characters of a line, as a label or as content. A label starts
    /// a section, and content is appended to the current section.
    fn continue_line(&mut self, line: String) -> Position {
        match label::classify_line_start(&line) {
            LineStart::Undecided => Position::Line(line),
            LineStart::Label(label) if self.can_start(label) => self.enter(label, &line),
            LineStart::Label(_) | LineStart::Content => {
                self.append(&line);
                line.chars().next_back().map_or(Position::Content, |last| self.position_after(last))
            }
        }
    }

    fn position_after(&self, character: char) -> Position {
        // A line break inside a string does not start a label.
        let is_line_start = character == '\n' && !self.nesting.is_in_string();
        if is_line_start { Position::Line(String::new()) } else { Position::Content }
    }

    /// Appends `text` to the current section.
    fn append(&mut self, text: &str) {
        let section = match self.current {
            Section::Preamble => Some(&mut self.sections.preamble),
            Section::Thought => Some(&mut self.sections.thought),
            Section::Action => self.sections.actions.last_mut(),
            Section::Arguments => Some(&mut self.sections.arguments),
            Section::Answer if matches!(self.ambiguity, Ambiguity::None) => Some(&mut self.sections.answer),
            Section::Answer => Some(&mut self.ambiguous_text),
            Section::Question | Section::End => None,
        };
        if let Some(section) = section {
            section.push_str(text);
        }
        if matches!(self.current, Section::Action | Section::Arguments) {
            text.chars().for_each(|character| self.nesting.push_char(character));
        }
    }

    /// Returns `true` if `label` can start a section at the current position. A label that cannot
    /// start a section is content of the current section.
    fn can_start(&self, label: Label) -> bool {
        if self.nesting.is_open() {
            return label.is_bracketed || (label.is_explicit && label.section == Section::End);
        }
        match (self.current, label.section) {
            (Section::Answer, Section::Answer) => label.is_bracketed,
            (Section::Answer | Section::Arguments, _) => label.is_explicit,
            // Arguments without an action are part of the thought.
            (_, Section::Arguments) => !self.sections.actions.is_empty(),
            _ => true,
        }
    }

    /// Starts the section of `label`, or ends the step if `label` belongs to the next step. `line`
    /// is the line up to the end of the label.
    fn enter(&mut self, label: Label, line: &str) -> Position {
        if self.current == Section::Answer && !label.is_bracketed {
            let is_blank = self.sections.answer.trim().is_empty();
            if !is_blank || matches!(label.section, Section::Question | Section::Arguments) {
                return self.continue_answer(label.section, line);
            }
        }
        let is_next = match label.section {
            Section::End => true,
            Section::Thought | Section::Action | Section::Question => self.is_step_done(),
            _ => false,
        };
        if is_next {
            return Position::Over;
        }
        self.nesting = Nesting::default();
        self.current = label.section;
        if label.section == Section::Action {
            self.sections.actions.push(String::new());
        }
        if line.contains('*') { Position::AfterLabel } else { Position::Content }
    }

    fn is_step_done(&self) -> bool {
        let has_inline =
            || self.sections.actions.last().is_some_and(|action| !split_call(action).1.is_empty());
        !self.sections.answer.trim().is_empty() || !self.sections.arguments.trim().is_empty() || has_inline()
    }

    /// Handles a label inside an answer. `section` is the section that the label would start, and
    /// `line` is the line up to the end of the label. The label may be part of the answer or start
    /// the next step.
    fn continue_answer(&mut self, section: Section, line: &str) -> Position {
        self.ambiguity = match (section, self.ambiguity) {
            (Section::End | Section::Arguments, Ambiguity::Action(_)) => {
                self.sections.is_ambiguous = true;
                return Position::Over;
            }
            (Section::End, _) => return Position::Over,
            (Section::Action, Ambiguity::Thought) => {
                self.ambiguous_text.clear();
                return Position::Over;
            }
            (Section::Action, _) => Ambiguity::Action(self.ambiguous_text.len() + line.len()),
            (Section::Thought, Ambiguity::None | Ambiguity::Question) => Ambiguity::Thought,
            (Section::Question, Ambiguity::None) => Ambiguity::Question,
            (_, ambiguity) => ambiguity,
        };
        self.append(line);
        Position::Content
    }
}
