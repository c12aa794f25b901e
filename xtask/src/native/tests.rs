use super::model_file;

/// Tests run in the folder of the package, and programs in the one above it.
#[test]
fn a_model_is_found_from_any_folder() {
    let file = model_file("src/native.rs".into()).expect("this file is there");
    assert_eq!(file, std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/native.rs"));
}
