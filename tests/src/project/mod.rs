//! What holds of the project's own files: its layout, its names, its documents.

mod rooms;
