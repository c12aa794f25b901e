use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::tool::Principal;
/// The address of a client, as an extension of an HTTP request to [`Access`](super::Access).
///
/// [`serve`](super::serve) adds the address of the connection. Another server must insert it for
/// the limits of clients without authentication: without an address, all of them share one limit.
/// Behind a reverse proxy, a layer of the program inserts the address that the proxy reports. IPv6
/// addresses are grouped by /64 prefix.
///
/// # Examples
///
/// ```
/// use haft_http::server::ClientAddress;
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
#[non_exhaustive]
pub enum ClientKey {
    /// The id of a principal.
    Principal(String),
    /// The address of a client without authentication. See [`ClientKey::new`].
    Address(IpAddr),
    /// All clients without an address.
    Unknown,
}

impl ClientKey {
    /// Returns the identity of a client: its principal, or else its address. The key of an IPv6
    /// address is its /64 prefix, and that of an IPv4-mapped one is the IPv4 address.
    pub fn new(principal: Option<&Principal>, address: Option<ClientAddress>) -> Self {
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
/// client. Clones share the counts.
///
/// # Examples
///
/// ```
/// use haft_http::server::{ClientKey, ClientSlots};
///
/// let slots = ClientSlots::new(1);
/// let first = slots.acquire(ClientKey::Unknown);
/// assert!(first.is_some() && slots.acquire(ClientKey::Unknown).is_none());
/// drop(first);
/// assert!(slots.acquire(ClientKey::Unknown).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct ClientSlots {
    max: usize,
    in_use: Arc<Mutex<HashMap<ClientKey, usize>>>,
}

/// A slot of a [`ClientSlots`], for a call or a connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ClientSlot {
    slots: ClientSlots,
    client: ClientKey,
}

impl ClientSlots {
    /// Permits `max` slots per client.
    pub fn new(max: usize) -> Self {
        Self { max, in_use: Arc::default() }
    }

    /// Returns the maximum number of slots per client.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns a slot of `client`, or `None` if all of them are in use.
    pub fn acquire(&self, client: ClientKey) -> Option<ClientSlot> {
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

#[cfg(test)]
mod tests;
