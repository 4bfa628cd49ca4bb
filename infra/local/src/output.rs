//! Printing on standard output.

use std::io::Write;

/// Prints a text. Where its reader is gone, as `head` goes, nobody wants the rest.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
