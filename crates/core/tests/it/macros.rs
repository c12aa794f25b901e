//! The attributes `#[tool]` and `#[tools]`.

mod argument_types;
mod arguments;
mod blocks;
mod calls;
mod definitions;
mod overrides;
mod signatures;

/// Each mistake in the use of a macro causes a compile error, which points to the mistake and
/// contains a remedy.
#[test]
fn mistakes_are_compile_errors_with_a_remedy() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
