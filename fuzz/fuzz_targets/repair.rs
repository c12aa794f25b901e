//! Fuzz target for [`haft_fuzz::laws::check_repair`].
#![no_main]

use haft_fuzz::{laws, mutation};
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|input: &[u8]| laws::check(laws::check_repair, input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutation::mutate(data, size, max_size, seed).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    mutation::cross_over(first, second, out, seed)
});
