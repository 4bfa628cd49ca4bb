//! What holds of the project's own files: its layout, its names, its log messages, its documents.

mod documents;
mod logs;
mod names;
mod layout;
