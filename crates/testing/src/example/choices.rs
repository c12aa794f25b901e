use std::collections::HashMap;

/// Maximum number of choices inside an invalid value that are tried before the choices of the
/// enclosing values.
const MAX_NESTED: usize = 4;

/// The open choices of a schema and the option selected for each of them.
///
/// After a validation error, [`advance`](Self::advance) selects the next option of the choice
/// nearest to the error. After the last option of a choice, the next choice advances too, like the
/// digits of a number.
#[derive(Default)]
pub(super) struct Choices {
    selected: HashMap<Choice, usize>,
    /// The choices of the current attempt, in order, each with its number of options.
    visited: Vec<(Choice, usize)>,
    /// The offset that is added to the selected options, as a mixed-radix number with one digit per
    /// choice.
    shift: usize,
}

/// A choice between several options of a schema, identified by its place in the value, the keyword
/// and the schema.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    pointer: String,
    keyword: &'static str,
    schema: usize,
}

impl Choices {
    /// Starts a new attempt. `shift` is the offset that is added to the selected options.
    pub(super) fn begin(&mut self, shift: usize) {
        self.visited.clear();
        self.shift = shift;
    }

    /// Returns the index of the selected option of a choice. `options` is the number of options.
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

    /// Sets the offset for the following choices. Returns the digits of the previous offset that no
    /// choice has used.
    pub(super) fn replace_shift(&mut self, shift: usize) -> usize {
        std::mem::replace(&mut self.shift, shift)
    }

    /// Returns the number of choices so far in this attempt.
    pub(super) fn visited(&self) -> usize {
        self.visited.len()
    }

    /// Keeps the first `visited` choices of this attempt and removes the choices of a discarded
    /// value.
    pub(super) fn truncate(&mut self, visited: usize) {
        self.visited.truncate(visited);
    }

    /// Selects other options of the choices near the given JSON pointers. Returns `false` if all
    /// combinations were tried.
    pub(super) fn advance<'p>(&mut self, pointers: impl Iterator<Item = &'p str>) -> bool {
        let mut moved = Vec::new();
        let mut has_next = false;
        for pointer in pointers {
            for at in self.nearest(pointer) {
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

    /// Returns the indices of the choices that can affect the value at `pointer`: the choices at
    /// the pointer, then a few inside its value, then the choices of its parents from the inside
    /// out.
    fn nearest(&self, pointer: &str) -> Vec<usize> {
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
