//! The commands `haft sessions`: stored conversations.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use haft_core::{Message, message::MessageBody};
use haft_session::{Conversation, Entry, Session, SessionKey, SessionStore, StoreError};
use serde_json::json;

use crate::{
    error::CliError,
    store::{StoreOptions, session_key, store_error},
    terminal::{self, remove_control_chars},
    text_file,
};

/// The maximum number of characters of a message in a list.
const MAX_LINE_CHARS: usize = 100;

/// List, read, search, export and delete stored conversations.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
    /// The tenant of `haft serve --token-env` that the conversations belong to. Default: those
    /// without a tenant.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tenant: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the conversations, the latest first.
    List {
        /// Write one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show the messages of a conversation.
    Show {
        /// The name of the conversation.
        name: String,
        /// Leave out tool results, and replies that only call tools.
        #[arg(long)]
        no_tools: bool,
        /// Write one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Find the messages with all these words.
    Search {
        /// The words.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Write a conversation to standard output, as JSON Lines.
    Export {
        /// The name of the conversation.
        name: String,
    },
    /// Create a conversation from an exported one.
    Import {
        /// The name of the new conversation.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// Delete a conversation.
    Delete {
        /// The name of the conversation.
        name: String,
    },
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let store = arguments.store.open().await?;
    let (store, tenant) = (&*store, arguments.tenant.as_str());
    match arguments.command {
        Command::List { json } => list(store, tenant, json).await?,
        Command::Show { name, no_tools, json } => {
            show(store, &session_key(tenant, &name)?, no_tools, json).await?;
        }
        Command::Search { words } => search(store, tenant, &words.join(" ")).await?,
        Command::Export { name } => {
            let exported = Conversation::export(store, &session_key(tenant, &name)?).await;
            let exported = exported.map_err(|error| store_error(&error))?;
            exported.lines().try_for_each(terminal::write_json)?;
        }
        Command::Import { name, file } => {
            let cannot_read = |error| CliError::new(format!("cannot read {}: {error}", file.display()));
            let text = text_file::read(&file).map_err(cannot_read)?;
            let imported = Conversation::import(store, &session_key(tenant, &name)?, &text).await;
            imported.map_err(|error| CliError::new(format!("{}: {error}", file.display())))?;
        }
        Command::Delete { name } => {
            let key = session_key(tenant, &name)?;
            store.session(&key).await.map_err(|error| store_error(&error))?;
            store.delete(&key).await.map_err(|error| store_error(&error))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(store: &dyn SessionStore, tenant: &str, json: bool) -> Result<(), CliError> {
    let sessions = store.sessions(tenant, None, u32::MAX).await.map_err(|error| store_error(&error))?;
    if sessions.is_empty() && !json {
        terminal::write("no conversations: `haft run --session NAME` begins one\n")?;
    }
    for session in sessions {
        match json {
            true => terminal::write_json(&json!(session).to_string())?,
            false => terminal::write(&format!("{}\n", describe(&session)))?,
        }
    }
    Ok(())
}

fn describe(session: &Session) -> String {
    let title = session.title.as_deref().map(|title| format!(", {title}")).unwrap_or_default();
    remove_control_chars(&format!("{}: {} entries{title}", session.id, session.entries))
}

async fn show(
    store: &dyn SessionStore,
    key: &SessionKey,
    no_tools: bool,
    json: bool,
) -> Result<(), CliError> {
    let mut after = 0;
    loop {
        let page = store.entries(key, after, 200).await.map_err(|error| store_error(&error))?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.position;
        for entry in page.iter().filter(|entry| !(no_tools && entry.is_tool_traffic())) {
            match json {
                true => terminal::write_json(&json!(entry).to_string())?,
                false => terminal::write(&block(entry))?,
            }
        }
    }
}

/// Returns the text of an entry: its role, its calls and its text.
fn block(entry: &Entry) -> String {
    let Some(message) = entry.message() else {
        return "── back to an earlier message ──\n".to_owned();
    };
    let calls = message.tool_calls().iter();
    let calls = calls.map(|call| format!("{}: call {} {}\n", role(message), call.name, call.arguments));
    let mut block: String = calls.collect();
    let text = message.text();
    if !text.trim().is_empty() {
        block += &format!("{}: {}\n", role(message), text.trim_end());
    }
    remove_control_chars(&block)
}

fn role(message: &Message) -> &str {
    match message.body() {
        MessageBody::System { .. } => "system",
        MessageBody::User { .. } => "user",
        MessageBody::Assistant(_) => "assistant",
        MessageBody::Tool(result) => &result.name,
    }
}

async fn search(store: &dyn SessionStore, tenant: &str, words: &str) -> Result<(), CliError> {
    let hits = store.search(tenant, words, 50).await;
    for hit in hits.map_err(|error: StoreError| store_error(&error))? {
        let Some(message) = hit.entry.message() else { continue };
        let line: String = message.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String = line.chars().take(MAX_LINE_CHARS).collect();
        let line = format!("{} #{} {}: {line}", hit.session, hit.entry.position, role(message));
        terminal::write(&format!("{}\n", remove_control_chars(&line)))?;
    }
    Ok(())
}
