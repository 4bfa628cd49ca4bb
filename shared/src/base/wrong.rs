//! What a check says: where it found something wrong, and what.

/// One thing that is wrong, at a place inside its file.
///
/// A check names the place by a JSON pointer, such as `/effects/1/needs/0`. It need not exist: where a
/// field is missing, the nearest place above it is shown. So the types stay plain, and only a file
/// that is wrong is read a second time to find the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// A JSON pointer into the file, or into the part that was checked.
    pub at: String,
    /// What is wrong, as a sentence.
    pub what: String,
    /// What would be right, where that can be guessed.
    pub hint: Option<String>,
}

impl Wrong {
    /// Something wrong at this pointer.
    pub fn at(pointer: impl Into<String>, what: impl Into<String>) -> Self {
        Wrong { at: pointer.into(), what: what.into(), hint: None }
    }

    /// With what would be right.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Wrong { hint: Some(hint.into()), ..self }
    }

    /// As seen from further up: `/base` under `/retry` is `/retry/base`.
    #[must_use]
    pub fn under(self, pointer: &str) -> Self {
        Wrong { at: format!("{pointer}{}", self.at), ..self }
    }
}

/// A name as one step of a JSON pointer.
pub(crate) fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
