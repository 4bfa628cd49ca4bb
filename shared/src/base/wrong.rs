//! Findings of a check: a mistake, and its place in the file.

/// One mistake, at a place inside its file.
///
/// A check names the place by a JSON pointer, such as `/effects/1/needs/0`. It need not exist: where a
/// field is missing, the nearest place above it is shown. So the types stay plain, and only a file
/// with a mistake is read a second time to find the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// A JSON pointer into the file, or into the part that was checked.
    pub at: String,
    /// The mistake, as a sentence.
    pub what: String,
    /// A correct value, where it can be guessed.
    pub hint: Option<String>,
}

impl Wrong {
    /// A mistake at this pointer.
    pub fn at(pointer: impl Into<String>, what: impl Into<String>) -> Self {
        Wrong { at: pointer.into(), what: what.into(), hint: None }
    }

    /// The mistake with a hint at a correct value.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Wrong { hint: Some(hint.into()), ..self }
    }

    /// The mistake as seen from further up: `/base` under `/retry` is `/retry/base`.
    #[must_use]
    pub fn under(self, pointer: &str) -> Self {
        Wrong { at: format!("{pointer}{}", self.at), ..self }
    }
}

/// A name as one step of a JSON pointer.
pub fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
