//! Behaviour of runs and agents.

mod agent;
mod tools;
