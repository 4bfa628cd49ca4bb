//! Small documents that are read and written as a whole: the switchboard, the batches of replays.

use async_trait::async_trait;

use super::errors::{Unavailable, WriteError};

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
    /// The document, as JSON.
    pub text: String,
}

/// The store of one document.
#[async_trait]
pub trait DocumentStore<D: Document>: Send + Sync {
    /// The document as it is now, or `None` before the first write.
    async fn read(&self) -> Result<Option<Stored>, Unavailable>;

    /// Writes the document in the place of the version that was seen, 0 where there was none, and returns the
    /// new version. `Fenced` if another writer was faster.
    async fn put(&self, document: &D, seen: u64) -> Result<u64, WriteError>;
}
