//! Compile errors of layers that do not fit.

/// A layer that does not fit a tool or a model is a compile error with the type and a remedy.
#[test]
fn unsuitable_layer_is_a_compile_error_with_the_type_and_a_remedy() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
