//! Deliveries: one HTTP request of a sender, before it is verified.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

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
    /// The request as its sender made it, for schemes that sign more than the body.
    pub called: Called,
}

crate::base::masked::prints_only!(Delivery as "Delivery");

/// What the sender called: its method and its URL.
///
/// The host is never taken from a header. It is the one that the deployment is configured with, or the one by which API
/// Gateway has routed the request.
#[derive(Clone, Default)]
pub struct Called {
    /// The method.
    pub method: String,
    /// The part of the URL before our paths, such as `https://hooks.example.com`.
    pub base: String,
    /// The path, percent-decoded.
    pub path: String,
    /// The query, as it was sent, without its question mark.
    pub query: String,
}

crate::base::masked::prints_only!(Called as "Called", method);

/// What a URL's path cannot hold as it is.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

impl Called {
    /// The call of a whole URL by POST, for tools and tests.
    pub fn post(url: &str) -> Self {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        Called { method: "POST".into(), base: base.into(), path: String::new(), query: query.into() }
    }

    /// The URL, as a sender writes it that escapes nothing without need.
    pub fn url(&self) -> String {
        let path = utf8_percent_encode(&self.path, ESCAPED);
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{}{path}{mark}{}", self.base.trim_end_matches('/'), self.query)
    }

    /// The value of a parameter of the query, if it stands there once.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut values = form_urlencoded::parse(self.query.as_bytes()).filter(|(other, _)| other == name);
        let (_, value) = values.next()?;
        values.next().is_none().then(|| value.into_owned())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_the_configured_base_with_the_path_and_the_query_behind_it() {
        let called = |base: &str, path: &str, query: &str| {
            Called { method: "POST".into(), base: base.into(), path: path.into(), query: query.into() }.url()
        };
        assert_eq!(called("https://h", "/v1/events/shop", ""), "https://h/v1/events/shop");
        assert_eq!(
            called("https://h/", "/v1/events/shop/orders/paid", "a=b%20c"),
            "https://h/v1/events/shop/orders/paid?a=b%20c"
        );
        assert_eq!(called("https://h/hooks", "/a b/é?", ""), "https://h/hooks/a%20b/%C3%A9%3F");
    }

    #[test]
    fn a_parameter_that_stands_twice_is_none() {
        let value = |query: &str| Called { query: query.into(), ..Called::default() }.parameter("a");
        assert_eq!(value("b=1&a=x%20y+z"), Some("x y z".into()));
        assert_eq!((value("a=1&a=1"), value("b=1"), value("")), (None, None, None));
    }
}
