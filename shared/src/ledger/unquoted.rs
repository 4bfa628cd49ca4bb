//! Lines of the ledger for people who may only look: without what partners, functions and operators said.

/// What stands in the place of the words that are left out.
const HIDDEN: &str = "***";

/// A line of the history, or an error, in our own words alone. Of an answer the status stays, with the partner's code, and
/// of an operator's change the change; what the partner or the function said, and who changed it and why, is left out.
pub fn unquoted(line: &str) -> String {
    let own = before_sign_off(line).or_else(|| before_words(line));
    own.map_or_else(|| line.to_owned(), |own| format!("{own}{HIDDEN}"))
}

/// The line as far as an operator's name and reason, if it ends with them.
fn before_sign_off(line: &str) -> Option<&str> {
    if line.ends_with(SAYS_NOT) {
        return Some("");
    }
    let signed = [", says ", " by "].into_iter().find_map(|word| Some(&line[..line.find(word)? + word.len()]));
    signed.filter(|own| own.ends_with(", says ") || CHANGES.iter().any(|change| own.starts_with(change)))
}

/// The changes that operators sign.
const CHANGES: [&str; 5] = ["replay ", "wake ", "dropped ", "approved ", "rejected "];

/// The end of the error of an effect that did not happen, as an operator says. The operator's name stands before it.
pub(super) const SAYS_NOT: &str = " says that it did not happen";

/// The line as far as what a partner or a function said, if it says that one answered.
fn before_words(line: &str) -> Option<&str> {
    let answered = line.find(ANSWERED)? + ANSWERED.len();
    let words = line[answered..].find(": ")? + ": ".len();
    Some(&line[..answered + words])
}

/// The word by which every error begins that may quote.
const ANSWERED: &str = "answered ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_said_is_left_out_and_our_own_words_stay() {
        for (line, shown) in [
            ("answered 400 (21211): The number of Ada is wrong", "answered 400 (21211): ***"),
            ("looked up: answered 403: scope `ada` is missing", "looked up: answered 403: ***"),
            ("crm 1: credentials rejected: answered 401: no: key", "crm 1: credentials rejected: answered 401: ***"),
            ("answered 200 without its result `code`: Ada", "answered 200 without its result `code`: ***"),
            ("the function answered failed: no such list", "the function answered failed: ***"),
            (
                "awaiting approval: the question was not posted (Slack: answered 500: Ada)",
                "awaiting approval: the question was not posted (Slack: answered 500: ***",
            ),
            ("replay 2 by ada: Ada Lovelace called", "replay 2 by ***"),
            ("wake 1 by ada: she called", "wake 1 by ***"),
            ("dropped by ada: x by y", "dropped by ***"),
            ("approved by U024BE7LH: answered 200: yes", "approved by ***"),
            ("rejected by ada: no", "rejected by ***"),
            ("crm happened, says ada: it is there", "crm happened, says ***"),
            ("crm did not happen, says ada by bob: no", "crm did not happen, says ***"),
            ("ada says that it did not happen", "***"),
        ] {
            assert_eq!(unquoted(line), shown, "{line}");
        }
        for own in [
            "accepted",
            "crm 1: done",
            "crm 1: answered 422 (E1)",
            "dead: terminal",
            "wake 1",
            "noop: consent",
            "deferred for 30000 ms: credentials rejected",
            "no answer: timed out after 3000 ms",
            "the event does not match the schema: /data/campaign breaks `type`",
            "Lambda answered 403 AccessDeniedException",
            "waiting for integration crm: breaker open",
        ] {
            assert_eq!(unquoted(own), own);
        }
    }
}
