use std::collections::HashMap;

/// The maximum number of choices nested inside an invalid value that [`Choices::advance`] changes
/// before it changes the choices of the parents of the value.
const MAX_NESTED_CHOICES: usize = 4;

/// The choices that a schema leaves open, such as the alternative of an `anyOf`, and the selected
/// option of each choice.
///
/// If the generated value is invalid, [`advance`](Self::advance) selects the next option of the
/// choice nearest to the invalid part. After its last option, the choice returns to its first
/// option and the next nearest choice advances, like the digits of a counter.
#[derive(Default)]
pub(super) struct Choices {
    selected: HashMap<Choice, usize>,
    /// The choices of the current attempt to generate a value, in the order in which they were
    /// made. Each choice is stored with its number of options.
    visited: Vec<(Choice, usize)>,
    /// A mixed-radix number that varies the generated value. Each choice removes a digit from the
    /// number and adds it to the index of the selected option.
    offset: usize,
}

/// The identity of a choice: the JSON pointer of the value, the keyword (such as `anyOf`), and the
/// memory address of the subschema. The address is 0 if a value has only one choice for this
/// keyword.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    pointer: String,
    keyword: &'static str,
    schema_address: usize,
}

impl Choices {
    /// Starts a new attempt to generate a value. `offset` is a mixed-radix number with one digit
    /// per choice.
    pub(super) fn begin_attempt(&mut self, offset: usize) {
        self.visited.clear();
        self.offset = offset;
    }

    /// Returns the index of the option to use for the choice at `pointer`, and records the choice.
    /// `options` is the number of options. If there are fewer than two options, returns 0 and
    /// records nothing.
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
        let choice = Choice { pointer: pointer.to_owned(), keyword, schema_address: schema };
        let selected = self.selected.get(&choice).copied().unwrap_or(0);
        let digit = self.offset % options;
        self.offset /= options;
        self.visited.push((choice, options));
        (selected + digit) % options
    }

    /// Replaces the offset, so that later choices select other options. Returns the rest of the
    /// previous offset, without the digits removed by earlier choices.
    pub(super) fn replace_offset(&mut self, offset: usize) -> usize {
        std::mem::replace(&mut self.offset, offset)
    }

    /// Returns the number of choices in the current attempt so far.
    pub(super) fn visited_count(&self) -> usize {
        self.visited.len()
    }

    /// Keeps only the first `visited` choices of the current attempt. Used to remove the choices of
    /// a discarded value.
    pub(super) fn truncate(&mut self, visited: usize) {
        self.visited.truncate(visited);
    }

    /// Changes the choices nearest to the invalid values at `pointers`, so that the next attempt
    /// generates another value. Returns `false` if all combinations of these choices were tried.
    pub(super) fn advance<'p>(&mut self, pointers: impl Iterator<Item = &'p str>) -> bool {
        let mut moved = Vec::new();
        let mut has_next = false;
        for pointer in pointers {
            for at in self.nearest_choices(pointer) {
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
    /// the choices of the value itself, then up to [`MAX_NESTED_CHOICES`] choices inside it, and
    /// then the choices of its parents, innermost first.
    fn nearest_choices(&self, pointer: &str) -> Vec<usize> {
        let places = || self.visited.iter().map(|(choice, _)| choice.pointer.as_str()).enumerate();
        let here = places().filter(|(_, it)| *it == pointer).map(|(at, _)| at);
        let inside =
            places().filter(|(_, it)| is_inside(it, pointer)).map(|(at, _)| at).take(MAX_NESTED_CHOICES);
        let around = places().filter(|(_, it)| is_inside(pointer, it)).map(|(at, _)| at);
        let mut around: Vec<_> = around.collect();
        around.reverse();
        here.chain(inside).chain(around).collect()
    }
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
