use candle_core::Device;

use super::*;

const COLUMNS: usize = 512;
const ROWS: usize = 70;

/// Quantizes a matrix of waves. The weights of a row have different magnitudes.
fn matrix(dtype: GgmlDType) -> QTensor {
    let weight = |index: usize| (index as f32 * 0.37).sin() * (1.0 + (index % 57) as f32);
    let weights: Vec<f32> = (0..ROWS * COLUMNS).map(weight).collect();
    let dense = Tensor::from_vec(weights, (ROWS, COLUMNS), &Device::Cpu).unwrap();
    QTensor::quantize(&dense, dtype).unwrap()
}

fn activations(tokens: usize) -> Tensor {
    let numbers: Vec<f32> = (0..tokens * COLUMNS).map(|index| (index as f32 * 0.21).cos()).collect();
    Tensor::from_vec(numbers, (tokens, COLUMNS), &Device::Cpu).unwrap()
}

const FORMATS: [GgmlDType; 6] =
    [GgmlDType::Q4_0, GgmlDType::Q5_0, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K];

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Asserts that each number of `actual` differs from `expected` by less than `tolerance` of the
/// largest number.
fn assert_close(actual: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0, |largest: f32, number| largest.max(number.abs()));
    let difference = actual.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference <= tolerance * largest, "{what}: {difference} of {largest}");
}

#[test]
fn weights_equal_those_of_the_tensor_library() {
    for dtype in FORMATS {
        let tensor = Arc::new(matrix(dtype));
        let expected = numbers(&tensor.dequantize(&Device::Cpu).unwrap());
        let kernels = BlockMatrix::new(tensor.clone()).unwrap().kernels;
        let input = numbers(&activations(1));
        let bytes = tensor.data().unwrap();
        let (products, floats) = kernels.compute_portably(&bytes, COLUMNS, &input);
        assert_close(&floats, &expected, 1e-6, &format!("{dtype:?}, portable"));
        let best = kernels.multiply(RowOrder::Sequential, &bytes, COLUMNS, &input);
        assert_close(&products, &best, 1e-5, &format!("{dtype:?}, portable products"));
    }
}

/// Activations that are quantized to 8 bits change the products by less than 3 %.
#[test]
fn products_equal_those_of_floats_and_of_single_tokens() {
    for dtype in FORMATS {
        let tensor = Arc::new(matrix(dtype));
        let dense = tensor.dequantize(&Device::Cpu).unwrap().t().unwrap();
        let matrix = BlockMatrix::new(tensor.clone()).unwrap();
        for tokens in [1, 2, 3, 4, 5, 7, MIN_FLOAT_TOKENS - 1, MIN_FLOAT_TOKENS, 40, 70, 130] {
            let input = activations(tokens);
            let expected = numbers(&input.matmul(&dense).unwrap());
            let products = matrix.forward(&input).unwrap();
            let what = format!("{dtype:?} with {tokens} tokens");
            assert_close(&numbers(&products), &expected, 0.03, &what);
            if tokens < MIN_FLOAT_TOKENS {
                let (bytes, input) = (tensor.data().unwrap(), numbers(&input));
                let interleaved = matrix.kernels.multiply(RowOrder::Interleaved, &bytes, COLUMNS, &input);
                assert_close(&interleaved, &numbers(&products), 1e-5, &what);
            }
            let last = input.narrow(0, tokens - 1, 1).unwrap();
            let single = matrix.forward(&last).unwrap();
            let last = products.narrow(0, tokens - 1, 1).unwrap();
            assert_close(&numbers(&last), &numbers(&single), 1e-5, &what);
        }
    }
}

/// The scale of a block of zeros is 0, and the scales of tiny weights are subnormal.
#[test]
fn zeros_and_tiny_weights_are_converted() {
    for dtype in FORMATS {
        let weights: Vec<f32> =
            (0..2 * COLUMNS).map(|index| if index < COLUMNS { 0.0 } else { 1e-6 }).collect();
        let dense = Tensor::from_vec(weights, (2, COLUMNS), &Device::Cpu).unwrap();
        let tensor = Arc::new(QTensor::quantize(&dense, dtype).unwrap());
        let expected = tensor.dequantize(&Device::Cpu).unwrap().sum(1).unwrap();
        let input = Tensor::ones((MIN_FLOAT_TOKENS, COLUMNS), candle_core::DType::F32, &Device::Cpu).unwrap();
        let products = BlockMatrix::new(tensor).unwrap().forward(&input).unwrap();
        assert_close(
            &numbers(&products.narrow(0, 0, 1).unwrap()),
            &numbers(&expected),
            1e-5,
            &format!("{dtype:?}"),
        );
    }
}

#[test]
fn input_of_another_width_is_an_error() {
    let matrix = BlockMatrix::new(Arc::new(matrix(GgmlDType::Q4_0))).unwrap();
    let input = activations(2).narrow(1, 0, 64).unwrap().contiguous().unwrap();
    let error = matrix.forward(&input).unwrap_err().to_string();
    assert!(error.starts_with("a matrix of 512 columns has an input of the shape [2, 64]"), "{error}");
}

/// A task has fewer rows than are multiplied at a time, and the last part has fewer columns.
#[test]
fn products_of_small_matrices_equal_those_of_floats() {
    for dtype in FORMATS {
        for (rows, columns) in [(1, 256), (3, 256), (5, 768), (1, 160), (7, 896)] {
            if columns % dtype.block_size() != 0 {
                continue;
            }
            let weights: Vec<f32> = (0..rows * columns).map(|index| (index as f32 * 0.37).sin()).collect();
            let dense = Tensor::from_vec(weights, (rows, columns), &Device::Cpu).unwrap();
            let tensor = Arc::new(QTensor::quantize(&dense, dtype).unwrap());
            let dense = tensor.dequantize(&Device::Cpu).unwrap().t().unwrap();
            let matrix = BlockMatrix::new(tensor).unwrap();
            for tokens in [1, 2, 3, 5, 20] {
                let numbers_of = |count: usize| (0..count).map(|index| (index as f32 * 0.21).cos()).collect();
                let input: Vec<f32> = numbers_of(tokens * columns);
                let input = Tensor::from_vec(input, (tokens, columns), &Device::Cpu).unwrap();
                let expected = numbers(&input.matmul(&dense).unwrap());
                let what = format!("{dtype:?}, {rows} x {columns} with {tokens} tokens");
                assert_close(&numbers(&matrix.forward(&input).unwrap()), &expected, 0.03, &what);
            }
        }
    }
}
