use candle_core::Device;

use super::*;

fn numbers() -> Tensor {
    Tensor::arange_step(-30.0_f32, 30.0, 0.01, &Device::Cpu).unwrap()
}

#[test]
fn exponential_is_precise() {
    for step in -8700..=8800 {
        let x = step as f32 / 100.0;
        let expected = f64::from(x).exp();
        let error = (f64::from(exp(x)) / expected - 1.0).abs();
        assert!(error < 3e-7, "exp({x}): {error}");
    }
    assert!(exp(f32::NEG_INFINITY) < 1e-37);
}

#[test]
fn operations_equal_those_of_the_tensor_library() {
    let (left, right) = (numbers(), numbers().affine(-0.3, 1.0).unwrap());
    let cases = [
        (Elementwise::Sum, &left + &right),
        (Elementwise::Gated(Activation::Silu), left.silu().unwrap() * &right),
        (Elementwise::Gated(Activation::GeluTanh), left.gelu().unwrap() * &right),
    ];
    for (operation, expected) in cases {
        let expected = expected.unwrap();
        for actual in [operation.apply(&left, &right), operation.apply_on_device(&left, &right)] {
            let difference = (actual.unwrap() - &expected).unwrap().abs().unwrap().max_all().unwrap();
            let difference: f32 = difference.to_scalar().unwrap();
            assert!(difference < 1e-4, "{operation:?}: {difference}");
        }
    }
}
