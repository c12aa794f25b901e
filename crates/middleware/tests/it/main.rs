//! Integration tests of `haft-middleware`.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod layer_errors;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod read_result;
