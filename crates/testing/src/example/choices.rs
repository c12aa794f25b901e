use std::collections::HashMap;

/// Maximum number of choices to vary inside an invalid part, before the enclosing choices.
const MAX_NESTED: usize = 4;

/// The open choices of a schema and the selected options.
///
/// After a validation error, [`advance`](Self::advance) selects the next option of the choice
/// nearest to the error. The choices carry over like the digits of a number.
#[derive(Default)]
pub(super) struct Choices {
    selected: HashMap<Choice, usize>,
    /// Choices of the current attempt, in order, with their number of options.
    visited: Vec<(Choice, usize)>,
    /// Offset of the selected options: a mixed-radix number with one digit per choice.
    shift: usize,
}

/// A choice: its position in the value, and the keyword and schema that leave it open.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    pointer: String,
    keyword: &'static str,
    schema: usize,
}

impl Choices {
    /// Starts an attempt.
    pub(super) fn begin(&mut self, shift: usize) {
        self.visited.clear();
        self.shift = shift;
    }

    /// Returns the index of the selected option, below `options`.
    pub(super) fn choose(
        &mut self,
        pointer: &str,
        keyword: &'static str,
        schema: usize,
        options: usize,
    ) -> usize {
        if options < 2 {
            return 0;
        }
        let choice = Choice { pointer: pointer.to_owned(), keyword, schema };
        let selected = self.selected.get(&choice).copied().unwrap_or(0);
        let digit = self.shift % options;
        self.shift /= options;
        self.visited.push((choice, options));
        (selected + digit) % options
    }

    /// Sets the offset of the following choices. Returns the rest of the previous offset.
    pub(super) fn shift_by(&mut self, shift: usize) -> usize {
        std::mem::replace(&mut self.shift, shift)
    }

    /// Number of choices so far in this attempt.
    pub(super) fn visited(&self) -> usize {
        self.visited.len()
    }

    /// Removes the choices of a discarded value.
    pub(super) fn truncate(&mut self, visited: usize) {
        self.visited.truncate(visited);
    }

    /// Selects other options near the given pointers. Returns `false` if all were tried.
    pub(super) fn advance<'p>(&mut self, pointers: impl Iterator<Item = &'p str>) -> bool {
        let mut moved = Vec::new();
        let mut has_next = false;
        for pointer in pointers {
            for at in self.near(pointer) {
                if moved.contains(&at) {
                    has_next = true;
                    break;
                }
                moved.push(at);
                let Some((choice, options)) = self.visited.get(at) else { continue };
                let selected = self.selected.entry(choice.clone()).or_default();
                *selected = (*selected + 1) % options;
                if *selected > 0 {
                    has_next = true;
                    break;
                }
            }
        }
        has_next
    }

    /// Choices that affect a pointer: at it, a few inside it, then outwards through its parents.
    fn near(&self, pointer: &str) -> Vec<usize> {
        let places = || self.visited.iter().map(|(choice, _)| choice.pointer.as_str()).enumerate();
        let here = places().filter(|(_, it)| *it == pointer).map(|(at, _)| at);
        let inside = places().filter(|(_, it)| is_inside(it, pointer)).map(|(at, _)| at).take(MAX_NESTED);
        let around = places().filter(|(_, it)| is_inside(pointer, it)).map(|(at, _)| at);
        let mut around: Vec<_> = around.collect();
        around.reverse();
        here.chain(inside).chain(around).collect()
    }
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
