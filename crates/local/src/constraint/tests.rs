use llguidance::toktrie::ApproximateTokEnv;

use super::*;

fn constraint(grammar: &str) -> Constraint {
    let capabilities = InferenceCapabilities::default();
    let factory = ParserFactory::new(&ApproximateTokEnv::single_byte_env(), capabilities, &[]).unwrap();
    GrammarCompiler { factory }.compile(TopLevelGrammar::from_lark(grammar.to_owned())).unwrap()
}

#[test]
fn constraint_is_complete_at_the_end_of_its_grammar() {
    let mut constraint = constraint(r#"start: "a""#);
    assert_eq!(constraint.is_complete(), Ok(false));
    constraint.accept(u32::from(b'a')).unwrap();
    assert_eq!(constraint.is_complete(), Ok(true));
}

#[test]
fn failed_constraint_is_not_complete() {
    let mut constraint = constraint(r#"start: "a""#);
    constraint.accept(u32::from(b'b')).unwrap_err();
    constraint.take_forced_tokens().unwrap_err();
    constraint.is_complete().unwrap_err();
}
