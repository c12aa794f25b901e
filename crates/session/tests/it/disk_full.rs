//! A full disk: a write fails as a whole, and works again when there is space.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use haft_core::Message;
use haft_session::{Append, SessionKey, SessionStore, StoreError};

use crate::open;

const FOLDER: &str = "HAFT_TESTS_SMALL_DISK";

/// Fills the disk at the folder in `HAFT_TESTS_SMALL_DISK`.
#[tokio::test]
async fn child() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![1; 500_000]).unwrap();
    let store = open(&folder.join("haft.db")).await;
    let key = SessionKey::new("talk").unwrap();
    store.create(&key, None).await.unwrap();
    let message = |number: u64| Append::messages([Message::user(format!("{number} ").repeat(5000))]);
    let mut written = 0;
    let error = loop {
        match store.append(&key, message(written)).await {
            Ok(entries) => written = entries,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, StoreError::Full(place) if place.ends_with("haft.db")), "{error:?}");
    assert!(written > 0);
    // What was acknowledged is there, also for another process.
    assert_eq!(store.entries(&key, 0, 1000).await.unwrap().len() as u64, written);
    fs::remove_file(ballast).unwrap();
    assert_eq!(store.append(&key, message(written)).await.unwrap(), written + 1);
    let other = open(&folder.join("haft.db")).await;
    assert_eq!(other.conversation(&key).await.unwrap().transcript.len() as u64, written + 1);
}

#[tokio::test]
async fn full_disk_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = |program: &Path, arguments: &[&str]| {
        let script = "mount -t tmpfs -o size=2m none \"$0\" && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script]).arg(folder.path());
        command.arg(program).args(arguments).env(FOLDER, folder.path()).output()
    };
    if !mounted(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user cannot mount a small disk");
        return;
    }
    let output = mounted(&env::current_exe().unwrap(), &["disk_full::child", "--exact"]).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
