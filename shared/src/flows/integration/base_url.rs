//! Base URLs: the only place in the flow files that names a host.

use super::super::template::{Values, climbs, render_encoded};
use super::super::vars::Vars;

/// The base URL with its variables in their places, or what is wrong with it.
pub(super) fn render(written: &str, vars: &Vars) -> Result<String, String> {
    let url = render_encoded(written, &Values::of_vars(vars.plain()));
    let url = url.map_err(|error| format!("base_url cannot be rendered: {error}"))?;
    check(&url).map_or(Ok(url), |what| Err(what.to_owned()))
}

/// What is wrong with a base URL, if something is.
fn check(url: &str) -> Option<&'static str> {
    let Some(rest) = url.strip_prefix("https://") else { return Some("base_url must start with https://") };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if rest.contains(['?', '#', '\\']) || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("base_url takes no query and no fragment: write `query`, or the path of a request");
    }
    if !is_authority(authority) {
        return Some("base_url must name a host of letters, digits, - and .: a variable there may hold nothing else");
    }
    climbs(path).then_some("base_url has a step . or .. in its path")
}

/// Whether this is a host with or without a port, and nothing else: no user, no password, nothing encoded.
pub(in crate::flows) fn is_authority(authority: &str) -> bool {
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    let label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        plain && !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(label) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::Var;
    use super::*;

    fn rendered(written: &str, value: &str) -> Option<String> {
        let vars = Vars::from_iter([("v".to_owned(), Var::Plain(json!(value)))]);
        render(written, &vars).ok()
    }

    #[test]
    fn a_variable_has_its_place_in_the_host_or_the_path() {
        let host = |value| rendered("https://{{ vars.v }}.api.example.com/3.0", value);
        assert_eq!(host("us21").as_deref(), Some("https://us21.api.example.com/3.0"));
        for bad in ["", "a/b", "a@b", "evil.com/", "evil.com#", "a:1@", "ä", "a b", "-a", "a..b", "%2e", "a\r\nb"] {
            assert_eq!(host(bad), None, "{bad}");
        }
        let path = |value| rendered("https://api.example.com/accounts/{{ vars.v }}", value);
        assert_eq!(path("AC 1/2").as_deref(), Some("https://api.example.com/accounts/AC%201%2F2"));
        assert_eq!(path(".."), None);
    }

    #[test]
    fn what_is_no_base_url_is_told() {
        for good in ["https://a.example.com", "https://a.example.com:8443/v1", "https://localhost/v1/"] {
            assert_eq!(check(good), None, "{good}");
        }
        for bad in [
            "http://a.example.com",
            "https://",
            "https:///a",
            "https://user:secret@a.example.com",
            "https://a.example.com?x=1",
            "https://a.example.com/#x",
            "https://a.example.com:0",
            "https://a.example.com:99999",
            "https://a_b.example.com",
            "https://a.example.com/../b",
            "https://a.example.com\\b",
        ] {
            assert!(check(bad).is_some(), "{bad}");
        }
    }
}
