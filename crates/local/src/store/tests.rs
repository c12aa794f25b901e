use std::fs::File;

use super::*;

/// Creates a sparse file of `size` bytes, with a stamp that marks it as the verified file of
/// `model`.
fn verified_file(folder: &Path, model: &KnownModel, size: u64) -> PathBuf {
    let path = folder.join("renamed.gguf");
    File::create(&path).unwrap().set_len(size).unwrap();
    VerificationStamp::of(&path, model).unwrap().write(&path).unwrap();
    path
}

#[test]
fn catalogue_file_is_identified_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    for model in KnownModel::all() {
        let path = verified_file(folder.path(), model, model.size);
        assert_eq!(identify_model(&path), Some(model));
    }
}

#[test]
fn other_files_are_not_identified() {
    let folder = tempfile::tempdir().unwrap();
    let model = KnownModel::default_model();
    assert_eq!(identify_model(&verified_file(folder.path(), model, model.size - 1)), None);
    assert_eq!(identify_model(&folder.path().join("missing.gguf")), None);
}
