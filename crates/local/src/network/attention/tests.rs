use candle_core::Device;

use super::*;

fn waves(shape: (usize, usize, usize), frequency: f32) -> Tensor {
    let (heads, rows, size) = shape;
    let wave = |index: usize| (index as f32 * frequency).sin();
    let numbers: Vec<f32> = (0..heads * rows * size).map(wave).collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
}

#[test]
fn attention_equals_that_of_the_tensor_library() {
    for (kv_heads, group, size) in [(2, 7, 64), (1, 1, 20), (3, 4, 6)] {
        // The cache has room for more positions.
        let (keys, values) = (waves((kv_heads, 200, size), 0.71), waves((kv_heads, 200, size), 0.37));
        for (start, tokens) in [(0, 1), (0, 70), (90, 1), (90, 3), (43, 100)] {
            let positions = start + tokens;
            let query = waves((kv_heads * group, tokens, size), 0.53);
            let [keys, values] = [&keys, &values].map(|cache| cache.narrow(1, 0, positions).unwrap());
            for window in [None, Some(1), Some(16), Some(1000)] {
                let attention = Attention { start, scale: 0.5, window };
                let actual = attention.apply(&query, &keys, &values).unwrap();
                let expected = attention.apply_on_device(&query, &keys, &values).unwrap();
                let difference = (actual - expected).unwrap().abs().unwrap().max_all().unwrap();
                let difference: f32 = difference.to_scalar().unwrap();
                assert!(difference < 1e-5, "{attention:?}, {tokens} tokens: {difference}");
            }
        }
    }
}
