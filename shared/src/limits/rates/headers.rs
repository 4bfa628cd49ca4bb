//! The rate limit's headers in the answer to a sender.

use std::time::Duration;

use super::limiter::Decision;

impl Decision {
    /// The headers `RateLimit-Policy` and `RateLimit`, and `Retry-After` for a throttled sender, as
    /// draft-ietf-httpapi-ratelimit-headers-11 writes them: `"sender";q=600;w=60` is the policy of
    /// that name, `"sender";r=50;t=30` says that no more than 50 will be admitted in 30 seconds.
    ///
    /// Times are whole seconds, rounded up: a sender that comes back then does not come too early.
    pub fn headers(&self, policy: &str) -> Vec<(&'static str, String)> {
        let policy = quoted(policy);
        let (rate, remaining, reset) = match self {
            Decision::Admitted { rate, remaining, reset } => (rate, *remaining, *reset),
            Decision::Throttled { rate, retry_after } => (rate, 0, *retry_after),
        };
        let (quota, window, reset) = (rate.count(), seconds(rate.per()), seconds(reset));
        let mut headers = vec![
            ("ratelimit-policy", format!("{policy};q={quota};w={window}")),
            ("ratelimit", format!("{policy};r={remaining};t={reset}")),
        ];
        if let Decision::Throttled { .. } = self {
            headers.push(("retry-after", reset.to_string()));
        }
        headers
    }
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// A string of RFC 9651: printable ASCII, with its quotes and backslashes escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars().filter(|c| matches!(c, ' '..='~')) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::Rate;
    use super::*;

    fn rate() -> Rate {
        Rate::new(600, Duration::from_secs(60), 50).expect("a good rate")
    }

    #[test]
    fn whoever_is_admitted_learns_what_is_left() {
        let admitted = Decision::Admitted { rate: rate(), remaining: 49, reset: Duration::from_millis(100) };
        let expected = [("ratelimit-policy", r#""sender";q=600;w=60"#), ("ratelimit", r#""sender";r=49;t=1"#)];
        assert_eq!(admitted.headers("sender"), expected.map(|(name, value)| (name, value.to_owned())));
        let full = Decision::Admitted { rate: rate(), remaining: 50, reset: Duration::ZERO };
        assert_eq!(full.headers("sender")[1].1, r#""sender";r=50;t=0"#);
    }

    #[test]
    fn whoever_is_denied_learns_when_to_come_back_and_not_too_early() {
        for (millis, seconds) in [(1, "1"), (999, "1"), (1000, "1"), (1001, "2"), (59_999, "60")] {
            let denied = Decision::Throttled { rate: rate(), retry_after: Duration::from_millis(millis) };
            let headers = denied.headers("sender");
            assert_eq!(headers[1], ("ratelimit", format!(r#""sender";r=0;t={seconds}"#)));
            assert_eq!(headers[2], ("retry-after", seconds.to_owned()));
        }
    }

    #[test]
    fn a_policy_has_a_name_that_every_parser_reads() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        assert_eq!(quoted("é\nx\u{7f}"), r#""x""#);
    }
}
