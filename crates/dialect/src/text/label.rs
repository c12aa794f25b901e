//! Parses labels such as `Thought:` and `Action Input:` in the spellings that models use.

/// The maximum length of a label with the markup around it, in bytes. A line without a colon or
/// closing brackets within this length does not start with a label.
const MAX_LABEL_LEN: usize = 48;

/// A section of a step: the text that follows a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The text before the first label.
    Preamble,
    Thought,
    Action,
    Arguments,
    Answer,
    /// A question that the model repeats or makes up. The text of the section is ignored.
    Question,
    /// The end of the step. The label starts an observation that the model makes up, or is the end
    /// marker of DSPy. All text after the label is ignored.
    End,
}

/// The known labels in lower case, with the section that they start. Spaces and hyphens in a label
/// are replaced by underscores.
const LABEL_SECTIONS: [(&str, Section); 29] = [
    ("thought", Section::Thought),
    ("thoughts", Section::Thought),
    ("next_thought", Section::Thought),
    ("reasoning", Section::Thought),
    ("action", Section::Action),
    ("action_name", Section::Action),
    ("tool", Section::Action),
    ("tool_name", Section::Action),
    ("tool_call", Section::Action),
    ("tool_calls", Section::Action),
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

/// A label that a model writes at the start of a line, such as `Thought:` or
/// `[[ ## answer ## ]]`. The text after it belongs to [`section`](Self::section).
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) section: Section,
    /// `true` for a DSPy marker such as `[[ ## answer ## ]]`, and `false` for a label with a colon.
    pub(super) is_bracketed: bool,
    /// `true` if the label is bracketed or starts with a capital letter, unlike most ordinary words
    /// and JSON keys. Inside an answer or arguments, a label that is not explicit is text.
    pub(super) is_explicit: bool,
}

/// The result of classifying the first characters of a line.
pub(super) enum LineStart {
    /// The characters so far may be the start of a label, so more characters are needed.
    Undecided,
    Content,
    Label(Label),
}

/// Classifies `line`, the first characters of a line, as a label or as content of the current
/// section.
pub(super) fn classify_line_start(line: &str) -> LineStart {
    if line.ends_with('\n') {
        return LineStart::Content;
    }
    let is_bracketed = line.trim_start().starts_with("[[");
    let name = if is_bracketed { line.strip_suffix("]]") } else { line.strip_suffix([':', '：']) };
    if let Some(name) = name {
        return parse_label(name, is_bracketed).map_or(LineStart::Content, LineStart::Label);
    }
    let is_possible = |letter: char| letter.is_ascii_alphanumeric() || " \t_*#>-`.[]".contains(letter);
    if line.len() > MAX_LABEL_LEN || !line.chars().all(is_possible) {
        LineStart::Content
    } else {
        LineStart::Undecided
    }
}

/// Returns `true` if `text` starts with a label that ends a step, such as `Observation:`.
pub(crate) fn ends_step(text: &str) -> bool {
    let ends = [":", "：", "]]"].into_iter().filter_map(|mark| Some(text.find(mark)? + mark.len()));
    let label = ends.min().and_then(|end| text.get(..end)).map(classify_line_start);
    matches!(label, Some(LineStart::Label(Label { section: Section::End, .. })))
}

/// Parses a label such as `**Thought 1`, without the colon or the closing brackets. Markup and
/// numbers around the name are ignored. Returns `None` if the label is not known.
fn parse_label(written: &str, is_bracketed: bool) -> Option<Label> {
    let is_mark = |letter: char| !letter.is_ascii_alphabetic();
    let name = written.trim_matches(is_mark);
    let is_marked = is_bracketed || name.starts_with(|letter: char| letter.is_ascii_uppercase());
    // `- tool: hammer` is a list item, but `- Tool: hammer` is a label.
    if !is_marked && written.trim_start().starts_with(['-', '>']) {
        return None;
    }
    let name = name.to_ascii_lowercase().replace([' ', '-'], "_");
    if name == "completed" && !is_bracketed {
        return None;
    }
    let known = || LABEL_SECTIONS.iter().find(|(known, _)| *known == name).map(|(_, section)| *section);
    let section = if name.starts_with("observation_from") { Some(Section::End) } else { known() };
    section.map(|section| Label { section, is_bracketed, is_explicit: is_marked })
}
