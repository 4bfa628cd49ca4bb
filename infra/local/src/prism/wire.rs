//! A request as it goes over the wire, and its snapshot.

use std::fmt::Write as _;

/// A request to a partner, as the HTTP client sends it, without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// The HTTP method.
    pub method: String,
    /// The whole URL, with its query.
    pub url: String,
    /// The header fields, under lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body; empty where there is none.
    pub body: String,
}

impl WireRequest {
    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The same request without a header field.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    /// The same request with this value of a header field.
    #[must_use]
    pub fn with_header(self, name: &str, value: &str) -> Self {
        let mut request = self.without_header(name);
        request.headers.push((name.to_owned(), value.to_owned()));
        request
    }

    /// The request as text: what a snapshot holds.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}\n", self.method, self.url);
        for (name, value) in &self.headers {
            // Writing to a `String` never fails.
            let _ = writeln!(text, "{name}: {value}");
        }
        if !self.body.is_empty() {
            let _ = writeln!(text, "\n{}", self.body);
        }
        text
    }
}
