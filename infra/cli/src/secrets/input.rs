//! A new secret: typed unseen, read from standard input, or made.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, bail, ensure};
use base64::prelude::*;

use super::{NewSecretArgs, SecretOwner};
use crate::output;

/// What a standard parameter holds.
const MAX_BYTES: usize = 4096;

/// A private key keeps its line breaks.
const PRIVATE_KEY: &str = "-----BEGIN ";

/// The secret that the arguments mean.
pub(super) fn secret(args: &NewSecretArgs) -> Result<String> {
    let secret = if args.generate { generated(&args.owner)? } else { entered(&args.owner)? };
    check(&args.owner, &secret)?;
    Ok(secret)
}

fn entered(owner: &SecretOwner) -> Result<String> {
    if std::io::stdin().is_terminal() {
        let prompt = format!("The secret of {owner} (what you type is not shown): ");
        return rpassword::prompt_password(prompt).context("nothing was changed: no secret could be read");
    }
    let mut text = String::new();
    let most = 16 * MAX_BYTES as u64;
    let read = std::io::stdin().take(most).read_to_string(&mut text);
    read.context("nothing was changed: standard input is no text")?;
    Ok(without_last_line_break(text))
}

/// `echo` and editors end a line that is none of the secret's.
fn without_last_line_break(text: String) -> String {
    if text.starts_with(PRIVATE_KEY) {
        return text;
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    line.strip_suffix('\r').unwrap_or(line).to_owned()
}

fn generated(owner: &SecretOwner) -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("nothing was changed: this system gives no random numbers")?;
    let secret = match owner {
        SecretOwner::Source(_) => format!("whsec_{}", BASE64_STANDARD.encode(bytes)),
        SecretOwner::Receipts(source) => format!("{source}.{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)),
        SecretOwner::Integration(_) | SecretOwner::Variable(..) => {
            bail!("nothing was changed: the partner gives out the secret of {owner}. Leave --generate out")
        }
    };
    Ok(secret)
}

fn check(owner: &SecretOwner, secret: &str) -> Result<()> {
    ensure!(!secret.is_empty(), "nothing was changed: the secret of {owner} is empty");
    ensure!(secret.len() <= MAX_BYTES, "nothing was changed: SSM keeps {MAX_BYTES} bytes, and this secret is longer");
    let control = secret.chars().any(char::is_control) && !secret.starts_with(PRIVATE_KEY);
    ensure!(!control, "nothing was changed: the secret of {owner} has a line break or another control character in it");
    if let SecretOwner::Receipts(source) = owner {
        let whole = secret.strip_prefix(&format!("{source}.")).is_some_and(|token| !token.is_empty());
        ensure!(whole, "nothing was changed: a token for receipts is written {source}.<secret>. Or use --generate");
    }
    Ok(())
}

/// Prints a secret that was made: the only time that it is seen.
pub(super) fn show_generated(args: &NewSecretArgs, secret: &str) {
    if args.generate {
        output::print_notice("This is the secret, once. Hand it to the sender by a safe way:\n");
        // Not through the printer of answers: a secret has no character that a terminal would obey.
        let _ = output::print_text(&format!("{secret}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> SecretOwner {
        SecretOwner::parse(text).expect("an owner")
    }

    #[test]
    fn a_line_ends_without_its_break_and_a_private_key_with_it() {
        for (text, secret) in [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a\n\n", "a\n")] {
            assert_eq!(without_last_line_break(text.into()), secret);
        }
        let key = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n";
        assert_eq!(without_last_line_break(key.into()), key);
        assert!(check(&owner("integrations/crm"), key).is_ok());
    }

    #[test]
    fn what_would_never_work_is_not_stored() {
        let long = "x".repeat(MAX_BYTES + 1);
        for (whose, secret) in [
            ("sources/web", ""),
            ("sources/web", "a\nb"),
            ("integrations/crm", "tab\t"),
            ("integrations/crm", long.as_str()),
            ("receipts/web", "token"),
            ("receipts/web", "web."),
            ("receipts/web", "other.token"),
        ] {
            assert!(check(&owner(whose), secret).is_err(), "{whose} {secret:?}");
        }
        assert!(check(&owner("receipts/web"), "web.token").is_ok());
    }

    #[test]
    fn what_is_made_is_random_and_of_the_right_form() {
        let (one, two) =
            (generated(&owner("sources/web")).expect("one"), generated(&owner("sources/web")).expect("two"));
        assert!(one.starts_with("whsec_") && one.len() == 50 && one != two);
        assert!(generated(&owner("receipts/web")).expect("a token").starts_with("web."));
        assert!(generated(&owner("integrations/crm")).is_err());
    }
}
