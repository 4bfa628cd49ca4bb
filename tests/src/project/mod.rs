//! What holds of the project's own files: its layout, its names, its log messages, its documents.

mod defects;
mod documents;
mod filters;
mod logs;
mod names;
pub(crate) mod named_tests;
mod layout;
mod release;
mod verified;
mod workflows;
