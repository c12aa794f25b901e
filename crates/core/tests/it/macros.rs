//! The attributes `#[tool]` and `#[tools]`.

mod argument_types;
mod arguments;
mod blocks;
mod calls;
mod definitions;
mod overrides;
mod signatures;

/// Every mistake in the use of the macros is a compile error at the position of the mistake, with a
/// remedy.
#[test]
fn mistakes_are_compile_errors_with_a_remedy() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
