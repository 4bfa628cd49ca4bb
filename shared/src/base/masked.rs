//! The boundary between what people wrote and what is printed.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// A value that is never printed: a payload, an answer, a contact's field. It is read and written as it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Masked<T>(pub T);

/// What is printed in the place of a value.
pub const MASK: &str = "(masked)";

impl<T> fmt::Debug for Masked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T> fmt::Display for Masked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T> Deref for Masked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Masked<T> {
    fn from(value: T) -> Self {
        Masked(value)
    }
}

/// Prints a type with these of its fields alone. What is left out holds what people wrote; a field that is added later is
/// left out, too.
#[macro_export]
macro_rules! prints_only {
    ($type:ty as $name:literal $(, $field:ident)*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name)$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

pub use prints_only;

#[cfg(test)]
mod tests {
    use super::*;

    struct Letter {
        id: u32,
        body: String,
    }

    prints_only!(Letter as "Letter", id);

    #[test]
    fn what_is_masked_is_not_printed() {
        let letter = Letter { id: 7, body: "ada@example.com".into() };
        assert_eq!(format!("{letter:?}"), "Letter { id: 7, .. }");
        let masked = Masked(letter.body);
        assert_eq!((format!("{masked:?}"), masked.to_string(), masked.len()), (MASK.into(), MASK.into(), 15));
    }
}
