use std::fs::File;

use super::*;

/// Creates a sparse file of `size` bytes, with a stamp that marks it as the verified file of
/// `model`.
fn verified_file(folder: &Path, model: &KnownModel, size: u64) -> PathBuf {
    let path = folder.join("renamed.gguf");
    File::create(&path).unwrap().set_len(size).unwrap();
    VerificationStamp::of(&path, model.sha256.unwrap_or("unknown")).unwrap().write(&path).unwrap();
    path
}

#[test]
fn catalogue_file_is_identified_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    // A file without a SHA-256 in the catalogue cannot be identified.
    for model in KnownModel::all().iter().filter(|model| model.sha256.is_some()) {
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

#[test]
fn catalogue_is_consistent() {
    let models = KnownModel::all();
    assert!(models.is_sorted_by_key(|model| model.size));
    for (index, model) in models.iter().enumerate() {
        assert!(models.iter().skip(index + 1).all(|other| other.name != model.name));
        assert!(models.iter().skip(index + 1).all(|other| other.file_name != model.file_name));
        assert_eq!(model.hub.to_string().parse(), Ok(model.hub.clone()));
        let is_digit = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
        assert!(model.sha256.is_none_or(|hash| hash.len() == 64 && hash.chars().all(is_digit)));
    }
}

#[test]
fn hub_file_is_parsed() {
    let file: HubFile = "hub:owner/name/folder/a b.GGUF@refs/pr/1".parse().unwrap();
    assert_eq!(
        (&*file.repository, &*file.path, &*file.revision),
        ("owner/name", "folder/a b.GGUF", "refs/pr/1")
    );
    assert_eq!(file.to_string(), "hub:owner/name/folder/a b.GGUF@refs/pr/1");
    let url = file.url("https://hub.example/");
    assert_eq!(url, "https://hub.example/owner/name/resolve/refs%2Fpr%2F1/folder/a%20b.GGUF");
    assert_eq!(HubFile::from_relative_path(&file.relative_path()), Some(file));

    let invalid = [
        "",
        "hub:",
        "a.gguf",
        "owner/a.gguf",
        "owner/name/a.bin",
        "owner//a.gguf",
        "owner/name/../a.gguf",
        "../name/a.gguf",
        "owner/name/a.gguf@",
        "owner/name/a.gguf@../..",
        r"owner/name/..\a.gguf",
        "C:/name/a.gguf",
        "owner/name/.gguf",
    ];
    for text in invalid {
        let error = text.parse::<HubFile>().unwrap_err().to_string();
        assert!(error.contains("hub:OWNER/REPOSITORY/FILE.gguf"), "{error}");
    }
}

#[test]
fn files_of_the_hub_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = ModelStore::in_folder(folder.path());
    let files = ["b/two/x.gguf@v1", "a/one/folder/y.gguf"].map(|file| file.parse::<HubFile>().unwrap());
    for file in &files {
        let path = store.hub_path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap();
        assert_eq!(store.verified_hub_path(file), None);
        VerificationStamp::of(&path, "hash").unwrap().write(&path).unwrap();
        assert_eq!(store.verified_hub_path(file), Some(path));
    }
    let [first, second] = files;
    assert_eq!(store.hub_files(), [second, first]);
}

/// A link to a parent folder would be a cycle, and a link to another folder a search without end.
#[cfg(unix)]
#[test]
fn listing_follows_no_links_to_folders_and_has_a_maximum_depth() {
    let folder = tempfile::tempdir().unwrap();
    let store = ModelStore::in_folder(folder.path().join("models"));
    let add = |file: &str| {
        let path = store.folder().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap();
        VerificationStamp::of(&path, "hash").unwrap().write(&path).unwrap();
    };
    add("hub/a/one/main/x.gguf");
    add(&format!("hub/a/one/main/{}x.gguf", "f/".repeat(20)));
    add("../elsewhere/two/main/y.gguf");
    std::os::unix::fs::symlink("..", store.folder().join("hub/a/up")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), store.folder().join("hub/b")).unwrap();
    assert_eq!(store.hub_files(), ["a/one/x.gguf".parse().unwrap()]);
}
