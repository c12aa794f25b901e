//! Behaviour of runs and agents.

mod agent;
mod answers;
mod cancellation;
mod faults;
mod json;
mod limits;
mod pairing;
mod parked;
mod property;
mod saved;
mod tools;
