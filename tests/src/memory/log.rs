//! What is logged, kept in memory.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once};

use serde_json::Value;
use tracing::subscriber::set_global_default;

/// Everything that this thread logs from now on, at every level.
///
/// One subscriber for the whole process, and a buffer a thread: with a subscriber a thread, what a test
/// without one logged first would count as off for all.
pub(crate) struct Log;

thread_local! {
    static LOGGED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

impl Log {
    pub(crate) fn capture() -> Self {
        static LISTEN: Once = Once::new();
        LISTEN.call_once(|| {
            let subscriber = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
            set_global_default(subscriber.with_writer(|| Writer).finish()).expect("nobody else listens");
        });
        LOGGED.set(Some(Vec::new()));
        Log
    }

    pub(crate) fn text(&self) -> String {
        LOGGED.with_borrow(|logged| String::from_utf8_lossy(logged.as_deref().unwrap_or_default()).into_owned())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LOGGED.set(None);
    }
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.iter_mut().for_each(|logged| logged.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that a subscriber of a test's own writes.
#[derive(Clone, Default)]
pub(super) struct WrittenLog(Arc<Mutex<Vec<u8>>>);

impl WrittenLog {
    pub(super) fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.0.lock().expect("not poisoned")).into_owned();
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

impl io::Write for WrittenLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
