//! Fuzz target for [`haft_fuzz::laws::name`].
#![no_main]

use haft_fuzz::laws;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| laws::name(input));
