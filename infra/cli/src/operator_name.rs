//! The operator's name, which goes into the history of events.

use std::process::Command;

use shared::ledger::SignOff;

/// The operator's name, never empty and never too long. Of a long ARN the end is kept: a role's session is there.
pub(crate) fn operator_name(arn: Option<&str>, user: Option<&str>, host: &str) -> String {
    let user = user.filter(|user| !user.trim().is_empty()).unwrap_or("somebody");
    let name = arn.map_or_else(|| format!("{user}@{host}"), str::to_owned);
    match name.chars().count().checked_sub(SignOff::MAX_CHARS) {
        None | Some(0) => name,
        Some(over) => name.chars().skip(over).collect(),
    }
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    let named = Command::new("uname").arg("-n").output().ok();
    let name = named.and_then(|named| String::from_utf8(named.stdout).ok()).unwrap_or_default();
    if name.trim().is_empty() { "unknown".into() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_always_did_it() {
        assert_eq!(operator_name(Some("arn:aws:iam::1:user/ada"), Some("ada"), "m"), "arn:aws:iam::1:user/ada");
        assert_eq!(operator_name(None, Some("ada"), "desk"), "ada@desk");
        assert_eq!(operator_name(None, Some(" "), "desk"), "somebody@desk");
        let long = operator_name(Some(&format!("arn:{}/ada@example.com", "x".repeat(200))), None, "m");
        assert_eq!((long.chars().count(), long.ends_with("x/ada@example.com")), (SignOff::MAX_CHARS, true));
    }
}
