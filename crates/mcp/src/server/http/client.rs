use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::tool::Principal;
use rmcp::{
    RoleServer,
    model::{ErrorCode, ErrorData},
    service::RequestContext,
};

/// The code of the JSON-RPC error for a call beyond the limit: the first code for errors of servers
/// (JSON-RPC 2.0, section 5.1).
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32000);

/// The address of a client, as an extension of an HTTP request to an
/// [`McpService`](crate::McpService).
///
/// [`serve_http`](crate::serve_http) adds the address of the connection. A service in another
/// router needs it for the limits of clients without authentication: without an address, all of
/// them share one limit. Behind a reverse proxy, a layer of the program inserts the address that
/// the proxy reports. IPv6 addresses are grouped by /64 prefix.
///
/// # Examples
///
/// ```
/// use haft_mcp::ClientAddress;
/// use http::Request;
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(ClientAddress([192, 0, 2, 7].into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a newtype that programs construct")]
pub struct ClientAddress(pub IpAddr);

/// The identity of a client for limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientKey {
    /// The id of a principal.
    Principal(String),
    /// The address of a client without authentication.
    Address(IpAddr),
    /// All clients without an address.
    Unknown,
}

impl ClientKey {
    pub(super) fn new(principal: Option<&Principal>, address: Option<ClientAddress>) -> Self {
        match (principal, address) {
            (Some(principal), _) => Self::Principal(principal.id.clone()),
            (None, Some(ClientAddress(IpAddr::V6(address)))) if address.to_ipv4_mapped().is_none() => {
                let [a, b, c, d, ..] = address.segments();
                Self::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            (None, Some(ClientAddress(address))) => Self::Address(address.to_canonical()),
            (None, None) => Self::Unknown,
        }
    }
}

/// The calls in progress, or the open connections, of each client, with a maximum number per
/// client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSlots {
    max: usize,
    in_use: Arc<Mutex<HashMap<ClientKey, usize>>>,
}

/// A slot of a call or of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    slots: ClientSlots,
    client: ClientKey,
}

impl ClientSlots {
    pub(super) fn new(max: usize) -> Self {
        Self { max, in_use: Arc::default() }
    }

    /// Returns a slot of `client`, or `None` if all of them are in use.
    pub(super) fn acquire(&self, client: ClientKey) -> Option<ClientSlot> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let count = in_use.get(&client).copied().unwrap_or_default();
        if count >= self.max {
            return None;
        }
        in_use.insert(client.clone(), count + 1);
        Some(ClientSlot { slots: self.clone(), client })
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut in_use = self.slots.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        match in_use.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(in_use.remove(&self.client)),
        }
    }
}

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
        let max = slots.max;
        let message = format!("too many calls in progress, at most {max} per client: repeat the call later");
        ErrorData::new(TOO_MANY_CALLS, message, None)
    })?;
    Ok(Some(slot))
}

#[cfg(test)]
mod tests;
