//! A partner may ask for patience in any words: we wait for a bounded time.

use std::time::Duration;

use bolero::check;
use shared::base::time::Timestamp;
use shared::effects::outcome::{Outcome, classify};
use shared::flows::{Guarantee, PartnerAnswer};

use super::each;
use super::payload::Spoiled;
use crate::fixtures::flows;
use crate::memory::policy;

const SEEDS: [&str; 6] = [
    "120",
    "0",
    "18446744073709551615",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Wed, 21 Oct 2026 07:28:00 +0200",
];

const WORDS: &[&str] =
    &["-", "+", " ", "0", "9999999999", "GMT", "EST", "+1400", ":60", "Feb", "30", "31", "1.5", "e9", "inf", "\t", "("];

/// The longest that the queue can hide a message, from its first receive on.
const HIDDEN_AT_MOST: Duration = Duration::from_secs(12 * 3600);

/// The most seconds that a number with a fraction holds exactly.
const EXACT: u64 = 1 << 53;

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[test]
fn target() {
    let policy = policy();
    let flows = flows();
    let effect = &flows.flow("lead-routing").expect("a shipped flow").effects[0];
    each(check!(), |(spoiled, now, attempt): &(Spoiled, i64, u32)| {
        let now = Timestamp::from_millis(*now);
        let text = spoiled.text(&SEEDS, WORDS);
        let headers = [("retry-after".to_owned(), text.clone())].into();
        let answer = PartnerAnswer { status: 429, headers, body: None };
        let Outcome::Retryable { retry_after, .. } = classify(&Ok(answer), &flows, effect, Guarantee::None, now) else {
            panic!("429 is not retryable");
        };
        if let Some(seconds) = digits(&text).filter(|seconds| *seconds <= EXACT) {
            assert_eq!(retry_after, Some(Duration::from_secs(seconds)), "{text}");
        }
        let delay = policy.delay(*attempt, 1.0, retry_after);
        assert!(delay >= policy.delay(*attempt, 1.0, None), "{text}: asking for patience makes us hasty");
        assert!(delay <= HIDDEN_AT_MOST / 2, "{text}: {delay:?}");
        assert!(now + delay >= now, "{text}: into the past");
    });
}
