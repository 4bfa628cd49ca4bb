//! What holds of the project's own files: its layout, its names, its log messages, its documents.

mod logs;
mod rooms;
