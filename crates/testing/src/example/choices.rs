use std::collections::HashMap;

/// How many of the ways inside a part that does not fit are gone through before those around it.
const INSIDE: usize = 4;

/// The ways that a schema leaves open, and which of each is taken.
///
/// What does not fit says where, and there the next way is taken: the nearest choice first, like the digits of a number.
#[derive(Default)]
pub(super) struct Choices {
    taken: HashMap<Choice, usize>,
    /// Those of this attempt, in order.
    met: Vec<(Choice, usize)>,
    /// Shifts the choices, as the digits of a number whose bases are how many ways each has.
    shift: usize,
}

/// Where in the value a choice is, and what in the schema leaves it open.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Choice {
    place: String,
    keyword: &'static str,
    schema: usize,
}

impl Choices {
    /// Begins an attempt.
    pub(super) fn begin(&mut self, shift: usize) {
        self.met.clear();
        self.shift = shift;
    }

    /// Takes one of several ways.
    pub(super) fn choose(&mut self, place: &str, keyword: &'static str, schema: usize, ways: usize) -> usize {
        if ways < 2 {
            return 0;
        }
        let choice = Choice { place: place.to_owned(), keyword, schema };
        let taken = self.taken.get(&choice).copied().unwrap_or(0);
        let digit = self.shift % ways;
        self.shift /= ways;
        self.met.push((choice, ways));
        (taken + digit) % ways
    }

    /// Shifts the choices from here on, and gives what was left of the shift before.
    pub(super) fn shift_by(&mut self, shift: usize) -> usize {
        std::mem::replace(&mut self.shift, shift)
    }

    /// How many choices were met so far.
    pub(super) fn met(&self) -> usize {
        self.met.len()
    }

    /// Forgets those that were met for a value that is given up.
    pub(super) fn forget_after(&mut self, met: usize) {
        self.met.truncate(met);
    }

    /// Takes other ways at these places, and tells whether there are any.
    pub(super) fn advance<'p>(&mut self, places: impl Iterator<Item = &'p str>) -> bool {
        let mut moved = Vec::new();
        let mut goes_on = false;
        for place in places {
            for at in self.near(place) {
                if moved.contains(&at) {
                    goes_on = true;
                    break;
                }
                moved.push(at);
                let Some((choice, ways)) = self.met.get(at) else { continue };
                let taken = self.taken.entry(choice.clone()).or_default();
                *taken = (*taken + 1) % ways;
                if *taken > 0 {
                    goes_on = true;
                    break;
                }
            }
        }
        goes_on
    }

    /// The choices that may matter for a place: there, a few inside it, and around it from near to far.
    fn near(&self, place: &str) -> Vec<usize> {
        let places = || self.met.iter().map(|(choice, _)| choice.place.as_str()).enumerate();
        let here = places().filter(|(_, it)| *it == place).map(|(at, _)| at);
        let inside = places().filter(|(_, it)| is_inside(it, place)).map(|(at, _)| at).take(INSIDE);
        let around = places().filter(|(_, it)| is_inside(place, it)).map(|(at, _)| at);
        let mut around: Vec<_> = around.collect();
        around.reverse();
        here.chain(inside).chain(around).collect()
    }
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
