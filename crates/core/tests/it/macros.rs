//! Tests of the attributes `#[tool]` and `#[tools]`.

mod argument_types;
mod arguments;
mod blocks;
mod calls;
mod definitions;
mod overrides;
mod signatures;

/// Each file in `tests/ui` contains mistakes in the use of `#[tool]` or `#[tools]`. The compile
/// errors point to the mistakes and contain a remedy.
#[test]
fn mistakes_are_compile_errors_with_a_remedy() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
