//! The laws: one for each fuzz target.

mod arguments;
mod name;
mod provider;
mod repair;
mod replay;
mod schema;

use std::thread;

pub use self::arguments::arguments;
pub use self::name::name;
pub use self::provider::provider;
pub use self::repair::repair;
pub use self::schema::schema;

/// What a thread has where nobody asked for more. No input may need it all.
const STACK: usize = 2 << 20;

/// Holds a law against an input on a stack of the size that threads have.
///
/// # Panics
///
/// Panics where the law does not hold. A stack that is too small ends the process.
pub fn hold(law: fn(&[u8]), input: &[u8]) {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || law(input));
        thread.expect("a thread").join().expect("the law holds");
    });
}
