use std::net::IpAddr;

use haft_core::tool::Principal;

use super::{ClientAddress, ClientKey, ClientSlots};

fn by_address(address: &str) -> ClientKey {
    ClientKey::new(None, Some(ClientAddress(address.parse::<IpAddr>().unwrap())))
}

#[test]
fn client_is_its_principal_or_its_network() {
    assert_eq!(by_address("192.0.2.7"), by_address("::ffff:192.0.2.7"));
    assert_ne!(by_address("192.0.2.7"), by_address("192.0.2.8"));
    assert_eq!(by_address("2001:db8:1:2::7"), by_address("2001:db8:1:2:ffff::"));
    assert_ne!(by_address("2001:db8:1:2::7"), by_address("2001:db8:1:3::7"));
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let address = Some(ClientAddress([192, 0, 2, 7].into()));
    assert_eq!(ClientKey::new(Some(&ann), address), ClientKey::Principal("ann".to_owned()));
}

#[test]
fn slots_are_counted_per_client_and_freed() {
    let slots = ClientSlots::new(2);
    let first = slots.acquire(by_address("192.0.2.7"));
    let second = slots.acquire(by_address("192.0.2.7"));
    assert!(first.is_some() && second.is_some());
    assert!(slots.acquire(by_address("192.0.2.7")).is_none());
    assert!(slots.acquire(by_address("192.0.2.8")).is_some());
    drop(first);
    assert!(slots.acquire(by_address("192.0.2.7")).is_some());
    drop(second);
    assert!(slots.in_use.lock().unwrap().is_empty());
}
