//! Estimates of the compiled size of regular expressions.
//!
//! The regular expression engine limits the size of each expression, but may take up to half a
//! second to reach this limit. A schema may contain thousands of expressions, so their size is
//! estimated first.

/// The number of states for a Unicode class such as `\p{L}`, which has hundreds of ranges.
const UNICODE_CLASS_STATES: usize = 500;

/// The number of states for a class that spans most of UTF-8, such as `.` or `\D`.
const WIDE_CLASS_STATES: usize = 12;

/// The number of states for `\S`. Its ranges are the gaps between the Unicode whitespace
/// characters.
const NON_SPACE_STATES: usize = 22;

/// Estimates the number of states of the regular expression `pattern`, a measure of its compiled
/// size. The estimate for an invalid expression is arbitrary.
pub(crate) fn estimate_states(pattern: &str) -> usize {
    let mut counter = StateCounter { groups: Vec::new(), sum: 0, atom: 0 };
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '\\' => counter.push_escape(rest),
            '[' => counter.push_class(rest),
            '{' => counter.repeat_atom(rest),
            '(' => counter.open_group(),
            ')' => counter.close_group(),
            '*' | '+' | '?' => next.len_utf8(),
            '.' => counter.push_atom(WIDE_CLASS_STATES, 1),
            _ => counter.push_atom(1, next.len_utf8()),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    while !counter.groups.is_empty() {
        counter.close_group();
    }
    counter.sum.saturating_add(counter.atom)
}

/// Returns `true` if the regular expression `pattern` needs a backtracking engine, because it
/// contains look-around, back-references or similar constructs. Also returns `true` in cases of
/// doubt.
pub(crate) fn needs_backtracking(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['(', '\\', '+', '}']) {
        let (special, after) = rest.split_at(at).1.split_at(1);
        let next = after.chars().next();
        let named = after.starts_with("?<") && !after.starts_with("?<=") && !after.starts_with("?<!");
        let plain_group =
            !after.starts_with('?') || after.starts_with("?:") || after.starts_with("?P<") || named;
        let is_hard = match special {
            "(" => !plain_group,
            "\\" => next.is_some_and(|next| next.is_ascii_digit() || "kKgGRzZhH".contains(next)),
            _ => next == Some('+'),
        };
        if is_hard {
            return true;
        }
        let skipped = if special == "\\" { next.map_or(0, char::len_utf8) } else { 0 };
        rest = after.get(skipped..).unwrap_or_default();
    }
    false
}

/// A counter of the states in a pattern, used by [`estimate_states`]. Its methods return the number
/// of bytes that they consumed from the pattern.
struct StateCounter {
    /// The number of states before each open group. States outside the enclosing group are not
    /// included.
    groups: Vec<usize>,
    /// The number of states in the current group, without its last atom.
    sum: usize,
    /// The number of states of the last atom. A repetition such as `{3}` multiplies it.
    atom: usize,
}

impl StateCounter {
    fn push_atom(&mut self, states: usize, length: usize) -> usize {
        self.sum = self.sum.saturating_add(self.atom);
        self.atom = states;
        length
    }

    fn push_escape(&mut self, rest: &str) -> usize {
        let escaped = rest.chars().nth(1);
        let states = match escaped {
            Some('p' | 'P') => UNICODE_CLASS_STATES,
            Some('S') => NON_SPACE_STATES,
            Some('w' | 'W' | 'd' | 'D' | 's') => WIDE_CLASS_STATES,
            _ => 1,
        };
        self.push_atom(states, 1 + escaped.map_or(0, char::len_utf8))
    }

    fn push_class(&mut self, rest: &str) -> usize {
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, next)| {
            let is_end = *next == ']' && !is_escaped;
            is_escaped = *next == '\\' && !is_escaped;
            is_end
        });
        let length = end.map_or(rest.len(), |(end, _)| end + 1);
        let class = rest.get(..length).unwrap_or_default();
        let unicode = class.matches("\\p").count() + class.matches("\\P").count();
        let spaces = class.matches("\\s").count() + class.matches("\\S").count();
        let states = unicode
            .saturating_mul(UNICODE_CLASS_STATES)
            .saturating_add(spaces.saturating_mul(NON_SPACE_STATES));
        self.push_atom(states.saturating_add(length.max(WIDE_CLASS_STATES)), length)
    }

    /// Multiplies the last atom by the repetition at the start of `rest`: `{3}`, `{3,}` or `{1,3}`.
    /// Other braces are counted as literals.
    fn repeat_atom(&mut self, rest: &str) -> usize {
        let bounds = rest.get(1..).and_then(|after| after.split_once('}')).map(|(bounds, _)| bounds);
        let Some(bounds) = bounds.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit() || byte == b','))
        else {
            return self.push_atom(1, 1);
        };
        let times = bounds
            .split(',')
            .filter(|bound| !bound.is_empty())
            .map(|bound| bound.parse().unwrap_or(usize::MAX));
        self.atom = self.atom.saturating_mul(times.max().unwrap_or(1).max(1));
        bounds.len() + 2
    }

    fn open_group(&mut self) -> usize {
        self.push_atom(0, 1);
        self.groups.push(self.sum);
        self.sum = 0;
        1
    }

    fn close_group(&mut self) -> usize {
        let group = self.sum.saturating_add(self.atom);
        self.sum = self.groups.pop().unwrap_or_default();
        self.atom = group;
        1
    }
}
