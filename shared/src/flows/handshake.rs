//! Handshakes: how a sender asks whether an address is really the one that was meant.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Field;
use crate::base::wrong::Wrong;

/// A sender's handshake. It is answered and never stored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Handshake {
    /// The method by which the sender asks. What it asks by `POST` is signed like every delivery.
    pub method: HandshakeMethod,
    /// What tells a handshake from everything else: parameters of the query with their values, or fields of the body.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// The parameter of the query with the token that the sender and we share. Its secrets are those of
    /// `/<stack>/handshakes/<source>/`.
    #[serde(default)]
    pub token: Option<String>,
    /// The parameter of the query, or the field of the body, with the challenge that the sender wants back.
    #[serde(default)]
    pub challenge: Option<String>,
}

/// The method by which a sender asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "UPPERCASE")]
pub enum HandshakeMethod {
    /// A request without a body. Nothing signs it, so that it needs a token.
    Get,
    /// A delivery, signed as all are.
    Post,
    /// A request that only wants to know whether anybody is there. It says nothing, and is told nothing.
    Head,
}

/// The longest challenge that is sent back.
const MAX_CHALLENGE: usize = 256;

/// The challenge as it may be sent back: what senders use, and nothing that a browser could take for more than text.
fn bounded(challenge: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    ((1..=MAX_CHALLENGE).contains(&challenge.len()) && challenge.bytes().all(plain)).then_some(challenge)
}

/// A handshake that was recognised.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The token, where the handshake has one.
    pub token: Option<&'a str>,
    /// The challenge, if it is one that may be sent back.
    pub challenge: Option<&'a str>,
}

impl Handshake {
    /// The handshake in a query, whose parameters are these. One that stands twice is none.
    pub fn in_query<'q>(&self, query: &'q [(String, String)]) -> Option<Asked<'q>> {
        let value = |name: &str| {
            let mut found = query.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
            found.next().filter(|_| found.next().is_none())
        };
        let asks =
            self.method == HandshakeMethod::Get && self.when.iter().all(|(name, wanted)| value(name) == Some(wanted));
        let token = self.token.as_deref().and_then(value);
        asks.then(|| Asked { token, challenge: self.challenge.as_deref().and_then(value).and_then(bounded) })
    }

    /// The handshake in a verified body.
    pub fn in_body<'b>(&self, body: &'b Value) -> Option<Asked<'b>> {
        let value = |name: &str| name.parse::<Field>().ok()?.of(body)?.as_str();
        let asks =
            self.method == HandshakeMethod::Post && self.when.iter().all(|(name, wanted)| value(name) == Some(wanted));
        asks.then(|| Asked { token: None, challenge: self.challenge.as_deref().and_then(value).and_then(bounded) })
    }

    /// The mistakes in a handshake.
    pub(super) fn check(&self) -> Vec<Wrong> {
        let (get, head) = (self.method == HandshakeMethod::Get, self.method == HandshakeMethod::Head);
        let post = self.method == HandshakeMethod::Post;
        let field = |name: &&String| name.parse::<Field>().is_err();
        let says_nothing = self.when.is_empty() && self.token.is_none() && self.challenge.is_none();
        let wrong = [
            (get && self.token.is_none(), "/token", "nothing signs a GET: say which parameter holds the `token`"),
            (post && self.token.is_some(), "/token", "a POST is signed: leave out the `token`"),
            (head && !says_nothing, "", "a HEAD asks nothing: leave out all but the `method`"),
            (
                !head && self.when.is_empty(),
                "/when",
                "say what tells a handshake from an event: `when: {type: url_verification}`",
            ),
            (
                !head && self.challenge.as_ref().is_none_or(String::is_empty),
                "/challenge",
                "say where the challenge stands",
            ),
            (
                post && self.when.keys().chain(&self.challenge).any(|name| field(&name)),
                "",
                "a POST names fields of the body",
            ),
        ];
        wrong.into_iter().filter(|(wrong, ..)| *wrong).map(|(_, at, what)| Wrong::at(at, what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta() -> Handshake {
        serde_json::from_value(json!({
            "method": "GET", "when": {"hub.mode": "subscribe"}, "token": "hub.verify_token", "challenge": "hub.challenge",
        }))
        .expect("a handshake")
    }

    fn query(text: &str) -> Vec<(String, String)> {
        form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }

    #[test]
    fn a_handshake_is_known_by_its_parameters() {
        let good = query("hub.mode=subscribe&hub.challenge=115&hub.verify_token=t");
        assert_eq!(meta().in_query(&good), Some(Asked { token: Some("t"), challenge: Some("115") }));
        for other in
            ["", "hub.mode=unsubscribe&hub.challenge=1", "hub.mode=subscribe&hub.mode=subscribe&hub.challenge=1"]
        {
            assert_eq!(meta().in_query(&query(other)), None, "{other}");
        }
        let twice = query("hub.mode=subscribe&hub.challenge=1&hub.challenge=2&hub.verify_token=t&hub.verify_token=t");
        assert_eq!(meta().in_query(&twice), Some(Asked { token: None, challenge: None }));
    }

    #[test]
    fn only_what_is_plain_and_short_is_sent_back() {
        for good in ["1158201444", "3eZbrw1aB10FEMAGAZd4FyFQ", "a-b._~+/="] {
            assert_eq!(bounded(good), Some(good));
        }
        for bad in ["", "<script>", "a b", "a\nb", "é", "{{7*7}}", "\"", &"1".repeat(MAX_CHALLENGE + 1)] {
            assert_eq!(bounded(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_get_needs_a_token_and_a_post_needs_none() {
        assert_eq!(meta().check(), []);
        assert_eq!(Handshake { token: None, ..meta() }.check().len(), 1);
        assert_eq!(Handshake { method: HandshakeMethod::Post, ..meta() }.check().len(), 1);
        assert_eq!(Handshake { when: BTreeMap::new(), ..meta() }.check().len(), 1);
        assert_eq!(Handshake { challenge: None, ..meta() }.check().len(), 1);
    }

    #[test]
    fn a_head_asks_nothing() {
        let head: Handshake = serde_json::from_value(json!({"method": "HEAD"})).expect("a handshake");
        assert_eq!(head.check(), []);
        assert_eq!(Handshake { method: HandshakeMethod::Head, ..meta() }.check().len(), 1);
        assert_eq!(head.in_query(&query("hub.mode=subscribe&hub.challenge=1")), None);
        assert_eq!(head.in_body(&json!({"type": "url_verification"})), None);
    }
}
