//! `haft` as a client of a server that requires OAuth.

use std::thread;
use std::time::Duration;

use super::child::Running;
use super::{Home, Peers};
use crate::failure::Failure;
use crate::process::announce;

/// The server, with an authorization server.
const SERVER: &str = "servers/oauth.py";
/// The lifetime of the token that expires during the test.
const TOKEN_LIFETIME: Duration = Duration::from_secs(1);
/// Opens a URL and follows its redirects, as the browser of a user does.
const BROWSER: &str = "import sys, urllib.request as web; print(web.urlopen(sys.argv[1]).read().decode())";

pub(super) fn check(peers: &Peers) -> Result<(), Failure> {
    announce("haft as a client of FastMCP over HTTP with OAuth");
    let host = Home::new(peers, "oauth-server")?;
    let mut server = Running::start(host.command(&peers.python).arg(peers.script(SERVER)))?;
    let home = Home::new(peers, "oauth-client")?;
    let call = |tool: &str, arguments: &str| home.run_haft(["call", tool, arguments]);
    let expect_refreshes = |count: u32| call("count_refreshes", "{}")?.expect(0, &format!("{count}\n"));
    home.run_haft(["mcp", "add", "oauth", &server.url()?])?.expect(0, "added oauth")?;
    home.run_haft(["mcp", "test", "oauth"])?.expect(1, "haft mcp login")?;
    log_in(&home)?;
    home.run_haft(["mcp", "test", "oauth"])?.expect(0, "2 tools: expire_tokens, count_refreshes")?;
    expect_refreshes(0)?;
    call("expire_tokens", r#"{"lifetime": "short"}"#)?.expect(1, "/lifetime")?;
    // The server rejects the token.
    call("expire_tokens", "{}")?.expect(0, "expired")?;
    expect_refreshes(1)?;
    // The lifetime of the next token ends, either before or after the next call.
    let lifetime = format!(r#"{{"lifetime": {}}}"#, TOKEN_LIFETIME.as_secs());
    call("expire_tokens", &lifetime)?.expect(0, "expired")?;
    call("count_refreshes", "{}")?.expect(0, "")?;
    thread::sleep(TOKEN_LIFETIME);
    expect_refreshes(3)?;
    home.run_haft(["mcp", "logout", "oauth"])?.expect(0, "logged out of oauth")?;
    call("count_refreshes", "{}")?.expect(1, "the server requires authorization")?;
    home.run_haft(["mcp", "logout", "oauth"])?.expect(0, "no tokens of oauth")
}

/// Runs `haft mcp login`, and opens its URL.
fn log_in(home: &Home<'_>) -> Result<(), Failure> {
    let mut login = Running::start(&mut home.haft(["mcp", "login", "oauth", "--no-browser"]))?;
    let url = login.url()?;
    let mut browser = home.command(&home.peers.python);
    browser.args(["-c", BROWSER, &url]);
    Running::start(&mut browser)?.finish()?.expect(0, "You can close this page")?;
    login.finish()?.expect(0, "logged in to oauth")
}
