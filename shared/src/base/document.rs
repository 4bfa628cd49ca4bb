//! A small document that is read and written as a whole.

/// A document as it is stored, with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of writes. It never goes back.
    pub version: u64,
    /// The document, as JSON.
    pub text: String,
}
