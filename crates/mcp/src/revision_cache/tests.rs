use std::time::{Duration, SystemTime};

use super::{CachedRevision, Content, Handshake, MAX_AGE, MAX_ENTRIES};
use crate::{HttpServer, ServerConfig, StdioServer, session::HandshakeMode};

/// A revision is detected again after seven days, and after a wrong clock.
#[test]
fn entry_expires_after_seven_days() {
    let mut content = Content::default();
    let detected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    content.insert("a".to_owned(), Handshake::Sse, detected);
    let find = |now| content.find("a", now);
    assert_eq!(find(detected), Some(HandshakeMode::Sse));
    assert_eq!(find(detected + MAX_AGE - Duration::from_secs(1)), Some(HandshakeMode::Sse));
    assert_eq!(find(detected + MAX_AGE), None);
    assert_eq!(find(detected - Duration::from_secs(1)), None);
}

#[test]
fn oldest_entry_is_removed_first() {
    let mut content = Content::default();
    for index in 0..=MAX_ENTRIES as u64 {
        let detected = SystemTime::UNIX_EPOCH + Duration::from_secs(index);
        // The order of the keys is the reverse order of the times.
        content.insert(format!("{:04}", 9999 - index), Handshake::Initialize, detected);
    }
    assert_eq!(content.servers.len(), MAX_ENTRIES);
    assert!(!content.servers.contains_key("9999") && content.servers.contains_key("9998"));
}

/// The file of a user may be read by other programs of the user, so it has no secrets.
#[test]
fn keys_are_hashes_without_secrets() {
    let key = |server: ServerConfig| CachedRevision::new("revisions.json".into(), &server).unwrap().key;
    let http = |url: &str| key(HttpServer::new(url).into());
    assert_eq!(http("https://ann:secret@example.org/mcp?token=a"), http("https://example.org/mcp#b"));
    assert_ne!(http("https://example.org/mcp"), http("https://example.org/other"));
    assert_ne!(http("https://example.org/mcp"), http("https://example.com/mcp"));
    let stdio = StdioServer::new("server").with_args(["--fast"]);
    assert_ne!(key(stdio.clone().into()), key(StdioServer::new("server").into()));
    assert_ne!(key(stdio.clone().into()), key(stdio.clone().with_cwd("/tmp").into()));
    let text = key(stdio.into());
    assert!(text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
}
