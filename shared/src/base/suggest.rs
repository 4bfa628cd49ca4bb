//! Suggestions for a name that is not known.

/// A sentence that suggests one of the `known` names instead of `name`.
pub fn suggest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    let slips = known.iter().filter(|other| is_slip(name, other));
    match slips.min_by_key(|other| distance(name, other)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there is none yet".into(),
        None if known.len() == 1 => format!("there is only {}", listed(&known)),
        None => format!("there are {}", listed(&known)),
    }
}

/// Names, as a sentence lists them: `` `a`, `b` and `c` ``.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Whether one name is a misspelling of the other: one letter in three differs, or one begins the other.
fn is_slip(name: &str, other: &str) -> bool {
    let longer = name.chars().count().max(other.chars().count());
    begins(name, other) || distance(name, other) <= (longer / 3).max(1)
}

fn begins(name: &str, other: &str) -> bool {
    name.len().min(other.len()) > 2 && (other.starts_with(name) || name.starts_with(other))
}

/// The number of letters in which two names differ. Capitals are no difference.
fn distance(name: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_seen() {
        let fields = ["id", "needs", "guarantee", "integration"];
        for (name, meant) in [
            ("need", "needs"),
            ("guarantie", "guarantee"),
            ("intergration", "integration"),
            ("integ", "integration"),
            ("ID", "id"),
        ] {
            assert_eq!(suggest(name, fields), format!("did you mean `{meant}`?"));
        }
    }

    #[test]
    fn otherwise_all_that_are_known_are_listed() {
        assert_eq!(suggest("colour", ["b", "a", "c"]), "there are `a`, `b` and `c`");
        assert_eq!(suggest("colour", ["crm"]), "there is only `crm`");
        assert_eq!(suggest("colour", []), "there is none yet");
    }
}
