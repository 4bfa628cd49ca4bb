//! What every room stands on, and what knows of none of them.

pub mod document;
pub mod errors;
pub mod id;
pub mod machine;
pub mod mask;
pub mod retention;
pub mod time;
pub mod trace;

pub mod locate;
pub mod suggest;
pub mod wrong;
