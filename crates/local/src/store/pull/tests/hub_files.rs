//! Tests of files that are not in the catalogue, of redirects and of access tokens.

use std::collections::HashMap;
use std::ffi::OsString;

use super::*;
use crate::store::pull::token::Token;

const TOKEN: &str = "hf_secret";

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The headers that the hub sends for a file with `content`.
fn linked_headers(content: &[u8]) -> String {
    format!("x-linked-size: {}\r\nx-linked-etag: \"{}\"\r\n", content.len(), sha256(content))
}

/// The response of the hub that redirects to `location`.
fn redirect(location: &str, content: &[u8]) -> Vec<u8> {
    let headers = format!("{}location: {location}\r\ncontent-length: 0\r\n", linked_headers(content));
    reply("302 Found", &headers, b"")
}

fn rest_of_file(start: usize) -> Vec<u8> {
    let (total, rest) = (CONTENT.len(), &CONTENT[start..]);
    let headers =
        format!("content-range: bytes {start}-{}/{total}\r\ncontent-length: {}\r\n", total - 1, rest.len());
    reply("206 Partial Content", &headers, rest)
}

async fn pull_file(store: &ModelStore, hub: &str, token: Option<&str>) -> Result<PathBuf, PullError> {
    let file: HubFile = "hub:some/repository/folder/tiny.gguf@v2".parse().unwrap();
    Downloader::new().with_hub(hub).with_token(token).pull_hub_file(store, &file, &|_| {}).await
}

fn source_error(result: Result<PathBuf, PullError>) -> PullSourceError {
    match result {
        Err(PullError::NoSource { failures, .. }) => failures.into_iter().next_back().unwrap().1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn token_is_sent_to_the_hub_only() {
    let (_folder, store) = store();
    let storage = Hub::new(vec![file_reply(CONTENT, CONTENT.len())]).await;
    // A relative redirect stays at the hub, and the next one goes to another origin.
    let hub = Hub::new(vec![
        redirect("/moved?x=1", CONTENT),
        redirect(&format!("{}/signed", storage.address), CONTENT),
    ])
    .await;
    let path = pull_file(&store, &hub.address, Some(TOKEN)).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    let requests = hub.requests();
    assert!(requests[0].starts_with("get /some/repository/resolve/v2/folder/tiny.gguf http/1.1"));
    assert!(requests[1].starts_with("get /moved?x=1 http/1.1"));
    assert!(requests.iter().all(|request| request.contains("authorization: bearer hf_secret")));
    let [signed] = &storage.requests()[..] else { panic!("{:?}", storage.requests()) };
    assert!(signed.starts_with("get /signed") && !signed.contains("authorization"), "{signed}");
    // The file is verified, so the hub is not needed.
    assert_eq!(pull_file(&store, &closed_address().await, None).await.unwrap(), path);
}

/// Requests exclude compression, and a compressed file is an error that names the coding.
#[tokio::test]
async fn compressed_file_is_rejected() {
    let (_folder, store) = store();
    let hub =
        Hub::new(vec![reply("200 OK", "content-encoding: gzip\r\ncontent-length: 2\r\n", b"\x1f\x8b")]).await;
    let error = source_error(pull_file(&store, &hub.address, None).await).to_string();
    assert!(error.contains("\"gzip\""), "{error}");
    assert!(hub.requests()[0].contains("accept-encoding: identity"));
    assert!(store.hub_files().is_empty());
}

#[tokio::test]
async fn digest_of_the_hub_is_verified() {
    let (_folder, store) = store();
    let wrong: Vec<u8> = CONTENT.iter().rev().copied().collect();
    for sent in [&wrong[..], b"too short"] {
        let storage = Hub::new(vec![file_reply(sent, sent.len())]).await;
        let hub = Hub::new(vec![redirect(&storage.address, CONTENT)]).await;
        let error = source_error(pull_file(&store, &hub.address, None).await);
        assert!(matches!(error, PullSourceError::WrongFile { .. }), "{error}");
        assert!(store.hub_files().is_empty());
    }
}

#[tokio::test]
async fn file_without_a_digest_is_not_verified() {
    let (_folder, store) = store();
    let hub = Hub::new(vec![file_reply(CONTENT, 12), file_reply(CONTENT, CONTENT.len())]).await;
    let error = source_error(pull_file(&store, &hub.address, None).await);
    assert!(matches!(error, PullSourceError::Unreachable { .. }), "{error}");
    let path = pull_file(&store, &hub.address, None).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    let file: HubFile = "some/repository/folder/tiny.gguf@v2".parse().unwrap();
    assert_eq!(store.verified_hub_path(&file), None);
    assert_eq!((store.downloaded_hub_path(&file), store.hub_files().len()), (Some(path.clone()), 1));
    // It is complete, so it is not downloaded again.
    assert_eq!(pull_file(&store, &closed_address().await, None).await.unwrap(), path);
    corrupt(&path, b"changed");
    assert!(pull_file(&store, &closed_address().await, None).await.is_err());
}

#[tokio::test]
async fn interrupted_hub_file_is_resumed() {
    let (_folder, store) = store();
    let storage = Hub::new(vec![file_reply(CONTENT, 12), rest_of_file(12)]).await;
    let to_storage = redirect(&storage.address, CONTENT);
    let hub = Hub::new(vec![to_storage.clone(), to_storage]).await;
    assert!(pull_file(&store, &hub.address, None).await.is_err());
    let path = pull_file(&store, &hub.address, None).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    assert!(storage.requests()[1].contains("range: bytes=12-"));
    let folder = path.parent().unwrap();
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// A branch can get a new version of the file between two attempts. The bytes of the earlier
/// version must not be used.
#[tokio::test]
async fn changed_file_is_not_resumed() {
    let (_folder, store) = store();
    let old: Vec<u8> = CONTENT.iter().rev().copied().collect();
    let first = Hub::new(vec![reply(
        "200 OK",
        &format!("{}content-length: 36\r\n", linked_headers(&old)),
        &old[..12],
    )])
    .await;
    assert!(pull_file(&store, &first.address, None).await.is_err());
    let new = format!("{}content-length: 36\r\n", linked_headers(CONTENT));
    let partial =
        format!("{}content-range: bytes 12-35/36\r\ncontent-length: 24\r\n", linked_headers(CONTENT));
    let hub = Hub::new(vec![
        reply("206 Partial Content", &partial, &CONTENT[12..]),
        reply("200 OK", &new, CONTENT),
    ])
    .await;
    let path = pull_file(&store, &hub.address, None).await.unwrap();
    assert_eq!(fs::read(path).unwrap(), CONTENT);
    assert!(!hub.requests()[1].contains("range:"));
}

#[tokio::test]
async fn complete_partial_file_is_verified() {
    let (_folder, store) = store();
    let file: HubFile = "some/repository/folder/tiny.gguf@v2".parse().unwrap();
    let no_more = reply("416 Range Not Satisfiable", "content-length: 0\r\n", b"");
    let storage = Hub::new(vec![file_reply(CONTENT, 12), no_more]).await;
    let to_storage = redirect(&storage.address, CONTENT);
    let hub = Hub::new(vec![to_storage.clone(), to_storage]).await;
    assert!(pull_file(&store, &hub.address, None).await.is_err());
    // The earlier attempt was interrupted after its last byte.
    fs::write(with_extension(&store.hub_path(&file), "partial"), CONTENT).unwrap();
    assert!(pull_file(&store, &hub.address, None).await.is_ok());
}

#[tokio::test]
async fn refusals_name_a_remedy() {
    let refusals = [
        (
            "401 Unauthorized",
            "GatedRepo",
            None,
            "gated: accept its terms at HUB/some/repository, then set HF_TOKEN",
        ),
        (
            "403 Forbidden",
            "GatedRepo",
            Some(TOKEN),
            "the account of your access token must have accepted them",
        ),
        (
            "401 Unauthorized",
            "RepoNotFound",
            None,
            "access to some/repository: check its name; if it is private, set HF_TOKEN",
        ),
        ("401 Unauthorized", "", Some(TOKEN), "check that your access token (HF_TOKEN) is valid"),
        ("404 Not Found", "EntryNotFound", None, "has no file hub:some/repository/folder/tiny.gguf@v2"),
        (
            "404 Not Found",
            "RevisionNotFound",
            None,
            "check the names of the repository, the file and the revision",
        ),
        ("503 Service Unavailable", "", None, "HTTP status 503"),
    ];
    for (status, code, token, expected) in refusals {
        let (_folder, store) = store();
        let headers = format!("x-error-code: {code}\r\ncontent-length: 0\r\n");
        let hub = Hub::new(vec![reply(status, &headers, b"")]).await;
        let error = pull_file(&store, &hub.address, token).await.unwrap_err().to_string();
        assert!(error.replace(&hub.address, "HUB").contains(expected), "{error}");
        assert!(!error.contains(TOKEN), "{error}");
    }
}

#[tokio::test]
async fn endless_redirect_is_an_error() {
    let (_folder, store) = store();
    let hub = Hub::new(vec![redirect("/again", CONTENT); 11]).await;
    let error = source_error(pull_file(&store, &hub.address, None).await);
    assert!(error.to_string().contains("too many redirects"), "{error}");
    let hub = Hub::new(vec![redirect("file:///etc/passwd", CONTENT)]).await;
    let error = source_error(pull_file(&store, &hub.address, None).await);
    assert!(error.to_string().contains("invalid redirect"), "{error}");
}

#[test]
fn token_is_not_in_debug_output() {
    let downloader = Downloader::new().with_token(Some(TOKEN));
    assert!(!format!("{downloader:?}").contains(TOKEN));
}

#[test]
fn token_is_found_like_in_the_client_of_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, token: &str| -> OsString {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, token).unwrap();
        path.into()
    };
    let home: OsString = folder.path().join("home").into();
    write("home/token", "of-home\n");
    write("cache/huggingface/token", "of-cache");
    let file = write("file", " of-file ");
    let cache = || Some(folder.path().join("cache"));
    let find = |variables: &[(&str, &OsString)], cache| {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Token::find(&|name| variables.get(name).map(|value| (*value).clone()), cache)
    };
    let value = |text: &str| OsString::from(text);
    let (direct, legacy, on, blank) = (value("direct"), value("legacy"), value("true"), value(" "));
    let all = [
        ("HF_TOKEN", &direct),
        ("HUGGING_FACE_HUB_TOKEN", &legacy),
        ("HF_TOKEN_PATH", &file),
        ("HF_HOME", &home),
    ];
    assert_eq!(find(&all, cache()), Token::new("direct"));
    assert_eq!(find(&all[1..], cache()), Token::new("legacy"));
    assert_eq!(find(&all[2..], cache()), Token::new("of-file"));
    assert_eq!(find(&all[3..], cache()), Token::new("of-home"));
    assert_eq!(find(&[("HF_TOKEN", &blank)], cache()), Token::new("of-cache"));
    assert_eq!(find(&[], None), None);
    assert_eq!(find(&[("HF_TOKEN", &direct), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", &on)], cache()), None);
}

/// Another user of a shared folder can create a link in the place of a folder.
#[cfg(unix)]
#[tokio::test]
async fn linked_folder_is_refused() {
    let (folder, store) = store();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(store.folder().join("hub")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, store.folder().join("hub/some")).unwrap();
    let hub = Hub::new(vec![file_reply(CONTENT, CONTENT.len())]).await;
    let error = pull_file(&store, &hub.address, None).await.unwrap_err();
    let PullError::Folder { source, .. } = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("hub/some is a link"), "{source}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
