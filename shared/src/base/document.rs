//! Small documents that are read and written as a whole: the switchboard, the batches of replays.

use async_trait::async_trait;

use super::errors::{Unavailable, WriteError};
use super::format::{FORMAT, newer};

/// A document of its own kind, of which there is one.
pub trait Document: Send + Sync {
    /// The name that the document is stored under.
    const NAME: &'static str;

    /// The document, as JSON.
    fn text(&self) -> String;
}

/// A document as it is stored, with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of writes. It never goes back.
    pub version: u64,
    /// The format that the document was written in.
    pub format: u32,
    /// The document, as JSON.
    pub text: String,
}

impl Stored {
    /// The document's text, to be changed and written again. What a newer version wrote is not: this version would drop
    /// what it does not know.
    pub fn to_change(&self) -> Result<&str, String> {
        if self.format > FORMAT { Err(newer(self.format)) } else { Ok(&self.text) }
    }
}

/// The store of one document.
#[async_trait]
pub trait DocumentStore<D: Document>: Send + Sync {
    /// The document as it is now, or `None` before the first write.
    async fn read(&self) -> Result<Option<Stored>, Unavailable>;

    /// Writes the document in the place of the version that was seen, 0 where there was none, and returns the
    /// new version. `Fenced` if another writer was faster, `NewerFormat` if a newer version of the code wrote it.
    async fn put(&self, document: &D, seen: u64) -> Result<u64, WriteError>;
}
