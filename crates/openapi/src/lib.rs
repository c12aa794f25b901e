#![doc = include_str!("../README.md")]

mod credentials;
mod definition;
mod document;
mod error;
mod http;
mod number;
mod operation;
mod operation_filter;
mod options;
mod request;
mod result;
mod schema;
mod source;
mod tool;

pub use credentials::Credentials;
pub use error::OpenApiError;
pub use operation_filter::OperationFilter;
pub use options::OpenApiOptions;
pub use source::OpenApiSource;
