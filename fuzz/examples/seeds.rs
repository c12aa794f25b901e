//! Writes the seed corpus to a folder. Each file contains a schema of the official JSON Schema test
//! suite and the values of its tests.

use std::path::PathBuf;
use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: seeds FOLDER")?);
    fs::create_dir_all(&folder)?;
    for (index, case) in haft_fuzz::seeds::load_suite()?.iter().enumerate() {
        fs::write(folder.join(format!("{index:04}")), case.to_bytes())?;
    }
    Ok(())
}
