//! What the `local` command prints: texts on standard output, and errors.

use std::io::Write;

use shared::base::visible::on_lines;

/// Prints a text. Where its reader is gone, as `head` goes, nobody wants the rest.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// An error for a person: its sentence first, then each cause on a line of its own.
pub fn error_text(error: &anyhow::Error) -> String {
    let causes = error.chain().skip(1).map(|cause| format!("\nCause: {cause}"));
    on_lines(&format!("{error}{}", causes.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_says_what_to_do_before_its_causes() {
        let error = anyhow!("os error 98").context("port 8787 is not free: choose another");
        let error = error.context("the local cloud cannot start");
        let expected = "the local cloud cannot start\nCause: port 8787 is not free: choose another\nCause: os error 98";
        assert_eq!(error_text(&error), expected);
    }
}
