//! Deliveries: one HTTP request of a sender, before it is verified.

use std::collections::BTreeMap;

/// A webhook as it arrived. Nothing in it is trusted until [`crate::arrival::signature::verify`] made a
/// [`Verified`](crate::arrival::signature::Verified) of it.
#[derive(Clone)]
pub struct Delivery {
    /// The sender's name, from the path.
    pub source: String,
    /// The event's type, if the path names it.
    pub event_type: Option<String>,
    /// The request's headers.
    pub headers: Headers,
    /// The body's bytes, as they were signed.
    pub body: Vec<u8>,
}

crate::base::masked::prints_only!(Delivery as "Delivery");

/// Header fields under lower-case names.
#[derive(Clone, Default)]
pub struct Headers(BTreeMap<String, String>);

crate::base::masked::prints_only!(Headers as "Headers");

impl Headers {
    /// The value of a header, whatever the case of its name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into())).collect())
    }
}
