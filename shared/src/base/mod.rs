//! The types that every room stands on. They know of no room.

pub mod document;
pub mod errors;
pub mod format;
pub mod id;
pub mod machine;
pub mod mask;
pub mod masked;
pub mod retention;
pub mod sample_rate;
pub mod time;
pub mod trace;
pub mod span_ids;
pub mod visible;

pub mod locate;
pub mod suggest;
pub mod wrong;
