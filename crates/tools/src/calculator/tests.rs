use expect_test::{Expect, expect};

use super::{Calculation, calculator};

fn check(expression: &str, result: &str, exact: bool) {
    let calculation = calculator(expression.to_owned()).map(|json| json.0);
    assert_eq!(calculation, Ok(Calculation { result: result.to_owned(), exact }), "{expression}");
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a value")]
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
fn whole_numbers_of_64_bits_keep_every_digit() {
    check("2^63", "9223372036854775808", true);
    check("123456789 * 987654321", "121932631112635269", true);
    check("20!", "2432902008176640000", true);
}

#[test]
fn what_is_rounded_says_so() {
    check("1/3", "0.333333333333333333", false);
    check("sqrt(2)", "1.41421356237309505", false);
    check("2^64", "1.84467440737095516e19", false);
    check("pi", "3.14159265358979324", false);
}

#[test]
fn precedence_is_that_of_mathematics() {
    check("2 * (3 + 4)", "14", true);
    check("-2^2", "-4", true);
    check("2^3^2", "512", true);
    check("2**10 % 1000", "24", true);
    check("min(3, 4, 1) + max(1, 2)", "3", true);
}

#[test]
fn the_signs_of_print_are_read() {
    check("6 × 7 ÷ 2 − 1", "20", true);
}

#[test]
fn errors_say_what_is_wrong_and_where() {
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
            "unknown name `x`: known are pi, e, tau, sqrt, cbrt, abs, sign, exp, ln, log2, log10, log, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, floor, ceil, round, trunc, hypot, min, max, clamp, fact"
        ],
    );
    check_error(
        "average(1, 2)",
        expect![
            "unknown name `average`: known are pi, e, tau, sqrt, cbrt, abs, sign, exp, ln, log2, log10, log, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, floor, ceil, round, trunc, hypot, min, max, clamp, fact"
        ],
    );
    check_error("sqrt(1, 2)", expect!["wrong number of arguments in `sqrt(1, 2)`"]);
    check_error("sqrt(-4)", expect!["`sqrt(-4)` has no real value"]);
    check_error("9^9^9^9", expect!["`9^9^9` is too large: results end at 10^9999"]);
    check_error("100000!", expect!["`100000!` is too large: results end at 10^9999"]);
    check_error(
        &"(".repeat(1000),
        expect![
            "the expression is too long: at most 10000 bytes, nested at most 32 deep; work it out in parts"
        ],
    );
    check_error(
        &"1+".repeat(10_000),
        expect![
            "the expression is too long: at most 10000 bytes, nested at most 32 deep; work it out in parts"
        ],
    );
}

#[test]
fn every_name_that_is_listed_is_known() {
    for name in super::NAMES {
        let known =
            [name.to_owned(), format!("{name}(1)"), format!("{name}(1, 2)"), format!("{name}(1, 2, 3)")];
        assert!(known.into_iter().any(|expression| calculator(expression).is_ok()), "{name}");
    }
}
