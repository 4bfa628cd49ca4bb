//! Ctrl-c ends waiting, not the command: what there is to say is still said.

/// What the work comes to; nothing, where ctrl-c came first.
pub(crate) async fn until_ctrl_c<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        Ok(()) = tokio::signal::ctrl_c() => None,
    }
}
