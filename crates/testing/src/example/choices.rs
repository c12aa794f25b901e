use std::collections::HashMap;

/// The maximum number of choices inside an invalid value that are tried before the choices of the
/// enclosing values.
const MAX_NESTED: usize = 4;

/// The choices that a schema leaves open, such as the alternative of an `anyOf`, and the option
/// selected for each choice.
///
/// After a validation error, [`advance`](Self::advance) selects the next option of the choice
/// nearest to the invalid value. If there is no next option, the choice starts again with its first
/// option and the next choice advances too, like the digits of a counter.
#[derive(Default)]
pub(super) struct Choices {
    selected: HashMap<Choice, usize>,
    /// The choices made in the current attempt, in order, each with its number of options.
    visited: Vec<(Choice, usize)>,
    /// The offset of the current attempt, a mixed-radix number. Each choice takes one digit and
    /// adds it to the index of its selected option.
    offset: usize,
}

/// The identity of a choice: the JSON pointer of the value, the keyword (such as `anyOf`), and the
/// address of the subschema (0 if the value has only one such choice).
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    pointer: String,
    keyword: &'static str,
    schema: usize,
}

impl Choices {
    /// Starts a new attempt with `offset`, a mixed-radix number with one digit per choice.
    pub(super) fn begin(&mut self, offset: usize) {
        self.visited.clear();
        self.offset = offset;
    }

    /// Returns the index of the option to use for the choice at `pointer`, and records the choice.
    /// `options` is the number of options.
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
        let digit = self.offset % options;
        self.offset /= options;
        self.visited.push((choice, options));
        (selected + digit) % options
    }

    /// Sets the offset for the next choices. Returns the rest of the previous offset: the digits
    /// that no choice has taken.
    pub(super) fn replace_offset(&mut self, offset: usize) -> usize {
        std::mem::replace(&mut self.offset, offset)
    }

    /// Returns the number of choices that were made in the current attempt.
    pub(super) fn visited(&self) -> usize {
        self.visited.len()
    }

    /// Removes the choices of a discarded value. Only the first `visited` choices of the current
    /// attempt are kept.
    pub(super) fn truncate(&mut self, visited: usize) {
        self.visited.truncate(visited);
    }

    /// Selects the next options of the choices near the invalid values at `pointers`. Returns
    /// `false` if all combinations were tried.
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

    /// Returns the indices (in `visited`) of the choices that can affect the value at `pointer`:
    /// the choices of the value itself, then up to [`MAX_NESTED`] choices inside it, and then the
    /// choices of its parents, innermost first.
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
