//! Ctrl-c ends the waiting, not the command: the command still prints its last sentence.

/// The result of the work; nothing, where ctrl-c came first.
pub(crate) async fn until_ctrl_c<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        Ok(()) = tokio::signal::ctrl_c() => None,
    }
}
