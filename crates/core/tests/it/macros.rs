//! `#[tool]` as its users write it.

mod arguments;
mod blocks;
mod calls;
mod definitions;
mod kinds;
mod overrides;
mod shapes;

/// Every mistake has a message that says what to do, where it was made.
#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
