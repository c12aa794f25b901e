//! Fuzz target for [`haft_fuzz::laws::check_name`].
#![no_main]

use haft_fuzz::laws;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| laws::check_name(input));
