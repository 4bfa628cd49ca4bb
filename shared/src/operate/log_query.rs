//! The query that finds an event's lines in CloudWatch Logs Insights, and the console's address with the query filled in.

use std::fmt::Write as _;
use std::time::Duration;

use super::aws_console::console;
use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// The functions in whose logs an event may be.
const FUNCTIONS: [&str; 3] = ["intake", "processor", "replay"];

/// Clocks differ a little, and lines are written after what they tell.
const MARGIN: Duration = Duration::from_secs(300);

/// The query for an event's lines, the oldest first.
pub fn query(event: &EventId) -> String {
    // An id of ours has no character that means something in a text; what is none finds nothing.
    let id: String = event.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let shown = "fields @timestamp, level, message, outcome, reason, attempt, request_id";
    format!("{shown}\n| filter event = \"{id}\"\n| sort @timestamp asc\n| limit 200")
}

/// The address of Logs Insights in a region, with the query for an event of this stack filled in.
pub fn address(region: &str, stack: &str, event: &EventId, from: Timestamp, until: Timestamp) -> String {
    let groups = FUNCTIONS.map(|function| format!("~'{}", escaped(&format!("/ledgerline/{stack}/{function}"))));
    let moment = |at: Timestamp| escaped(&at.to_string());
    format!(
        "{}#logsV2:logs-insights$3FqueryDetail$3D~(end~'{}~start~'{}~timeType~'ABSOLUTE~tz~'UTC~editorString~'{}~source~({}))",
        console(region),
        moment(until + MARGIN),
        moment(from - MARGIN),
        escaped(&query(event)),
        groups.concat(),
    )
}

/// The stack of a function with one of these names, by its ARN: `…:function:<stack>-replay`.
pub fn stack_of(function: &str) -> &str {
    // An alias may stand behind the name.
    let name = function.split(':').nth(6).unwrap_or(function);
    name.rsplit_once('-').map_or(name, |(stack, _)| stack)
}

/// A text as the console's addresses have it: with `*` and two digits for all that is not plain.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "*{byte:02x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_the_query_the_logs_and_the_time() {
        let at = Timestamp::from_secs(1_794_819_600);
        let event = EventId::named("1b16f576\"'~)");
        let address = address("eu-central-1", "shop-1", &event, at, at + MARGIN);
        assert!(
            address
                .starts_with("https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:")
        );
        assert!(address.contains("start~'2026-11-16T08*3a55*3a00.000Z~timeType"), "{address}");
        assert!(address.contains("end~'2026-11-16T09*3a10*3a00.000Z~start"), "{address}");
        assert!(address.contains("filter*20event*20*3d*20*221b16f576*22*0a"), "what is no id is no query: {address}");
        let groups = "source~(~'*2fledgerline*2fshop-1*2fintake~'*2fledgerline*2fshop-1*2fprocessor~'*2fledgerline*2fshop-1*2freplay))";
        assert!(address.ends_with(groups), "{address}");
    }

    #[test]
    fn a_function_is_called_after_its_stack() {
        for (arn, stack) in [
            ("arn:aws:lambda:eu-central-1:000000000000:function:shop-1-replay", "shop-1"),
            ("arn:aws:lambda:eu-central-1:000000000000:function:shop-1-replay:live", "shop-1"),
            ("ledgerline-console", "ledgerline"),
            ("replay", "replay"),
        ] {
            assert_eq!(stack_of(arn), stack);
        }
    }
}
