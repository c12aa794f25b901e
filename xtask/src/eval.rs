//! `cargo xtask eval`: how well the local model picks and calls tools, as a table.

use crate::failure::Failure;
use crate::native;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    native::ask_model("eval", arguments)
}
