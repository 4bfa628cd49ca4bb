//! The ports on AWS, over HTTP and on the machine. Only a `main.rs` builds these.

pub mod machine;

#[cfg(feature = "otlp")]
pub mod otlp;

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "aws")]
mod authorize;
#[cfg(feature = "aws")]
mod geoip;
#[cfg(feature = "aws")]
mod http;
#[cfg(feature = "aws")]
mod bounded_stream;
#[cfg(feature = "aws")]
mod token_crypto;
#[cfg(feature = "lambda")]
pub mod lambda;

#[cfg(feature = "aws")]
pub use geoip::{MaxMindPlaces, PlacesError};
#[cfg(feature = "aws")]
pub use http::{HttpPartners, LazyPool};
#[cfg(feature = "aws")]
pub use token_crypto::AwsLcCrypto;
