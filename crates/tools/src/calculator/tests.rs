use expect_test::{Expect, expect};

use super::{Calculation, CalculatorError, calculator, names::KNOWN_NAMES};

fn check(expression: &str, result: &str, exact: bool) {
    let calculation = calculator(expression.to_owned()).map(|json| json.0);
    assert_eq!(calculation, Ok(Calculation { result: result.to_owned(), exact }), "{expression}");
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns a value")]
fn check_error(expression: &str, expected: Expect) {
    let message =
        calculator(expression.to_owned()).map_or_else(|error| error.to_string(), |json| json.0.result);
    expected.assert_eq(&message);
}

#[test]
fn decimals_are_exact() {
    check("0.1 + 0.2", "0.3", true);
    check("19.99 * 3", "59.97", true);
    check("1/3 * 3", "1", true);
    check("-8 + 100", "92", true);
    check("1.1 ^ 10", "2.5937424601", true);
}

#[test]
fn integers_are_exact_within_128_bits() {
    check("2^64", "18446744073709551616", true);
    check("10^20", "100000000000000000000", true);
    check("-123456789123456789 * 987654321987654321", "-121932631356500531347203169112635269", true);
    check("30! / 28!", "870", true);
    check("2^200 / 2^199", "2", false);
    check("7 / 2 * 2", "7", true);
    check("2^63", "9223372036854775808", true);
    check("123456789 * 987654321", "121932631112635269", true);
    check("20!", "2432902008176640000", true);
}

#[test]
fn rounded_results_are_marked_inexact() {
    check("1/3", "0.333333333333333333", false);
    check("sqrt(2)", "1.41421356237309505", false);
    check("2^64 + 0.5", "1.84467440737095516e19", false);
    check("2^200", "1.60693804425899028e60", false);
    check("pi", "3.14159265358979324", false);
}

#[test]
fn operators_have_mathematical_precedence() {
    check("2 * (3 + 4)", "14", true);
    check("-2^2", "-4", true);
    check("2^3^2", "512", true);
    check("2**10 % 1000", "24", true);
    check("min(3, 4, 1) + max(1, 2)", "3", true);
}

#[test]
fn typographic_symbols_are_accepted() {
    check("6 × 7 ÷ 2 − 1", "20", true);
    check("2 ⋅ 3 ∗ 8 ∕ 4", "12", true);
    check("√(3² + 2³ - 1)", "4", true);
    check("2 * π", "6.28318530717958648", false);
    check_error(
        "π² € 2",
        expect![
            "unexpected character at character 4: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
        ],
    );
}

#[test]
fn errors_have_a_reason_and_a_position() {
    check_error("1 / (2 - 2)", expect!["division by zero in `1 / (2 - 2)`"]);
    check_error(
        "2 +",
        expect![
            "unexpected end of expression at character 4: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
        ],
    );
    check_error(
        "6 × 7 € 2",
        expect![
            "unexpected character at character 7: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
        ],
    );
    check_error(
        "(2",
        expect![
            "unclosed parenthesis at character 1: write numbers, + - * / % ^ !, parentheses and functions such as sqrt(2)"
        ],
    );
    check_error(
        "3 * x",
        expect![
            "unknown name `x`: known are pi, e, tau, sqrt, cbrt, abs, sign, exp, ln, log2, log10, log, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, asinh, acosh, atanh, floor, ceil, round, trunc, pow, hypot, min, max, clamp, fact"
        ],
    );
    check_error(
        "average(1, 2)",
        expect![
            "unknown name `average`: known are pi, e, tau, sqrt, cbrt, abs, sign, exp, ln, log2, log10, log, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, asinh, acosh, atanh, floor, ceil, round, trunc, pow, hypot, min, max, clamp, fact"
        ],
    );
    check_error("sqrt(1, 2)", expect!["wrong number of arguments in `sqrt(1, 2)`"]);
    check_error("sqrt(-4)", expect!["`sqrt(-4)` has no real value"]);
    check_error(
        "1e10000 + 1",
        expect!["`1e10000` is too large: numbers have at most 10,000 digits, and angles at most 343"],
    );
    check_error(
        "9^9^9^9",
        expect!["`9^9^9` is too large: numbers have at most 10,000 digits, and angles at most 343"],
    );
    check_error(
        "100000!",
        expect!["`100000!` is too large: numbers have at most 10,000 digits, and angles at most 343"],
    );
    check_error(
        &"(".repeat(1000),
        expect![
            "the expression is too long: at most 1000 characters, nested at most 32 deep; work it out in parts"
        ],
    );
    check_error(
        // Without the length limit, the evaluation of 1,000 factorials would take a second.
        &"3248!+".repeat(1000),
        expect![
            "the expression is too long: at most 1000 characters, nested at most 32 deep; work it out in parts"
        ],
    );
}

#[test]
fn numbers_have_at_most_10000_digits() {
    check("5e9999 / 1e9999", "5", false);
    check_error(
        "5e9999 * 2",
        expect!["`5e9999 * 2` is too large: numbers have at most 10,000 digits, and angles at most 343"],
    );
}

#[test]
fn angle_with_too_many_digits_is_too_large() {
    check("sin(9e342) < 2", "1", true);
    for name in ["sin", "cos", "tan"] {
        let error = calculator(format!("{name}(10^343)")).unwrap_err();
        assert_eq!(error, CalculatorError::TooLarge { part: format!("{name}(10^343)") });
    }
    check_error("sin(4)^0.5", expect!["`sin(4)^0.5` has no real value"]);
}

#[test]
fn every_listed_name_is_supported() {
    for name in KNOWN_NAMES {
        let zero_or_one = ["0", "1"].map(|number| format!("{name}({number})"));
        let known = [name.to_owned(), format!("{name}(1, 2)"), format!("{name}(1, 2, 3)")];
        let known = known.into_iter().chain(zero_or_one);
        assert!(known.into_iter().any(|expression| calculator(expression).is_ok()), "{name}");
    }
}

/// The error for an unknown name must list every name that `nanoexpr` documents.
#[test]
fn every_supported_name_is_listed() {
    let documented = "pi tau e sqrt cbrt abs sign exp ln log2 log10 log sin cos tan asin acos atan atan2 sinh cosh \
        tanh asinh acosh atanh floor ceil round trunc pow hypot min max clamp fact";
    let mut documented: Vec<_> = documented.split_whitespace().collect();
    let mut listed = KNOWN_NAMES.to_vec();
    documented.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, documented);
    check("factorial(5) + power(2, 3)", "128", true);
}

#[test]
fn percent_is_rejected_with_the_alternative() {
    for expression in [
        "50% + 10",
        "100 + 10% - 5",
        "15%(200)",
        "200 * 15%",
        "(15%)",
        "max(5%, 1)",
        "15 %",
        "15% of 200",
        "2 * 15% * 3",
    ] {
        let error = calculator(expression.to_owned()).map(|json| json.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`%` is the remainder of a division: write 15/100 for 15 percent",
            "{expression}"
        );
    }
    check("7 % 3", "1", true);
    check("7%3", "1", true);
    check("7% 3", "1", true);
    check("7 % -3", "1", true);
    check("7 % (2+1)", "1", true);
    check("7.5 % .5", "0", true);
}

#[test]
fn functions_take_many_arguments() {
    check("max(1, 2, 3, 4, 5, 6, 7, 8, 9)", "9", true);
    let call = |count| format!("max({})", vec!["1"; count].join(","));
    check(&call(64), "1", true);
    check_error(&call(65), expect!["too many arguments: a function takes at most 64; work it out in parts"]);
    // The evaluator stores the arguments of each nesting level on the stack. Deep nesting must not
    // overflow the stack.
    let nested = "max(1,".repeat(31) + "1" + &")".repeat(31);
    check(&nested, "1", true);
}
