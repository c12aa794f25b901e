//! Tells the parts of a step apart, while it comes.

use std::mem;

use haft_core::text::{ThinkSplit, ThinkTagParser};

use super::{
    label::{self, Label, Line, Section},
    nesting::Nesting,
    read::called,
};

/// What stands in each part of a step, without the names of the parts.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) preamble: String,
    pub(super) thought: String,
    /// More than one, where a model named a tool again before it gave arguments.
    pub(super) actions: Vec<String>,
    pub(super) arguments: String,
    pub(super) answer: String,
    /// Whether a call stands right behind an answer, so that nobody knows which is meant.
    pub(super) is_unclear: bool,
}

/// Takes a text piece by piece, up to the end of its first step.
///
/// How a text is cut into pieces makes no difference.
pub(super) struct Sections {
    parts: Parts,
    current: Section,
    place: Place,
    nesting: Nesting,
    think_tags: ThinkTagParser,
    doubt: Doubt,
    /// What belongs to the answer, unless the doubt proves right.
    held: String,
}

/// Where in the text the next character stands.
enum Place {
    /// Before the first character of the step.
    Start,
    /// At the start of a line, until it is known whether it is the name of a part.
    Line(String),
    /// Behind a bold name, where the second half of its marks may stand.
    BehindName,
    Within,
    /// What comes behind a step depends on its observation, which nobody knows yet.
    Over,
}

/// What stands in an answer and may be the next step as well.
#[derive(Clone, Copy)]
enum Doubt {
    None,
    Question,
    Thought,
    /// An action, of which the name begins here in what is held.
    Action(usize),
}

impl Default for Sections {
    fn default() -> Self {
        Self {
            parts: Parts::default(),
            current: Section::Preamble,
            place: Place::Start,
            nesting: Nesting::default(),
            think_tags: ThinkTagParser::default(),
            doubt: Doubt::None,
            held: String::new(),
        }
    }
}

impl Sections {
    /// What was taken so far; of an answer, what is no longer in doubt.
    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Takes more of the text.
    pub(super) fn take(&mut self, text: &str) {
        let split = self.think_tags.push(text.chars().filter(|written| *written != '\r').collect());
        self.take_split(&split);
    }

    /// Takes the reasoning of a model before its step, and the text of the step.
    fn take_split(&mut self, split: &ThinkSplit) {
        self.parts.thought.push_str(&split.reasoning);
        for written in split.text.chars() {
            let place = mem::replace(&mut self.place, Place::Over);
            self.place = self.follow(place, written);
        }
    }

    /// Takes what is left at the end of the text, and gives all parts.
    pub(super) fn end(&mut self) -> &Parts {
        let rest = self.think_tags.finish();
        self.take_split(&rest);
        match mem::replace(&mut self.place, Place::Over) {
            Place::Line(line) => self.push(&line),
            Place::Start | Place::BehindName | Place::Within | Place::Over => {}
        }
        if let Doubt::Action(start) = self.doubt {
            let (name, behind) = called(self.held.get(start..).unwrap_or_default());
            let is_call = behind.is_empty() || behind.starts_with(['(', '[', '{']);
            self.parts.is_unclear |= !name.is_empty() && is_call;
        }
        self.parts.answer.push_str(&mem::take(&mut self.held));
        &self.parts
    }

    fn follow(&mut self, place: Place, written: char) -> Place {
        match place {
            Place::Start if written.is_whitespace() => Place::Start,
            Place::Start => {
                if !self.parts.thought.is_empty() {
                    // A blank line between the reasoning and a thought of the step.
                    self.parts.thought.push_str("\n\n");
                }
                self.line(written.into())
            }
            Place::Line(mut line) => {
                line.push(written);
                self.line(line)
            }
            Place::BehindName if written == '*' => Place::BehindName,
            Place::BehindName | Place::Within => {
                self.push(written.encode_utf8(&mut [0; 4]));
                self.behind(written)
            }
            Place::Over => Place::Over,
        }
    }

    /// Goes on with a line of which this is known.
    fn line(&mut self, line: String) -> Place {
        match label::begin(&line) {
            Line::Undecided => Place::Line(line),
            Line::Label(label) if self.may_begin(label) => self.enter(label, &line),
            Line::Label(_) | Line::Content => {
                self.push(&line);
                line.chars().next_back().map_or(Place::Within, |last| self.behind(last))
            }
        }
    }

    fn behind(&self, written: char) -> Place {
        // In a string no line is the name of a part.
        if written == '\n' && !self.nesting.is_string() { Place::Line(String::new()) } else { Place::Within }
    }

    fn push(&mut self, text: &str) {
        let part = match self.current {
            Section::Preamble => Some(&mut self.parts.preamble),
            Section::Thought => Some(&mut self.parts.thought),
            Section::Action => self.parts.actions.last_mut(),
            Section::Arguments => Some(&mut self.parts.arguments),
            Section::Answer if matches!(self.doubt, Doubt::None) => Some(&mut self.parts.answer),
            Section::Answer => Some(&mut self.held),
            Section::Question | Section::End => None,
        };
        if let Some(part) = part {
            part.push_str(text);
        }
        if matches!(self.current, Section::Action | Section::Arguments) {
            text.chars().for_each(|written| self.nesting.take(written));
        }
    }

    /// Whether what looks like the name of a part is one here.
    fn may_begin(&self, label: Label) -> bool {
        if self.nesting.is_open() {
            return label.is_bracketed || (label.is_marked && label.section == Section::End);
        }
        match (self.current, label.section) {
            (Section::Answer, Section::Answer) => label.is_bracketed,
            (Section::Answer | Section::Arguments, _) => label.is_marked,
            // Before there is an action it is a word of the thought.
            (_, Section::Arguments) => !self.parts.actions.is_empty(),
            _ => true,
        }
    }

    fn enter(&mut self, label: Label, line: &str) -> Place {
        if self.current == Section::Answer && !label.is_bracketed {
            let is_blank = self.parts.answer.trim().is_empty();
            if !is_blank || matches!(label.section, Section::Question | Section::Arguments) {
                return self.doubt(label.section, line);
            }
        }
        let is_next = match label.section {
            Section::End => true,
            Section::Thought | Section::Action | Section::Question => self.is_step_done(),
            _ => false,
        };
        if is_next {
            return Place::Over;
        }
        self.nesting = Nesting::default();
        self.current = label.section;
        if label.section == Section::Action {
            self.parts.actions.push(String::new());
        }
        if line.contains('*') { Place::BehindName } else { Place::Within }
    }

    fn is_step_done(&self) -> bool {
        let has_inline = || self.parts.actions.last().is_some_and(|action| !called(action).1.is_empty());
        !self.parts.answer.trim().is_empty() || !self.parts.arguments.trim().is_empty() || has_inline()
    }

    /// Goes on in an answer, behind what may be its own words or the start of the next step.
    fn doubt(&mut self, section: Section, line: &str) -> Place {
        self.doubt = match (section, self.doubt) {
            (Section::End | Section::Arguments, Doubt::Action(_)) => {
                self.parts.is_unclear = true;
                return Place::Over;
            }
            (Section::End, _) => return Place::Over,
            (Section::Action, Doubt::Thought) => {
                self.held.clear();
                return Place::Over;
            }
            (Section::Action, _) => Doubt::Action(self.held.len() + line.len()),
            (Section::Thought, Doubt::None | Doubt::Question) => Doubt::Thought,
            (Section::Question, Doubt::None) => Doubt::Question,
            (_, doubt) => doubt,
        };
        self.push(line);
        Place::Within
    }
}
