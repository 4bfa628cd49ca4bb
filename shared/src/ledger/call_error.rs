//! Why a call failed, as the row keeps it: what came back, and what the partner said of it.

use std::fmt;

/// Why a call failed: what is known of it, and what the partner said.
#[derive(Clone, PartialEq, Eq)]
pub struct CallError {
    /// What came back, in our words: `answered 422`.
    told: String,
    /// What the partner said of it, with everything masked that is not its own.
    clue: Option<Clue>,
}

crate::base::masked::prints_only!(CallError as "CallError", told);

/// A partner's words on what is wrong: a bounded excerpt, with the values of the event, results and secrets masked.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Clue {
    /// The partner's code of the error.
    pub code: Option<String>,
    /// The partner's sentence.
    pub message: Option<String>,
}

crate::base::masked::prints_only!(Clue as "Clue");

impl CallError {
    /// The same error, with what the partner said of it.
    #[must_use]
    pub fn with_clue(self, clue: Option<Clue>) -> Self {
        CallError { clue, ..self }
    }

    /// The same error, after these words of ours.
    #[must_use]
    pub fn after(self, words: &str) -> Self {
        CallError { told: format!("{words}{}", self.told), ..self }
    }

    /// What came back, without a word of the partner's: for logs.
    pub fn told(&self) -> &str {
        &self.told
    }

    /// What came back, and the partner's code: for the history, which has a line for each try. The row pays for each of
    /// them, so the sentence stands only once, in the entry of the effect.
    pub fn brief(&self) -> String {
        match self.clue.as_ref().and_then(|clue| clue.code.as_ref()) {
            Some(code) => format!("{} ({code})", self.told),
            None => self.told.clone(),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.brief())?;
        let message = self.clue.as_ref().and_then(|clue| clue.message.as_ref());
        message.map_or(Ok(()), |message| write!(f, ": {message}"))
    }
}

impl From<String> for CallError {
    fn from(told: String) -> Self {
        CallError { told, clue: None }
    }
}

impl From<&str> for CallError {
    fn from(told: &str) -> Self {
        told.to_owned().into()
    }
}

impl From<&CallError> for CallError {
    fn from(error: &CallError) -> Self {
        error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_told_once_and_the_code_with_each_try() {
        let clue = Clue { code: Some("21211".into()), message: Some("invalid number ***".into()) };
        let error = CallError::from("answered 400").with_clue(Some(clue)).after("looked up: ");
        assert_eq!(error.to_string(), "looked up: answered 400 (21211): invalid number ***");
        assert_eq!(error.brief(), "looked up: answered 400 (21211)");
        assert_eq!(error.told(), "looked up: answered 400");
        assert_eq!(CallError::from("answered 503").to_string(), "answered 503");
    }
}
