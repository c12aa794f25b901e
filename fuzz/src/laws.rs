//! The properties to check. Each property is a function, called a law, that panics if an input
//! violates the property. Each law has a fuzz target.

mod arguments;
mod name;
mod provider;
mod repair;
mod replay;
mod schema;

use std::thread;

pub use self::arguments::check_arguments;
pub use self::name::check_name;
pub use self::provider::check_provider;
pub use self::repair::check_repair;
pub use self::schema::check_schema;

/// The default stack size of Rust threads, 2 MiB. No input may cause a stack overflow on such a
/// thread.
const STACK_BYTES: usize = 2 << 20;

/// Checks that `law` holds for `input`. The law runs on a thread with the default stack size, so
/// that a deep recursion is detected.
///
/// # Panics
///
/// Panics if the law is violated. A stack overflow aborts the process.
pub fn check(law: fn(&[u8]), input: &[u8]) {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || law(input));
        thread.expect("a thread").join().expect("the law holds");
    });
}
