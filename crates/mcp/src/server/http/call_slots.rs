//! The limit of calls in progress.

use haft_http::server::{ClientKey, ClientSlot, ClientSlots};
use rmcp::{
    RoleServer,
    model::{ErrorCode, ErrorData},
    service::RequestContext,
};

/// The code of the JSON-RPC error for a call beyond the limit: the first code for errors of servers
/// (JSON-RPC 2.0, section 5.1).
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32000);

/// Returns a slot of `slots` for the call of the request `cx`, or `None` if the number of calls is
/// not limited.
///
/// # Errors
///
/// Returns a JSON-RPC error if the client has too many calls in progress.
pub(crate) fn acquire_slot(
    slots: Option<&ClientSlots>,
    cx: &RequestContext<RoleServer>,
) -> Result<Option<ClientSlot>, ErrorData> {
    let Some(slots) = slots else { return Ok(None) };
    let parts = cx.extensions.get::<::http::request::Parts>();
    let client = parts.and_then(|parts| parts.extensions.get::<ClientKey>().cloned());
    let slot = slots.acquire(client.unwrap_or(ClientKey::Unknown)).ok_or_else(|| {
        let max = slots.max();
        let message = format!("too many calls in progress, at most {max} per client: repeat the call later");
        ErrorData::new(TOO_MANY_CALLS, message, None)
    })?;
    Ok(Some(slot))
}
